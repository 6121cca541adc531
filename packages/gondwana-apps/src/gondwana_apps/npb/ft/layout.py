"""The division of the box: undivided (0D), in slabs (1D) or in pencils (2D)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gondwana.errors import UsageError
from gondwana_apps.npb.ft.problem import Problem

NAMES = ("0D", "1D", "2D")


@dataclass(frozen=True)
class Layout:
    """A grid of ranks, as in the official input.

    Attributes:
        np1: parts along y while x is whole, and along x while it is not.
        np2: parts along z while y is whole, and along y while z is whole.
    """

    np1: int
    np2: int

    @property
    def name(self) -> str:
        """One of `NAMES`."""
        return "2D" if self.np1 > 1 else "1D" if self.np2 > 1 else "0D"


def choose(problem: Problem, ranks: int, name: str | None, grid: str | None) -> Layout:
    """Return the layout for a number of ranks. Local.

    Args:
        problem: the class.
        ranks: number of ranks.
        name: one of `NAMES`; None: 1D as long as there are planes for all ranks, else 2D.
        grid: "np1xnp2"; None: follows from the layout, for 2D as square as possible.

    Raises:
        UsageError: no such layout exists.
    """
    layout = _of_grid(ranks, grid) if grid else _of_name(problem, ranks, name)
    if grid and name not in (None, layout.name):
        raise UsageError(f"npb-ft: --grid {grid} is of layout {layout.name}, not {name}: leave --layout out")
    most = Layout(min(problem.nx, problem.ny), min(problem.ny, problem.nz))
    if layout.np1 > most.np1 or layout.np2 > most.np2:
        raise UsageError(
            f"npb-ft: --class {problem.letter} has no part for every rank of a grid {_text(layout)}: legal are grids "
            f"up to {_text(most)}; give another --grid or fewer ranks"
        )
    return layout


def _of_grid(ranks: int, grid: str) -> Layout:
    match = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", grid)
    layout = Layout(*map(int, match.groups())) if match else None
    if layout is None or layout.np1 * layout.np2 != ranks:
        raise UsageError(f"npb-ft: --grid {grid}: give np1xnp2 whose product is the number of ranks, {ranks}")
    return layout


def _of_name(problem: Problem, ranks: int, name: str | None) -> Layout:
    if name == "0D" and ranks > 1:
        raise UsageError(f"npb-ft: --layout 0D is for one rank, not for {ranks}: take 1D or 2D")
    if name == "2D" or (name is None and ranks > min(problem.ny, problem.nz)):
        np2 = next(part for part in range(math.isqrt(ranks), 0, -1) if ranks % part == 0)
        return Layout(ranks // np2, np2)
    return Layout(1, ranks)


def _text(layout: Layout) -> str:
    return f"{layout.np1}x{layout.np2}"
