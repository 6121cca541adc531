"""Splits: the clusters that have become unstable, and their halves (Rose 1998).

Two halves of a cluster at one place are a saddle point of the free energy if the scatter S = mean of z z^T has an
eigenvalue above T: then they move apart along its eigenvector. Both have an age that lets them wait.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gondwana_apps.davs.exchange import Floats, Integers
from gondwana_apps.davs.mixture import Conditions, Mixture, Moments

MATURE = -1.0
"""The age of a cluster that may split at any test."""
_NEWBORN, _READY, _OLD = 2.0, 6.0, 9.0
"""Halves wait for three tests, come after all others for three, are passed over once, and then are mature."""
_LARGE = (2.0, 6.0)
"""Clusters with this many times the mean number of points go first, those with more before them."""
_STEP, _SHORTEST, _LONGEST = 0.025, 0.05, 0.2
"""The change of C, as a share, that a displacement aims at, and its limits in units of the root of W."""


def split(mixture: Mixture, moments: Moments, conditions: Conditions, room: int) -> tuple[bool, int]:
    """Split the clusters that are unstable, at most `room` of them. Collective over the team.

    Returns:
        Whether any cluster is large and wide enough for a split, and the number of splits.
    """
    settings = mixture.settings
    rows, d = mixture.rows, mixture.dimension
    large = moments.counts > settings.TooSmallToSplit
    eligible = large & (moments.widths > settings.MinimumScaledWidthSquaredToSplit)
    age = np.where(eligible & (rows[:, -1] > 0.0), rows[:, -1] + 1.0, rows[:, -1])
    ready = eligible & ((age == MATURE) | ((age >= _READY) & (age < _OLD)))
    mixture.rows[:, -1] = np.where(age >= _OLD, MATURE, age)
    chosen = np.flatnonzero(ready)
    values, vectors = np.linalg.eigh(moments.scatter[chosen])
    curvature = 0.5 * moments.counts[chosen] * (1.0 - values[:, -1] / conditions.temperature)
    unstable = values[:, -1] > conditions.temperature
    chosen, curvature, direction = chosen[unstable], curvature[unstable], vectors[unstable][:, :, -1]
    tested, count = mixture.exchange.total(np.array([eligible.sum(), len(chosen)])).tolist()
    if count > room:
        wanted = _first(mixture, chosen, curvature, _scores(mixture, moments, age)[chosen], room)
        chosen, direction, count = chosen[wanted], direction[wanted], room
    if count:
        step = _displacements(moments, conditions, chosen, direction)
        step *= mixture.sigma(rows[chosen, :d], conditions)
        if settings.relative:
            # A width needs a position above 0.
            step[:, 0] = np.clip(step[:, 0], -0.5 * rows[chosen, 0], 0.5 * rows[chosen, 0])
        parents = mixture.rows.copy()
        parents[chosen, d] *= 0.5
        parents[chosen, -1] = _NEWBORN
        children = parents[chosen]
        parents[chosen, :d] -= step
        children[:, :d] += step
        mixture.rows = np.concatenate([parents, children])
        mixture.clusters += count
    return tested > 0, count


def _scores(mixture: Mixture, moments: Moments, age: Floats) -> Floats:
    mean = mixture.total / max(mixture.clusters, 1)
    bonus = sum(20.0 * (moments.counts >= factor * mean) for factor in _LARGE)
    return np.where(age == MATURE, -1.0, age - 10.0) + bonus


def _first(mixture: Mixture, chosen: Integers, curvature: Floats, scores: Floats, room: int) -> npt.NDArray[np.bool_]:
    """Mark the candidates that come first among those of all ranks: by score, curvature and place."""
    keys = np.column_stack([-scores, curvature, mixture.rows[chosen]])
    last = mixture.exchange.everything(keys)[room - 1]
    differs = keys != last
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 0)
    index = np.arange(len(keys))
    return np.asarray(keys[index, first] <= last[first])


def _displacements(moments: Moments, conditions: Conditions, chosen: Integers, direction: Floats) -> Floats:
    """Return the distances of halves from the centre, in units of sigma."""
    # The sign of an eigenvector is arbitrary.
    largest = np.abs(direction).argmax(axis=1)
    direction = direction * np.sign(direction[np.arange(len(direction)), largest])[:, None]
    gain = np.abs((direction * moments.drift[chosen]).sum(axis=1)) / conditions.temperature
    root = np.sqrt(moments.widths[chosen])
    aimed = _STEP * moments.counts[chosen] / np.maximum(gain, 1e-300)
    return np.asarray(np.clip(aimed, _SHORTEST * root, _LONGEST * root)[:, None] * direction)
