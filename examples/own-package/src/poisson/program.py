"""The program ``gondwana run poisson``: steps of Jacobi's method on a square with a known solution."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import gondwana as gw
from gondwana.errors import UsageError


@gw.foreach
def relax(p, new, old, f, h2):
    """One step of -u_xx - u_yy = f: h2 is the square of the distance of the cells."""
    new[p] = 0.25 * (old[p + gw.X] + old[p - gw.X] + old[p + gw.Y] + old[p - gw.Y] + h2 * f[p])


@gw.reduce(op="max")
def largest_error(p, u, exact):
    """How far the solution is from the exact one."""
    return abs(u[p] - exact[p])


def check(argv: Sequence[str], ranks: int) -> None:
    """Refuse what cannot work. Local; called before any rank starts.

    Raises:
        UsageError: Says what was given and what is legal.
    """
    cells = _settings(argv).cells
    if cells < ranks:
        raise UsageError(f"--cells {cells}: give at least one row for each of the {ranks} ranks")


def main(argv: Sequence[str]) -> int:
    """Solve, and print how far it is from the solution. Collective over all ranks."""
    settings = _settings(argv)
    h = 1.0 / (settings.cells + 1)
    square = gw.RectDomain((0, 0), (settings.cells + 2, settings.cells + 2))
    exact = gw.from_function(lambda x, y: np.sin(np.pi * h * x) * np.sin(np.pi * h * y), square, ghost=1)
    f = gw.from_function(lambda x, y: 2 * np.pi**2 * np.sin(np.pi * h * x) * np.sin(np.pi * h * y), square, ghost=1)
    u, new = gw.zeros(square, ghost=1), gw.zeros(square, ghost=1)
    inside = u.owned & square.shrink(1)
    for _ in range(settings.steps):
        u.exchange().wait()
        relax(inside, new, u, f, h * h)
        u, new = new, u
    error = largest_error.all(gw.world, inside, u, exact)
    if gw.world.rank == 0:
        print(f"largest error after {settings.steps} steps on {settings.cells} x {settings.cells} cells: {error:.3e}")
    return 0


def _settings(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("gondwana run poisson", description="Poisson's equation on a square.")
    parser.add_argument("--cells", type=int, default=64, metavar="N", help="cells a side")
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="steps of Jacobi's method")
    return parser.parse_args(list(argv))
