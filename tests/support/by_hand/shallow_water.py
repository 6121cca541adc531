"""The example shallow_water.py as a user of mpi4py and Numba writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from mpi4py import MPI

DT, F = 0.4, 0.02


@numba.njit
def push_x(u: Any, v: Any, h: Any, first: int, last: int) -> None:
    for i in range(first, last):
        for j in range(1, h.shape[1] - 1):
            across = 0.25 * (v[i, j] + v[i, j + 1] + v[i - 1, j] + v[i - 1, j + 1])
            u[i, j] += DT * (F * across - (h[i, j] - h[i - 1, j]))


@numba.njit
def push_y(v: Any, u: Any, h: Any) -> None:
    for i in range(1, h.shape[0] - 1):
        for j in range(2, h.shape[1] - 1):
            across = 0.25 * (u[i, j] + u[i + 1, j] + u[i, j - 1] + u[i + 1, j - 1])
            v[i, j] -= DT * (F * across + (h[i, j] - h[i, j - 1]))


@numba.njit
def flow(new: Any, h: Any, u: Any, v: Any) -> None:
    for i in range(1, h.shape[0] - 1):
        for j in range(1, h.shape[1] - 1):
            east, west = u[i + 1, j] * (h[i, j] + h[i + 1, j]), u[i, j] * (h[i - 1, j] + h[i, j])
            north, south = v[i, j + 1] * (h[i, j] + h[i, j + 1]), v[i, j] * (h[i, j - 1] + h[i, j])
            new[i, j] = h[i, j] - 0.5 * DT * (east - west + north - south)


def run(nx: int, ny: int, steps: Iterable[int]) -> Any:
    """Return the height in this rank's rows after some steps, with slabs of rows."""
    comm = MPI.COMM_WORLD
    begin, end = nx * comm.rank // comm.size, nx * (comm.rank + 1) // comm.size
    low = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    high = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    x, y = np.meshgrid(np.arange(begin - 1, end + 1), np.arange(-1, ny + 1), indexing="ij")
    h = 1 + 0.2 * np.exp(-((x - 80) ** 2 + (y - 80) ** 2) / 200)
    new, u, v = h.copy(), np.zeros((end - begin + 2, ny + 2)), np.zeros((end - begin + 2, ny + 3))

    def exchange(a: Any) -> None:
        requests = [comm.Isend(a[-2], high, 0), comm.Irecv(a[0], low, 0)]
        requests += [comm.Isend(a[1], low, 1), comm.Irecv(a[-1], high, 1)]
        MPI.Request.Waitall(requests)

    for _ in steps:
        exchange(h)
        exchange(v)
        push_x(u, v, h, 1 if begin > 0 else 2, len(h) - 1)
        exchange(u)
        push_y(v, u, h)
        flow(new, h, u, v)
        h, new = new, h
    return h[1:-1, 1:-1]
