"""The example lattice_boltzmann.py as a user of mpi4py and Numba writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from mpi4py import MPI

EX, EY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
W = (4 / 9, *4 * (1 / 9,), *4 * (1 / 36,))
OMEGA, U = 1.25, 0.02


@numba.njit(inline="always", fastmath=True)
def equilibrium(q: int, rho: float, ux: Any, uy: Any) -> Any:
    along = 3.0 * (EX[q] * ux + EY[q] * uy)
    return W[q] * rho * (1.0 + along + 0.5 * along * along - 1.5 * (ux * ux + uy * uy))


@numba.njit(fastmath=True)
def step(g: Any, f: Any, first: int, last: int) -> None:
    for i in range(first, last):
        for j in range(1, f.shape[2] - 1):
            rho, mx, my = 0.0, 0.0, 0.0
            for q in range(9):
                n = f[q, i - EX[q], j - EY[q]]
                rho += n
                mx += EX[q] * n
                my += EY[q] * n
            for q in range(9):
                n = f[q, i - EX[q], j - EY[q]]
                g[q, i, j] = n + OMEGA * (equilibrium(q, rho, mx / rho, my / rho) - n)


def vortices(first: int, last: int, nx: int, ny: int) -> Any:
    """The populations of some rows at the start."""
    kx, ky = 2 * np.pi / nx, 2 * np.pi / ny
    x, y = np.arange(first, last)[:, None], np.arange(ny)
    ux, uy = -U * np.cos(kx * x) * np.sin(ky * y), U * kx / ky * np.sin(kx * x) * np.cos(ky * y)
    return np.stack([equilibrium.py_func(q, 1.0, ux, uy) for q in range(9)])


def run(nx: int, ny: int, steps: Iterable[int]) -> Any:
    """Return the populations of this rank's rows after some steps."""
    comm = MPI.COMM_WORLD
    rows, up, down = nx // comm.size, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    f, g = np.ones((9, rows + 2, ny + 2)), np.ones((9, rows + 2, ny + 2))
    f[:, 1:-1, 1:-1] = vortices(comm.rank * rows, (comm.rank + 1) * rows, nx, ny)
    sends, receives = np.empty((2, 9, ny + 2)), np.empty((2, 9, ny + 2))
    for _ in steps:
        f[:, 1:-1, 0], f[:, 1:-1, -1] = f[:, 1:-1, -2], f[:, 1:-1, 1]
        sends[0], sends[1] = f[:, 1], f[:, -2]
        sends[:, :, 0], sends[:, :, -1] = sends[:, :, -2], sends[:, :, 1]
        requests = [comm.Irecv(receives[0], down, 1), comm.Irecv(receives[1], up, 0)]
        requests += [comm.Isend(sends[0], down, 0), comm.Isend(sends[1], up, 1)]
        step(g, f, 2, rows)
        MPI.Request.Waitall(requests)
        f[:, 0], f[:, -1] = receives
        step(g, f, 1, 2)
        step(g, f, rows, rows + 1)
        f, g = g, f
    return f[:, 1:-1, 1:-1]
