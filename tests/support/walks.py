"""The walks of CONTRIBUTING: the functions of the library that run one after another for one thing that users do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

SOURCE = "/gondwana/src/"
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
PUT = "A put of 8 bytes to a rank of the node"
FAR_PUT = "A put of 8 bytes to a rank of another node"
EXCHANGE = "An exchange of ghosts on a node"
SUM = "A sum over the ranks of a node"
CALL = "A remote call"
TO_HARDWARE = PUT, FAR_PUT, EXCHANGE, SUM, CALL
"""Walks from a public function to the hardware."""
START = "From `gondwana run -n 2 heat.py` to the first line of the program"


class Step(NamedTuple):
    """A function, and the file in the library's folder that defines it."""

    file: str
    function: str

    @property
    def name(self) -> str:
        """The function as a profile names it: module and qualified name."""
        return f"gondwana.{self.file.removesuffix('.py').replace('/', '.')}.{self.function}"


def walk(title: str) -> list[Step]:
    """Return the steps below a heading, which are numbered from 1. Local."""
    part = CONTRIBUTING.read_text(encoding="utf-8").split(f"\n### {title}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \| .+ \|$", part, re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, part.count("\n| ")))
    return [Step(file, function) for _, file, function in rows]


def first_missing(steps: Iterable[Step], called: Iterable[str]) -> Step | None:
    """Return the first step that was not called behind the steps before it, None if all were, in this order. Pure."""
    left = iter(called)
    return next((step for step in steps if step.name not in left), None)


def name_of(code: CodeType) -> str | None:
    """Return the name of a function of the library as that of a step, also in a module that is executed. Pure."""
    _, inside, file = code.co_filename.rpartition(SOURCE)
    return f"{file.removesuffix('.py').replace('/', '.')}.{code.co_qualname}" if inside else None


recorded: list[str] = []
"""The functions of the library that were called while `record` was at work."""


def record() -> None:
    """Record from now on the functions of the library that are called; `sys.setprofile(None)` ends that. Local."""
    recorded.clear()

    def see(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := name_of(frame.f_code)) is not None:
            recorded.append(name)

    sys.setprofile(see)
