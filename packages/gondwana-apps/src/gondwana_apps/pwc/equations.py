"""Mean-field equations of pairwise clustering.

T. Hofmann, J. Buhmann, "Pairwise Data Clustering by Deterministic Annealing", IEEE PAMI 19, 1997. For squared Euclidean
distances the potential of point a for cluster k is |x_a - Y_k|^2, with Y_k the centroid, and the energy is the inertia
of k-means, without any coordinates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana import simd
from gondwana_apps.products import WIDTH
from gondwana_apps.pwc.rows import Rows, Vectors, aligned

EMPTY = 1e-100
"""Size of a cluster that has no points, not even parts of points: its potential stays unchanged."""
_MOST_PASSES, _PASS_CHANGE = 40, 1e-3


class Solution(NamedTuple):
    """Clusters at one temperature, the same on all ranks: [K] for clusters, [K, N] for clusters and points.

    Attributes:
        potential: epsilon_k(a) = B_k(a) + A_k, the derivative of the energy by the membership.
        membership: M_k(a), from the previous potential; of each copy, if a cluster counts twice.
        weight: pi_k of the memberships: 1, or the share of the points.
        size: C_k, the sum of the memberships.
        mean: B_k(a), the mean dissimilarity of point a from cluster k.
        offset: A_k, minus half the mean of B_k over the cluster.
    """

    potential: Vectors
    membership: Vectors
    weight: Vectors
    size: Vectors
    mean: Vectors
    offset: Vectors

    @property
    def energy(self) -> float:
        """H = -sum over k of A_k C_k."""
        return -float((self.offset * self.size).sum())

    def select(self, clusters: Any) -> Solution:
        """Return some of the clusters, which a boolean [K] or their indices choose. Local."""
        return Solution(*(values[clusters] for values in self))


def alone(rows: Rows) -> Solution:
    """Return one cluster of all points. Collective over the team of the rows."""
    zero = np.zeros((1, rows.points))
    return sweep(rows, Solution(zero, zero, np.ones(1), np.ones(1), zero, np.zeros(1)), 1.0, np.ones(1), False)[0]


def memberships(potential: Vectors, temperature: float, copies: Vectors, weight: Vectors) -> Vectors:
    """Return M_k = pi_k exp(-epsilon_k / T) / sum over j of w_j pi_j exp(-epsilon_j / T). Local.

    Args:
        potential: epsilon [K, N].
        temperature: T.
        copies: w [K], multiplicity of each cluster.
        weight: pi [K].
    """
    with np.errstate(divide="ignore"):
        shift = temperature * np.log(weight)
    m = aligned(*potential.shape)
    gw.parallel(anneal, potential, shift, 1.0 / temperature, copies, m)
    return m[:, : potential.shape[1]]


@gw.jit
def anneal(threads: Any, potential: Any, shift: Any, rate: float, copies: Any, m: Any) -> None:
    """Let m[k, i] = exp(rate * (shift[k] - potential[k, i])), divided by the sum of copies[k] times these over k.

    Args:
        threads: the team; each thread takes some of the points.
        potential: float64 [K, N].
        shift: float64 [K], at least one of them finite.
        rate: 1 / T.
        copies: float64 [K].
        m: float64 [K, N rounded up to a multiple of WIDTH], zeros.
    """
    points = potential.shape[1]
    first, last = threads.share(0, (points + WIDTH - 1) // WIDTH)
    for start in range(first * WIDTH, last * WIDTH, WIDTH):
        if start + WIDTH <= points:
            anneal_some(potential, start, shift, rate, copies, m, start)
        else:
            rest = np.zeros((len(m), WIDTH))
            rest[:, : points - start] = potential[:, start:]
            anneal_some(rest, 0, shift, rate, copies, m, start)
            m[:, points:] = 0.0


@gw.jit
def anneal_some(potential: Any, at: int, shift: Any, rate: float, copies: Any, m: Any, start: int) -> None:
    """The same for the points of one vector, whose potentials begin at another place."""
    most = shift[0] - simd.load(potential[0], at, WIDTH)
    for k in range(1, len(m)):
        most = simd.maximum(most, shift[k] - simd.load(potential[k], at, WIDTH))
    total = simd.fill(0.0, WIDTH)
    for k in range(len(m)):
        power = simd.exp(rate * (shift[k] - simd.load(potential[k], at, WIDTH) - most))
        total = simd.fma(copies[k], power, total)
        simd.store(m[k], start, power)
    for k in range(len(m)):
        simd.store(m[k], start, simd.load(m[k], start, WIDTH) / total)


def sweep(
    rows: Rows, before: Solution, temperature: float, copies: Vectors, continuous: bool
) -> tuple[Solution, float]:
    """Do one iteration: from potentials to memberships to potentials. Collective over the team of the rows.

    Ranks compute the same memberships of all points: only products with the matrix are exchanged.

    Args:
        rows: the matrix.
        before: previous solution, of which the potential counts, and the weight if clusters have one.
        temperature: T.
        copies: multiplicity of each cluster [K].
        continuous: whether clusters have weights, P_k = C_k / N.

    Returns:
        The new solution, and the largest mean change of a potential.
    """
    weight = before.weight if continuous else np.ones(len(copies))
    m = memberships(before.potential, temperature, copies, weight)
    if continuous:
        m, weight = _balance(m, before.potential, temperature, copies, weight)
    size = m.sum(axis=1)
    divisor = np.where(size > EMPTY, size, np.inf)
    mean = rows.gather(rows.multiply(m))
    mean /= divisor[:, None]
    offset = -0.5 * (mean * m).sum(axis=1) / divisor
    potential = np.where(size[:, None] > EMPTY, mean + offset[:, None], before.potential)
    change = np.abs(potential - before.potential).sum(axis=1).max() / rows.points
    return Solution(potential, m, weight, size, mean, offset), float(change)


def _balance(
    m: Vectors, potential: Vectors, temperature: float, copies: Vectors, weight: Vectors
) -> tuple[Vectors, Vectors]:
    """Let weights and memberships agree, at fixed potentials."""
    for _ in range(_MOST_PASSES):
        weight = m.mean(axis=1)
        new = memberships(potential, temperature, copies, weight)
        change, m = np.abs(new - m).sum(), new
        if change < _PASS_CHANGE * m.shape[1]:
            break
    return m, weight


def freezing(rows: Rows, solution: Solution) -> npt.NDArray[np.float64]:
    """Return Phi_k, the mean of 1 - M_k over cluster k [K]: 0 where all points belong wholly. Collective."""
    m = solution.membership[:, rows.own]
    return rows.total(m * (1.0 - m)) / np.maximum(solution.size, EMPTY)
