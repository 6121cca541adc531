"""When a cluster becomes unstable and is split: the lowest eigenvalue of the free energy's curvature.

A cluster is duplicated, each copy with memberships m, c in all. A displacement of the two copies in opposite directions
has the curvature

    Q_ab = m_a delta_ab + m_a m_b / (T c) (d_ab - B_a - B_b - 2 A),

and the cluster splits along its lowest eigenvector once that has a negative eigenvalue: for squared Euclidean distances
below T = 2 lambda_max of the covariance (K. Rose, "Deterministic Annealing for Clustering, Compression, Classification,
Regression, and Related Optimization Problems", Proc. IEEE 86, 1998).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.apps.pwc.equations import Solution
from gondwana.apps.pwc.rows import Rows, Vectors
from gondwana.apps.pwc.settings import Settings

_FIRST_TEST = 10
"""Iterations before the power method may end."""
_ROOM, _STEP = 0.05, 0.1
"""Bounds of the step: change of the copies' sizes by theirs, and of the potential by its norm."""


class Lowest(NamedTuple):
    """Of the curvature of some clusters [J]: eigenvalues, unit eigenvectors of the lowest [J, n], and which are known."""

    largest: Vectors
    lowest: Vectors
    vectors: Vectors
    known: npt.NDArray[np.bool_]


class Curvature:
    """The matrices Q of some clusters. Collective over the team of the rows to create.

    Args:
        rows: the dissimilarities.
        copies: of these clusters, the values of one copy: membership, size, mean and offset [J].
        temperature: T.
    """

    def __init__(self, rows: Rows, copies: Solution, temperature: float) -> None:
        self._rows, self._copies = rows, copies
        self._factor = copies.membership / (temperature * copies.size[:, None])
        with rows.timed("eigen_send_receive"):
            self._mean_of_all = rows.gather(copies.mean)

    def times(self, v: Vectors, which: npt.NDArray[np.intp]) -> Vectors:
        """Multiply the matrices of some clusters with a vector each [j, n]. Collective over the team.

        With u = m v, s0 = sum of u and s1 = sum of B u: only u goes to the other ranks.
        """
        _, m, _, _, mean, offset = self._copies.select(which)
        product, u = self._rows.product(m * v, "eigen_send_receive")
        s0 = u.sum(axis=1)
        s1 = (self._mean_of_all[which] * u).sum(axis=1)
        constant = s1 + 2.0 * offset * s0
        return m * v + self._factor[which] * (product - mean * s0[:, None] - constant[:, None])


def lowest(rows: Rows, copies: Solution, temperature: float, settings: Settings) -> Lowest:
    """Find the lowest eigenvalues by the power method in two passes, on Q and on lambda_0 - Q. Collective.

    The first pass finds the eigenvalue that is largest in magnitude; should it be negative, the largest membership
    replaces it, which bounds the others for squared Euclidean distances. A value of the second pass that has not
    converged lies above the lowest eigenvalue, so one below the threshold is proof enough.
    """
    curvature = Curvature(rows, copies, temperature)
    found, _, _ = _power(rows, curvature, np.zeros(len(copies.size)), 1.0, settings)
    bound = rows.gather(copies.membership).max(axis=1)
    largest = np.where(found > 0.0, found, bound)
    rest, vectors, converged = _power(rows, curvature, largest, -1.0, settings)
    smallest = largest - rest
    return Lowest(largest, smallest, vectors, converged | (smallest <= settings.MinEigTest * largest))


def _power(
    rows: Rows, curvature: Curvature, shift: Vectors, sign: float, settings: Settings
) -> tuple[Vectors, Vectors, npt.NDArray[np.bool_]]:
    """Return the largest eigenvalues of shift + sign Q, their vectors, and whether the iteration converged."""
    start = 1.0 + np.arange(rows.points)[rows.own] / (2.0 * rows.points)
    v = np.tile(start, (len(shift), 1))
    v /= np.sqrt(rows.total(v * v))[:, None]
    value, active = np.zeros(len(shift)), np.arange(len(shift))
    for iteration in range(settings.PowerIterationLimit):
        y = shift[active, None] * v[active] + sign * curvature.times(v[active], active)
        products = rows.total(np.concatenate([v[active] * y, y * y]))
        new, square = products[: len(active)], products[len(active) :]
        v[active] = y / np.sqrt(np.maximum(square, np.finfo(float).tiny))[:, None]
        change, residual = np.abs(new - value[active]), square - new * new
        value[active] = new
        if iteration > _FIRST_TEST:
            done = change <= settings.EigenValueChange * new
            done &= residual <= settings.EigenVectorChange * new * new
            active = active[~done]
        if not len(active):
            break
    converged = np.ones(len(shift), bool)
    converged[active] = False
    return value, v, converged


def split(rows: Rows, base: Solution, cluster: int, copy: Solution, v: Vectors, temperature: float) -> Solution:
    """Replace a cluster by two, displaced in opposite directions; the second becomes the last one. Collective.

    Args:
        rows: the dissimilarities.
        base: all clusters.
        cluster: which one is split.
        copy: the values of one of its copies [1].
        v: unit eigenvector [n].
        temperature: T.
    """
    potential, pull = base.potential[cluster], copy.membership[0] * v
    signed, absolute, square = rows.total(np.stack([pull, np.abs(pull), potential * potential]))
    drift = absolute if len(base.size) == 1 else abs(signed)
    bound = _STEP * np.sqrt(square)
    step = v * min(bound, 2.0 * _ROOM * copy.size[0] * temperature / drift if drift > 0.0 else bound)
    both = base.select(np.append(np.arange(len(base.size)), cluster))
    both.potential[cluster] += step
    both.potential[-1] -= step
    return both
