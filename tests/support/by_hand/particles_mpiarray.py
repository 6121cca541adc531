"""The example particles.py as a user of mpiarray and Numba writes it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from particles import N, deposit, push

mpa: Any = importlib.import_module("mpiarray")


def run(nx: int, ny: int, steps: Iterable[int]) -> Any:
    """Return the density at this rank's nodes in the last of some steps, with slabs along x."""
    rho, ex, ey = (mpa.zeros((nx, ny), halo=1, periodic=True) for _ in range(3))
    layout = rho.layout
    first, last = layout.index_bounds[0]
    wave = 2 * np.pi / nx
    kx, ky = 2 * np.pi * np.fft.fftfreq(nx)[:, None], 2 * np.pi * np.fft.rfftfreq(ny)[None, :]
    k2 = np.where(kx**2 + ky**2 > 0, kx**2 + ky**2, np.inf)
    parts, gone = np.empty((N, 4)), np.empty((N, 4))
    number = np.arange(layout.rank, N, layout.size)
    x, n, left = nx * (number // 2 + 0.5) / (N // 2), 0, len(number)
    gone[:left, 0], gone[:left, 1] = x + 0.002 * np.sin(wave * x), ny * (number // 2 * 0.618034 % 1)
    gone[:left, 2], gone[:left, 3] = np.sqrt(3 / 8) / wave * (1 - 2 * (number % 2)), 0
    low = first - 1, -1  # of the halos
    nodes, fx, fy = (a.local_with_halos for a in (rho, ex, ey))
    for _ in steps:
        (arrived,) = mpa.migrate(layout.owners(gone[:left, :2].astype(int)), gone[:left])
        parts[n : n + len(arrived)] = arrived
        n += len(arrived)
        nodes[...] = 0
        deposit(parts, n, nodes, low)
        rho.accumulate_halos()
        modes = np.fft.rfft2(rho.gather()) * (nx * ny / N)
        for field, k in ((ex, kx), (ey, ky)):
            field.local[...] = np.fft.irfft2(-1j * k / k2 * modes, (nx, ny))[first:last]
            field.update_halos()
        n, left = push(parts, n, fx, fy, low, (nx, ny, first, last), gone)
    return rho.local
