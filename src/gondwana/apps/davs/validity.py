"""Removal of clusters that are too small, and of copies of others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gondwana.apps.davs.exchange import Floats, Integers
from gondwana.apps.davs.mixture import Conditions, Mixture, Moments


def remove(mixture: Mixture, moments: Moments, conditions: Conditions) -> tuple[npt.NDArray[np.bool_], int]:
    """Remove small clusters, and merge copies with the larger one. Collective over the team.

    Weights of removed clusters go to all others, that of a copy to the cluster that it is a copy of.

    Returns:
        Which home clusters are left, and how many of all ranks were removed.
    """
    small = _too_small(mixture, moments, conditions)
    kept = ~small
    if conditions.temperature < mixture.settings.TemperatureForClosenessTest:
        kept &= ~_merge(mixture, moments, conditions, small)
    removed = int(mixture.exchange.total(np.array([(~kept).sum()]))[0])
    mixture.clusters -= removed
    if removed:
        d = mixture.dimension
        lost = mixture.exact_sum(np.where(small, mixture.rows[:, d], 0.0))
        rest = 1.0 - (conditions.sponge_weight if conditions.sponge is not None else 0.0)
        mixture.rows = mixture.rows[kept]
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
    if conditions.sponge is None and mixture.exchange.total(np.array([small.sum()]))[0] == mixture.clusters:
        small[:] = False
    return np.asarray(small)


def _merge(
    mixture: Mixture, moments: Moments, conditions: Conditions, small: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Merge each cluster with the largest close one, if no larger one is close to that; mark those that are gone.

    So the result is the same whichever rank has which clusters; of a chain, the rest follows at the next temperature.
    """
    exchange, d = mixture.exchange, mixture.dimension
    about = exchange.spread(np.column_stack([mixture.rows, moments.counts, small]))
    order = np.lexsort(about.T[::-1])
    sorted_ = about[order]
    larger, smaller = close_pairs(
        sorted_[:, :d],
        mixture.sigma(sorted_[:, :d], conditions),
        mixture.settings.ScaledSquaredDistanceAtClosenessTest,
        ~sorted_[:, -1].astype(bool),
    )
    counts = sorted_[:, -2]
    swap = counts[smaller] > counts[larger]
    larger, smaller = np.where(swap, smaller, larger), np.where(swap, larger, smaller)
    beaten = np.zeros(len(sorted_), bool)
    beaten[smaller] = True
    free = ~beaten[larger]
    larger, smaller = larger[free], smaller[free]
    best = np.lexsort((larger, -counts[larger], smaller))
    larger, smaller = larger[best], smaller[best]
    first = np.ones(len(smaller), bool)
    first[1:] = smaller[1:] != smaller[:-1]
    larger, smaller = larger[first], smaller[first]
    gained = np.zeros((len(sorted_), 2))
    np.add.at(gained[:, 0], larger, sorted_[smaller, d])
    gained[smaller, 1] = 1.0
    back = np.empty_like(gained)
    back[order] = gained
    home = exchange.home(back)
    mixture.rows[:, d] += home[:, 0]
    return np.asarray(home[:, 1] > 0.0)


def close_pairs(
    centres: Floats, sigma: Floats, distance: float, among: npt.NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """Return the pairs of centres nearer than a squared distance, in units of the sigma of the first. Local.

    Args:
        centres: sorted along axis 0, K x D.
        sigma: their widths.
        distance: limit of the squared distance.
        among: which centres take part.

    Returns:
        First and second members of the pairs, as indices.

    Example:
        >>> import numpy as np
        >>> first, second = close_pairs(np.array([[0.0], [0.5], [3.0]]), np.ones((3, 1)), 0.5, np.ones(3, bool))
        >>> first.tolist(), second.tolist()
        ([0], [1])
    """
    found: list[tuple[Integers, Integers]] = []
    first = np.arange(len(centres))
    for shift in range(1, len(centres)):
        first = first[first + shift < len(centres)]
        # What is too far along axis 0 stays too far at all larger shifts.
        first = first[((centres[first + shift, 0] - centres[first, 0]) / sigma[first, 0]) ** 2 < distance]
        if not len(first):
            break
        second = first + shift
        near = (((centres[second] - centres[first]) / sigma[first]) ** 2).sum(axis=1) < distance
        near &= among[first] & among[second]
        found.append((first[near], second[near]))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])
