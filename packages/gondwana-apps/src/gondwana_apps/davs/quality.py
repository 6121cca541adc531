"""Labels at the end, and properties of the clusters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import gondwana as gw
from gondwana_apps.davs import kernels, lists
from gondwana_apps.davs.exchange import Floats, Integers
from gondwana_apps.davs.mixture import Conditions
from gondwana_apps.davs.settings import Settings
from gondwana_apps.davs.validity import close_pairs

SPONGE = -1


class Quality(NamedTuple):
    """The clusters at the end, a row each, and histograms.

    Attributes:
        counts: points; points of the sponge within the radius; points of other clusters within it; other centres.
        widths: mean of d2 of the points, and the largest.
        nearest: nearest other centres: number and d2, -1 for missing ones.
        sizes: clusters by points; the last bin has all larger ones.
        distances: pairs of centres by d2, in unit bins.
    """

    counts: Integers
    widths: Floats
    nearest: tuple[Integers, Floats]
    sizes: Integers
    distances: Integers


def radius(settings: Settings, conditions: Conditions) -> float:
    """Return the radius of a cluster at the end, in units of sigma. Local."""
    if settings.NearbySpongePointLimit >= 0.0:
        return settings.NearbySpongePointLimit
    return 1.0 if conditions.sponge is None else conditions.sponge


def assign(points: Floats, rows: Floats, total: int, settings: Settings, conditions: Conditions) -> tuple[Any, Any]:
    """Give each point the number of its cluster, `SPONGE` for none. Local.

    The largest membership decides. A point of the sponge within the radius of a centre moves to the nearest one; if
    there is a sponge, a point outside the radius of its cluster moves to the sponge.

    Args:
        points: points sorted along axis 0, N x D.
        rows: all clusters in order.
        total: number of points for which the weights were computed.
        settings: settings of the run.
        conditions: conditions at its end.

    Returns:
        The labels, and the numbers of points that moved to a cluster and to the sponge.
    """
    law, threads = conditions.law(settings, total, len(rows)), gw.threads()
    cut = math.inf if conditions.sponge is None else radius(settings, conditions) ** 2
    near, counts = np.zeros((len(points), settings.TargetNcentPerPoint), np.uint32), np.zeros(len(points), np.int64)
    work, labels = kernels.work_of(threads, near.shape[1]), np.zeros(len(points), np.int64)
    table, moved = np.empty((len(rows), 2 * points.shape[1] + 1)), np.zeros((threads, 2), np.int64)
    reach = law if conditions.sponge is None else law._replace(sponge=max(law.sponge, cut))
    gw.parallel(lists.choose, reach, points, rows, table, near, counts, work, threads=threads)
    gw.parallel(
        kernels.label, law, points, near, counts, table, conditions.sponge_weight, cut, work, labels, moved,
        threads=threads,
    )  # fmt: skip
    return labels, moved.sum(axis=0)


def measure(
    points: Floats, labels: Integers, rows: Floats, total: int, settings: Settings, conditions: Conditions
) -> Quality:
    """Measure the properties of each cluster. Local.

    Args:
        points: all points, sorted along axis 0.
        labels: their clusters.
        rows: all clusters in order.
        total: number of points.
        settings: settings of the run.
        conditions: conditions at its end.
    """
    law, d = conditions.law(settings, total, len(rows)), points.shape[1]
    table, nearest = np.empty((len(rows), 2 * d + 1)), _nearest(law, rows, settings)
    gw.parallel(kernels.prepare, law, rows, table, threads=1)
    counts, widths = np.zeros((len(rows), 4), np.int64), np.zeros((len(rows), 2))
    neighbourhood(law, points, labels, table, radius(settings, conditions) ** 2, counts, widths)
    widths[:, 0] /= np.maximum(counts[:, 0], 1)
    centres, sigma = np.ascontiguousarray(rows[:, :d]), 1.0 / table[:, d : 2 * d]
    first, second = close_pairs(centres, sigma, settings.HistogramDistancesMax)
    squares = (((centres[second] - centres[first]) / sigma[first]) ** 2).sum(axis=1)
    near = squares < radius(settings, conditions) ** 2
    counts[:, 3] = np.bincount(np.concatenate([first[near], second[near]]), minlength=len(rows))
    distances = np.bincount(squares.astype(np.int64), minlength=settings.HistogramDistancesMax)
    largest = settings.HistogramOccupationMax - 1
    sizes = np.bincount(np.minimum(counts[:, 0], largest), minlength=largest + 1)
    return Quality(counts, widths, nearest, sizes, distances)


def _nearest(law: kernels.Law, rows: Floats, settings: Settings) -> tuple[Integers, Floats]:
    """The nearest other centres of each, as lists of clusters are made for points."""
    wanted, d = settings.NumberNearbyClusters, len(law.widths)
    near, counts = np.zeros((len(rows), wanted + 1), np.uint32), np.zeros(len(rows), np.int64)
    table, centres = np.empty((len(rows), 2 * d + 1)), np.ascontiguousarray(rows[:, :d])
    everything = law._replace(sponge=math.inf, limit=math.inf)
    work = kernels.work_of(1, wanted + 1)
    gw.parallel(lists.choose, everything, centres, rows, table, near, counts, work, threads=1)
    others = np.where(np.arange(wanted + 1) < counts[:, None], near.astype(np.int64), -1)
    # The first is the centre itself, or a copy of it.
    others = others[:, 1:]
    squares = (((centres[:, None] - centres[others]) * table[others, d : 2 * d]) ** 2).sum(axis=2)
    return others, np.where(others < 0, -1.0, squares)


@gw.jit
def neighbourhood(law: Any, x: Any, labels: Any, table: Any, cut: float, counts: Any, widths: Any) -> None:
    """Count, for each cluster, its points, and near its centre those of the sponge and of other clusters.

    `widths` gets the sum and the largest of d2 of its points.
    """
    place, rows, d = 0, len(table), len(law.widths)
    for i in range(len(x)):
        own = labels[i]
        if own >= 0:
            d2 = kernels.square(d, x, i, table, own)
            counts[own, 0] += 1
            widths[own, 0] += d2
            widths[own, 1] = max(widths[own, 1], d2)
        while place < rows and table[place, 0] < x[i, 0]:
            place += 1
        for side in range(2):
            k = place - 1 + side
            while 0 <= k < rows and ((x[i, 0] - table[k, 0]) * table[k, d]) ** 2 < cut:
                if k != own and kernels.square(d, x, i, table, k) < cut:
                    counts[k, 1 if own < 0 else 2] += 1
                k += 2 * side - 1
