"""The public names, their signatures and the options of commands change on purpose only: see `public_names.txt`."""

from __future__ import annotations

import difflib
import enum
import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

from support import jobs, public_names

FILE = Path(__file__).parents[1] / "public_names.txt"
SCRIPT = Path(public_names.__file__)


def test_public_names_are_those_of_the_file() -> None:
    outcome = jobs.run_command([sys.executable, str(SCRIPT)])
    assert outcome.status == 0, str(outcome)
    kept, found = FILE.read_text(encoding="utf-8").splitlines(), outcome.stdout.splitlines()
    difference = "\n".join(difflib.unified_diff(kept, found, "before", "now", lineterm="", n=1))
    script, file = os.path.relpath(SCRIPT), os.path.relpath(FILE)
    assert not difference, f"{difference}\nIf that is meant: python {script} > {file}, and a line in CHANGELOG.md"


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    first: int
    second: list[str] = []  # noqa: RUF012


class Sample:
    """Has members of all kinds."""

    field: dict[str, int]

    def __init__(self, one: int, /, two: Colour = Colour.RED, *others: str, key: type = float, **rest: object) -> None:
        self.field = {}

    def __len__(self) -> int:
        return 0

    @functools.cache  # noqa: B019
    def kept(self, *, key: str = "a") -> Sample:
        return self

    @functools.cached_property
    def known(self) -> tuple[int, ...]:
        return ()

    @staticmethod
    def free(pair: tuple[int, int] = (1, 2), /, name: str = sys.executable) -> None:
        """Do nothing."""

    @classmethod
    def made(cls, *, only: bool = False) -> Sample:
        return cls(1)


Sample.__module__ = Pair.__module__ = Colour.__module__ = "gondwana.sample"


def test_all_kinds_of_members() -> None:
    assert list(public_names.described("gondwana.Sample", Sample)) == [
        "class gondwana.Sample",
        "    Sample(one: int, /, two: Colour = Colour.RED, *others: str, key: type = float, **rest: object)",
        "    field: dict[str, int]",
        "    staticmethod free(pair: tuple[int, int] = (1, 2), /, name: str = sys.executable) -> None",
        "    kept(*, key: str = 'a') -> Sample",
        "    known: tuple[int, ...] (property)",
        "    classmethod made(*, only: bool = False) -> Sample",
        "    operators: len",
    ]
    assert list(public_names.described("gondwana.Colour", Colour))[1:] == ["    RED = 1"]
    assert list(public_names.described("gondwana.Pair", Pair))[:3] == [
        "class gondwana.Pair(tuple)",
        "    Pair(first: int, second: list[str] = <list>)",
        "    first: int",
    ]
    assert list(public_names.described("gondwana.sample", public_names.text)) == ["gondwana.sample() -> str"]


def test_members_that_a_page_lists_or_leaves_out() -> None:
    listed = list(public_names.described("gondwana.Sample", Sample, {"members": ["known", "__len__"]}))
    assert listed[2:-1] == ["    __len__() -> int", "    known: tuple[int, ...] (property)"]
    others = public_names.described("gondwana.Sample", Sample, {"exclude-members": ["field", "free", "kept", "made"]})
    assert list(others)[2:-1] == ["    known: tuple[int, ...] (property)"]


def test_options_in_the_styles_of_typer_and_of_argparse() -> None:
    for line in ("-n, --ranks N,...      Numbers of ranks.  [default: 1,2]", "-n N,..., --ranks N,...  numbers"):
        assert public_names.option(line) == "-n --ranks N,..."
    assert public_names.option("--plane <xy|xz>  Which.") == "--plane xy|xz"
    assert public_names.option("--weak / --strong") == "--weak --strong"
    assert public_names.option("--steps <str>    Steps.") == "--steps"
