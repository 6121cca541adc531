"""The example masked_diffusion.py as a user of mpi4py and Numba writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from mpi4py import MPI


def plate(x: Any, y: Any, ny: int) -> Any:
    """Whether cells are in the plate."""
    x, y = (x + 0.5) / ny, (y + 0.5) / ny
    disks = (np.hypot(x - 0.6, y - 0.3) > 0.2) & (np.hypot(x - 1.2, y - 0.7) > 0.22)
    return disks & ((np.abs(x - 1.65) > 0.03) | (y > 0.75))


@numba.njit(cache=True)
def diffuse(new: Any, T: Any, k: Any, mask: Any, first: int, last: int) -> None:  # noqa: N803
    for i in range(first, last):
        for j in range(1, T.shape[1] - 1):
            if mask[i, j]:
                a, t = k[i, j], T[i, j]
                new[i, j] = t + 0.2 * (
                    2.0 * a * k[i - 1, j] / (a + k[i - 1, j]) * (T[i - 1, j] - t)
                    + 2.0 * a * k[i + 1, j] / (a + k[i + 1, j]) * (T[i + 1, j] - t)
                    + 2.0 * a * k[i, j - 1] / (a + k[i, j - 1]) * (T[i, j - 1] - t)
                    + 2.0 * a * k[i, j + 1] / (a + k[i, j + 1]) * (T[i, j + 1] - t)
                )


def run(nx: int, ny: int, steps: Iterable[int]) -> Any:
    """Return the temperature of this rank's rows after some steps."""
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    begin, end = nx * rank // size, nx * (rank + 1) // size
    x, y = np.meshgrid(np.arange(begin - 1, end + 1), np.arange(-1, ny + 1), indexing="ij")
    cx, cy = np.clip(x, 0, nx - 1), np.clip(y, 0, ny - 1)
    mask = plate(cx, cy, ny)
    k = mask * (1 - cy / 2 / ny)
    t, new = np.zeros(k.shape), np.zeros(k.shape)
    low = rank - 1 if rank > 0 else MPI.PROC_NULL
    high = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    for _ in steps:
        requests = [
            comm.Isend(t[1], low), comm.Isend(t[-2], high), comm.Irecv(t[0], low), comm.Irecv(t[-1], high)
        ]  # fmt: skip
        if low == MPI.PROC_NULL:
            t[0] = 2.0 - t[1]
        if high == MPI.PROC_NULL:
            t[-1] = -t[-2]
        t[1:-1, 0], t[1:-1, -1] = t[1:-1, 1], t[1:-1, -2]
        diffuse(new, t, k, mask, 2, len(t) - 2)
        MPI.Request.Waitall(requests)
        diffuse(new, t, k, mask, 1, 2)
        diffuse(new, t, k, mask, len(t) - 2, len(t) - 1)
        t, new = new, t
    return t[1:-1, 1:-1]
