"""The example particles.py as a user of mpi4py and Numba writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from mpi4py import MPI

N, DT = 1_000_000, 0.05


@numba.njit
def deposit(parts: Any, n: int, rho: Any, low: tuple[int, int]) -> None:
    for i in range(n):
        x, y = parts[i, 0], parts[i, 1]
        a, b = int(x), int(y)
        f, g = x - a, y - b
        a, b = a - low[0], b - low[1]
        rho[a, b] -= (1 - f) * (1 - g)
        rho[a + 1, b] -= f * (1 - g)
        rho[a, b + 1] -= (1 - f) * g
        rho[a + 1, b + 1] -= f * g


@numba.njit
def push(parts: Any, n: int, ex: Any, ey: Any, low: tuple[int, int], size: Any, gone: Any) -> tuple[int, int]:
    nx, ny, first, last = size
    i = left = 0
    while i < n:
        x, y = parts[i, 0], parts[i, 1]
        a, b = int(x), int(y)
        f, g = x - a, y - b
        a, b = a - low[0], b - low[1]
        part = (1 - f) * (1 - g), (1 - f) * g, f * (1 - g), f * g
        u = parts[i, 2] - DT * (
            part[0] * ex[a, b] + part[1] * ex[a, b + 1] + part[2] * ex[a + 1, b] + part[3] * ex[a + 1, b + 1]
        )
        v = parts[i, 3] - DT * (
            part[0] * ey[a, b] + part[1] * ey[a, b + 1] + part[2] * ey[a + 1, b] + part[3] * ey[a + 1, b + 1]
        )
        x, y = x + DT * u, y + DT * v
        x = x + nx if x < 0.0 else x
        x = x - nx if x >= nx else x
        y = y + ny if y < 0.0 else y
        y = y - ny if y >= ny else y
        parts[i, 0], parts[i, 1], parts[i, 2], parts[i, 3] = x, y, u, v
        if first <= x < last:
            i += 1
        else:
            n -= 1
            gone[left] = parts[i]
            parts[i] = parts[n]
            left += 1
    return n, left


@numba.njit
def pack(gone: Any, left: int, rows: int, counts: Any, out: Any) -> None:
    counts[:] = 0
    for i in range(left):
        counts[int(gone[i, 0]) // rows] += 1
    at = np.cumsum(counts) - counts
    for i in range(left):
        rank = int(gone[i, 0]) // rows
        out[at[rank]] = gone[i]
        at[rank] += 1


def run(nx: int, ny: int, steps: Iterable[int]) -> Any:
    """Return the density at this rank's nodes in the last of some steps, with slabs along x."""
    comm = MPI.COMM_WORLD
    size, me = comm.size, comm.rank
    rows = nx // size
    x0 = me * rows
    wave = 2 * np.pi / nx
    kx, ky = 2 * np.pi * np.fft.fftfreq(nx)[:, None], 2 * np.pi * np.fft.rfftfreq(ny)[None, :]
    k2 = np.where(kx**2 + ky**2 > 0, kx**2 + ky**2, np.inf)
    row_of_four = MPI.DOUBLE.Create_contiguous(4).Commit()
    parts, gone, out = np.empty((N, 4)), np.empty((N, 4)), np.empty((N, 4))
    number = np.arange(me, N, size)
    x, left = nx * (number // 2 + 0.5) / (N // 2), len(number)
    gone[:left] = np.transpose(
        (
            x + 0.002 * np.sin(wave * x),
            ny * (number // 2 * 0.618034 % 1),
            np.sqrt(3 / 8) / wave * (1 - 2 * (number % 2)),
            0 * x,
        )
    )
    n, counts, coming = 0, np.zeros(size, np.int64), np.zeros(size, np.int64)
    rho, ex, ey = (np.zeros((rows + 1, ny + 1)) for _ in range(3))
    row, whole = np.empty(ny), np.empty((nx, ny))
    for _ in steps:
        pack(gone, left, rows, counts, out)
        comm.Alltoall(counts, coming)
        sent, received = (counts, np.cumsum(counts) - counts), (coming, np.cumsum(coming) - coming)
        comm.Alltoallv([out, sent, row_of_four], [parts[n:], received, row_of_four])
        n += int(coming.sum())
        rho[:] = 0
        deposit(parts, n, rho, (x0, 0))
        rho[:, 0] += rho[:, ny]
        comm.Sendrecv(rho[rows, :ny], (me + 1) % size, 0, row, (me - 1) % size, 0)
        rho[0, :ny] += row
        comm.Allgather(np.ascontiguousarray(rho[:rows, :ny]), whole)
        modes = np.fft.rfft2(whole) * (nx * ny / N)
        for field, k in ((ex, kx), (ey, ky)):
            found = np.fft.irfft2(-1j * k / k2 * modes, (nx, ny))
            field[:rows, :ny], field[rows, :ny] = found[x0 : x0 + rows], found[(x0 + rows) % nx]
            field[:, ny] = field[:, 0]
        n, left = push(parts, n, ex, ey, (x0, 0), (nx, ny, x0, x0 + rows), gone)
    row_of_four.Free()
    return rho[:rows, :ny]
