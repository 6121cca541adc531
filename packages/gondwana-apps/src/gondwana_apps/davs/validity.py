"""Removal of clusters that are too small, and of copies of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana_apps.davs.exchange import Floats, Integers, ordering
from gondwana_apps.davs.kernels import width
from gondwana_apps.davs.mixture import Conditions, Mixture, Moments


def remove(mixture: Mixture, moments: Moments, conditions: Conditions) -> tuple[Integers, int]:
    """Remove small clusters, and merge copies with the larger one. Collective over the team.

    Weights of removed clusters go to all others, that of a copy to its original.

    Returns:
        The rows of the window that are left of the home clusters, and the number of removed clusters of all ranks.
    """
    d, window, small = mixture.dimension, mixture.window, _too_small(mixture, moments, conditions)
    gone = small.copy()
    if conditions.temperature < mixture.settings.TemperatureForClosenessTest:
        law, limit = mixture.law(conditions), mixture.settings.ScaledSquaredDistanceAtClosenessTest
        gw.parallel(merge, law, window, ordering(window), moments.counts, limit, gone, threads=1)
    here = np.arange(len(small))[mixture.home]
    kept = here[~gone[here]]
    removed = int(mixture.exchange.total(np.array([len(here) - len(kept)]))[0])
    mixture.clusters -= removed
    if removed:
        lost = mixture.exact_sum(np.where(small, window[:, d], 0.0)[mixture.home])
        rest = 1.0 - (conditions.sponge_weight if conditions.sponge is not None else 0.0)
        mixture.rows = window[kept]
        if lost < rest:
            mixture.rows[:, d] *= rest / (rest - lost)
    return kept, removed


def _too_small(mixture: Mixture, moments: Moments, conditions: Conditions) -> npt.NDArray[np.bool_]:
    s = mixture.settings
    least = s.MinimumCountForClusterCk if conditions.sponge is None else s.MinimumCountForClusterCkWithSponge
    small = moments.counts < least
    if s.MinimuCountForClusterPoints >= 0:
        small |= moments.occupied < s.MinimuCountForClusterPoints
    # The last cluster stays if there is no sponge: each point needs one.
    if conditions.sponge is None:
        small &= mixture.exchange.total(small[mixture.home].sum(keepdims=True)) < mixture.clusters
    return np.asarray(small)


@gw.jit
def merge(threads: Any, law: Any, rows: Any, order: Any, counts: Any, limit: float, gone: Any) -> None:
    """Merge each cluster with the largest close one, if no larger one is close to that; mark the merged ones.

    So the result does not depend on the ranks of the clusters; of a chain, the rest follows at the next temperature.
    """
    d, size = len(law.widths), len(order)
    beaten, into = np.zeros(size, np.bool_), np.full(size, -1)
    for turn in range(2):
        for i in range(size):
            for j in range(i + 1, size):
                z = (rows[order[j], 0] - rows[order[i], 0]) / width(law, rows, order[i], 0)
                d2 = z * z
                if d2 >= limit:
                    break
                for a in range(1, d):
                    d2 += ((rows[order[j], a] - rows[order[i], a]) / law.widths[a]) ** 2
                if d2 >= limit or gone[order[i]] or gone[order[j]]:
                    continue
                larger, smaller = (j, i) if counts[order[j]] > counts[order[i]] else (i, j)
                if turn == 0:
                    beaten[smaller] = True
                elif not beaten[larger] and (into[smaller] < 0 or counts[order[larger]] > counts[order[into[smaller]]]):
                    into[smaller] = larger
    for i in range(size):
        if into[i] >= 0:
            rows[order[into[i]], d] += rows[order[i], d]
            gone[order[i]] = True


def close_pairs(centres: Floats, sigma: Floats, distance: float) -> tuple[Integers, Integers]:
    """Return the pairs of centres nearer than a squared distance, in units of the sigma of the first. Local.

    Args:
        centres: centres sorted along axis 0, K x D.
        sigma: widths of the clusters.
        distance: limit of the squared distance.

    Returns:
        First and second members of the pairs, as indices.

    Example:
        >>> import numpy as np
        >>> first, second = close_pairs(np.array([[0.0], [0.5], [3.0]]), np.ones((3, 1)), 0.5)
        >>> first.tolist(), second.tolist()
        ([0], [1])
    """
    found: list[tuple[Integers, Integers]] = []
    first = np.arange(len(centres))
    for shift in range(1, len(centres)):
        first = first[first + shift < len(centres)]
        # Pairs that are too far along axis 0 stay too far at all larger shifts.
        first = first[((centres[first + shift, 0] - centres[first, 0]) / sigma[first, 0]) ** 2 < distance]
        if not len(first):
            break
        second = first + shift
        near = (((centres[second] - centres[first]) / sigma[first]) ** 2).sum(axis=1) < distance
        found.append((first[near], second[near]))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])
