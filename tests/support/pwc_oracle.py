"""Pairwise clustering and vector annealing on dense NumPy arrays, by the equations alone, to compare results with.

d is [N, N], memberships and potentials are [N, K], points [N, p].
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def pairwise_sweep(d: Array, potential: Array, temperature: float, copies: Array) -> tuple[Array, Array, Array, Array]:
    """Potentials to memberships, sizes, B and new potentials, of Hofmann and Buhmann 1997."""
    weight = np.exp(-(potential - potential.min(axis=1, keepdims=True)) / temperature)
    m = weight / (weight * copies).sum(axis=1, keepdims=True)
    size = m.sum(axis=0)
    b = d @ m / size
    a = -(b * m).sum(axis=0) / (2.0 * size)
    return m, size, b, b + a


def vector_sweep(x: Array, centers: Array, temperature: float) -> tuple[Array, Array]:
    """Rose 1998 without weights, by the kernel exp(-|x - Y|^2 / T): memberships from centres, then new centres."""
    distance = ((x[:, None] - centers) ** 2).sum(axis=2)
    weight = np.exp(-(distance - distance.min(axis=1, keepdims=True)) / temperature)
    m = weight / weight.sum(axis=1, keepdims=True)
    return m, m.T @ x / m.sum(axis=0)[:, None]


def curvature(d: Array, m: Array, b: Array, offset: float, temperature: float) -> Array:
    """Q of a duplicated cluster whose copies have memberships m each [N]."""
    bracket = d - b[:, None] - b[None, :] - 2.0 * offset
    return np.diag(m) + np.outer(m, m) / (temperature * m.sum()) * bracket


def free_energy(energy: float, m: Array, temperature: float) -> float:
    return energy + temperature * float((m * np.log(np.where(m > 0.0, m, 1.0))).sum())


def partition_energy(d: Array, labels: Array) -> float:
    """Half the sum over clusters of the sums of dissimilarities by the sizes."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return sum(d[np.ix_(one, one)].sum() / (2.0 * len(one)) for one in members)


def least_energy(d: Array, clusters: int) -> float:
    """Of all partitions into at most so many clusters, one by one."""
    points = len(d)
    rest = itertools.product(range(clusters), repeat=points - 1)
    return min(partition_energy(d, np.array((0, *labels))) for labels in rest)
