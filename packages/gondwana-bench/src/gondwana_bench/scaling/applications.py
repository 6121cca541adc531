"""The applications whose scaling is measured, and the problem that each gets on a number of ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.heat.app import DISCARDED
from gondwana_apps.hpcg.grid import choose_grid

KINDS = ("strong", "weak")
CLASSES = "SWABCD"


class Size(NamedTuple):
    """The sizes of the problems.

    Attributes:
        edge: cells a side of the cube, of all ranks together (strong) or of each rank (weak).
        steps: number of timed steps.
        letter: class of the NAS benchmarks.
        folder: folder for settings files.
    """

    edge: int
    steps: int
    letter: str
    folder: Path


class Problem(NamedTuple):
    """The run of an application.

    Attributes:
        words: the application and its options.
        cells: cells of all ranks together; 1 if they are the same for any number of ranks.
        text: the size in words.
    """

    words: tuple[str, ...]
    cells: int
    text: str


@dataclass(frozen=True)
class Application:
    """An application as it is measured.

    Attributes:
        name: name for `gondwana run`.
        kinds: kinds of scaling that it supports.
        edges: default edge of each kind.
        steps: default; 0 where the application decides.
        value: key of a result that any number of ranks must reproduce but for the order of sums, or None.
        problem: function that returns the problem for a kind, a size and a number of ranks.
    """

    name: str
    kinds: tuple[str, ...]
    edges: tuple[int, int] | None
    steps: int
    value: str | None
    problem: Callable[[str, Size, int], Problem]


def grow(edge: int, ranks: int) -> tuple[int, int, int]:
    """Return the box in which each rank has a cube: the axes grow as the ranks are divided. Local.

    Example:
        >>> grow(10, 4)
        (40, 10, 10)
    """
    x, y, z = (edge * count for count in gw.Layout.divide((edge * ranks,) * 3, ranks, ghost=1).grid)
    return x, y, z


def _heat(kind: str, size: Size, ranks: int) -> Problem:
    shape = grow(size.edge, ranks) if kind == "weak" else (size.edge,) * 3
    last = str(size.steps + DISCARDED - 1)
    box = [word for axis, side in zip("XYZ", shape, strict=True) for word in (f"-{axis}", str(side))]
    return Problem(("heat", *box, "-N", last, "-I", last), math.prod(shape), _times(shape))


def _gray_scott(kind: str, size: Size, ranks: int) -> Problem:
    # The box is a cube always: as in the study its edge grows with the cube root of the ranks.
    edge = round(size.edge * ranks ** (1 / 3)) if kind == "weak" else size.edge
    file = size.folder / f"gray-scott-{edge}.json"
    # The first step, which may compile, does not count.
    settings = {"L": edge, "steps": size.steps + 1, "noise": 0.1, "output": ""}
    file.write_text(json.dumps(settings))
    return Problem(("gray-scott", str(file)), edge**3, _times((edge,) * 3))


def _hpcg(kind: str, size: Size, ranks: int) -> Problem:
    grid = choose_grid(ranks)
    if kind == "strong" and any(size.edge % (8 * count) for count in grid):
        raise UsageError(
            f"--size {size.edge}: hpcg divides this cube over {ranks} ranks as {_times(grid)} into boxes whose sides "
            "must be multiples of 8 from 16; give another size, such as 64, or fewer ranks"
        )
    local = [size.edge // (count if kind == "strong" else 1) for count in grid]
    box = [word for axis, side in zip("xyz", local, strict=True) for word in (f"--n{axis}", str(side))]
    shape = [side * count for side, count in zip(local, grid, strict=True)]
    return Problem(("hpcg", *box, "--rt", "0"), math.prod(shape), _times(shape))


def _npb(name: str) -> Application:
    def problem(kind: str, size: Size, ranks: int) -> Problem:
        return Problem((name, "--class", size.letter), 1, f"class {size.letter}")

    return Application(name, ("strong",), None, 0, None, problem)


def _times(shape: tuple[int, ...] | list[int]) -> str:
    return "x".join(map(str, shape))


APPLICATIONS = {
    application.name: application
    for application in (
        Application("heat", KINDS, (96, 64), 200, "value", _heat),
        Application("gray-scott", KINDS, (96, 64), 100, "u_sum", _gray_scott),
        *map(_npb, ("npb-cg", "npb-mg", "npb-ft")),
        Application("hpcg", KINDS, (64, 32), 0, None, _hpcg),
    )
}
"""Applications by name, in the order of the measurement."""
