"""HPCG in plain NumPy on dense matrices: slow, and independent of the kernels."""

from __future__ import annotations

import itertools

import numpy as np

from gondwana_apps.hpcg.grid import Geometry


def numbers(geometry: Geometry) -> np.ndarray:
    """The global numbers of the rows of a rank, in their local order."""
    (x0, y0, z0), (nx, ny, nz), (gnx, gny, _) = geometry.origin, geometry.local, geometry.shape
    return np.array(
        [(x0 + x) + gnx * ((y0 + y) + gny * (z0 + z)) for z, y, x in itertools.product(range(nz), range(ny), range(nx))]
    )


def stencil(shape: tuple[int, int, int]) -> np.ndarray:
    """The matrix of a global box: 26 on the diagonal, -1 for every point that touches."""
    lines = [np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1) for n in shape]
    touching = np.kron(lines[2], np.kron(lines[1], lines[0]))
    return 27.0 * np.eye(len(touching)) - touching


def smooth(a: np.ndarray, blocks: list[np.ndarray], right: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One symmetric Gauss-Seidel step inside each block of rows, with the other blocks' values of the start."""
    result = x.copy()
    for rows in blocks:
        own = a[np.ix_(rows, rows)]
        rest = right[rows] - a[rows] @ x + own @ x[rows]
        forward = np.linalg.solve(np.tril(own), rest - np.triu(own, 1) @ x[rows])
        result[rows] = np.linalg.solve(np.triu(own), rest - np.tril(own, -1) @ forward)
    return result


def cycle(
    matrices: list[np.ndarray],
    blocks: list[list[np.ndarray]],
    fine: list[np.ndarray],
    right: np.ndarray,
    level: int = 0,
) -> np.ndarray:
    """One cycle of multigrid; `fine[level]` has the row of the finer level under each row of a level."""
    a = matrices[level]
    x = smooth(a, blocks[level], right, np.zeros(len(a)))
    if level + 1 == len(matrices):
        return x
    under = fine[level + 1]
    x[under] += cycle(matrices, blocks, fine, (right - a @ x)[under], level + 1)
    return smooth(a, blocks[level], right, x)
