"""The instability and the split of a cluster: the lowest eigenvalue of the free energy's curvature.

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

from gondwana_apps.pwc.equations import Solution
from gondwana_apps.pwc.rows import Rows, Vectors
from gondwana_apps.pwc.settings import Settings

_FIRST_TEST = 10
"""Iterations before the power method may end."""
_ROOM, _STEP = 0.05, 0.1
"""Bounds of the step: change of the copies' sizes by theirs, and of the potential by its norm."""


class Lowest(NamedTuple):
    """Results for the curvatures of some clusters [J]: eigenvalues, marks of known ones, unit eigenvectors [J, N]."""

    largest: Vectors
    lowest: Vectors
    known: npt.NDArray[np.bool_]
    vectors: Vectors


class Curvature:
    """The matrices Q of some clusters, for vectors over all points. Local to create.

    Args:
        rows: the dissimilarities.
        copies: values of one copy of each of these clusters: membership, size, mean and offset [J].
        temperature: T.
    """

    def __init__(self, rows: Rows, copies: Solution, temperature: float) -> None:
        self._rows, self._offset = rows, copies.offset[:, None]
        self._factor = 1.0 / (temperature * copies.size[:, None])
        self.membership, self._mean = copies.membership, copies.mean

    def times(self, v: Vectors, which: npt.NDArray[np.intp]) -> Vectors:
        """Multiply the matrices of some clusters with a vector each [j, N]. Collective over the team.

        With u = m v, s0 = sum of u and s1 = sum of B u, only D u needs the matrix: one exchange of a vector.
        """
        m, mean = self.membership[which], self._mean[which]
        u = m * v
        s0, s1 = u.sum(axis=1, keepdims=True), (mean * u).sum(axis=1, keepdims=True)
        product = self._rows.gather(self._rows.multiply(u), "eigen_send_receive")
        bracket = product - mean * s0 - (s1 + 2.0 * self._offset[which] * s0)
        result: Vectors = u + m * self._factor[which] * bracket
        return result


def lowest(rows: Rows, copies: Solution, temperature: float, settings: Settings) -> Lowest:
    """Find the lowest eigenvalues by the power method in two passes, on Q and on lambda_0 - Q. Collective.

    The first pass finds the eigenvalue that is largest in magnitude; should it be negative, the largest membership
    replaces it, which bounds the others for squared Euclidean distances. A value of the second pass that has not
    converged lies above the lowest eigenvalue, so one below the threshold is proof enough.
    """
    curvature = Curvature(rows, copies, temperature)
    found, _, _ = _power(curvature, np.zeros(len(copies.size)), 1.0, settings)
    largest = np.where(found > 0.0, found, curvature.membership.max(axis=1))
    rest, converged, vectors = _power(curvature, largest, -1.0, settings)
    smallest = largest - rest
    return Lowest(largest, smallest, converged | (smallest <= settings.MinEigTest * largest), vectors)


def _power(
    curvature: Curvature, shift: Vectors, sign: float, settings: Settings
) -> tuple[Vectors, npt.NDArray[np.bool_], Vectors]:
    """Return the largest eigenvalues of shift + sign Q, whether the iteration has converged, and their vectors."""
    points = curvature.membership.shape[1]
    start = 1.0 + np.arange(points) / (2.0 * points)
    v = np.tile(start / np.sqrt(np.sum(start * start)), (len(shift), 1))
    value, converged = np.zeros(len(shift)), np.zeros(len(shift), bool)
    for iteration in range(settings.PowerIterationLimit):
        active = np.flatnonzero(~converged)
        if not len(active):
            break
        y = shift[active, None] * v[active] + sign * curvature.times(v[active], active)
        new, square = (v[active] * y).sum(axis=1), (y * y).sum(axis=1)
        v[active] = y / np.sqrt(np.maximum(square, np.finfo(float).tiny))[:, None]
        if iteration > _FIRST_TEST:
            steady = np.abs(new - value[active]) <= settings.EigenValueChange * new
            converged[active] = steady & (square - new * new <= settings.EigenVectorChange * new * new)
        value[active] = new
    return value, converged, v


def split(base: Solution, cluster: int, copy: Solution, v: Vectors, temperature: float) -> Solution:
    """Replace a cluster by two, displaced in opposite directions; the second becomes the last one. Local.

    Args:
        base: all clusters.
        cluster: number of the cluster to split.
        copy: values of one of its copies [1].
        v: unit eigenvector [N].
        temperature: T.
    """
    pull = copy.membership[0] * v
    drift = np.abs(pull).sum() if len(base.size) == 1 else abs(pull.sum())
    bound = _STEP * np.sqrt(np.square(base.potential[cluster]).sum())
    step = v * min(bound, 2.0 * _ROOM * copy.size[0] * temperature / drift if drift > 0.0 else bound)
    both: Solution = base.select(np.append(np.arange(len(base.size)), cluster))
    both.potential[cluster] += step
    both.potential[-1] -= step
    both.weight[[cluster, -1]] *= 0.5
    return both
