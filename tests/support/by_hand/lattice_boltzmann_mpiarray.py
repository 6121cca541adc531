"""The example lattice_boltzmann.py as a user of mpiarray and Numba writes it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from lattice_boltzmann import step, vortices

mpa: Any = importlib.import_module("mpiarray")


def run(nx: int, ny: int, steps: Iterable[int]) -> Any:
    """Return the populations of this rank's rows after some steps."""
    f, g = (mpa.zeros((9, nx, ny), split=1, halo=(0, 1, 1), periodic=(False, True, True)) for _ in range(2))
    first, last = f.layout.index_bounds[1]
    f.local[...] = vortices(first, last, nx, ny)
    rows = last - first
    for _ in steps:
        f.update_halos(axis=2)
        halos = f.update_halos(axis=1, wait=False)  # with the halos along the other axis
        new, old = g.local_with_halos, f.local_with_halos
        step(new, old, 2, rows)
        halos.wait()
        step(new, old, 1, 2)
        step(new, old, rows, rows + 1)
        f, g = g, f
    return f.local
