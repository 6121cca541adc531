"""The example masked_diffusion.py as a user of mpiarray and Numba writes it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from masked_diffusion import diffuse, plate

mpa: Any = importlib.import_module("mpiarray")


def run(nx: int, ny: int, steps: Iterable[int]) -> Any:
    """Return the temperature of this rank's rows after some steps."""
    inside = mpa.fromfunction(lambda x, y: plate(x, y, ny), (nx, ny), halo=1)
    k = mpa.fromfunction(lambda x, y: plate(x, y, ny) * (1 - y / 2 / ny), (nx, ny), halo=1)
    k.update_halos(boundary="edge")
    mask, conductivity = inside.local_with_halos, k.local_with_halos
    t, new = mpa.zeros((nx, ny), halo=1), mpa.zeros((nx, ny), halo=1)
    first, last = t.layout.index_bounds[0]
    rows = last - first
    for _ in steps:
        halos = t.update_halos(axis=0, wait=False)
        a, b = t.local_with_halos, new.local_with_halos
        if first == 0:  # a value at the wall between cell and halo is none of the library's conditions
            a[0] = 2.0 - a[1]
        if last == nx:
            a[-1] = -a[-2]
        t.update_halos(axis=1, boundary="edge")
        diffuse(b, a, conductivity, mask, 2, rows)
        halos.wait()
        diffuse(b, a, conductivity, mask, 1, 2)
        diffuse(b, a, conductivity, mask, rows, rows + 1)
        t, new = new, t
    return t.local
