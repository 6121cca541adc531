"""Expectation and maximisation: the clusters of a rank, and the passes of its points that move them.

Clusters are rows of a table: position (D columns), mixing weight P, and an age that splitting uses. What else a cluster
has follows from these and the temperature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import gondwana as gw
from gondwana.apps.davs import kernels
from gondwana.apps.davs.exchange import Divided, Floats, Integers, Replicated
from gondwana.apps.davs.settings import Settings
from gondwana.apps.timers import Timers

_LARGEST = 61
"""Sums of integers stay below two to this power."""
_SMALLEST_WEIGHT = 0.01
"""Times 1/N: the floor of P in memberships, so that a cluster that has lost its points can still get some."""


@dataclass
class Conditions:
    """Under what conditions memberships are computed.

    Attributes:
        temperature: T.
        widths: sigma of each axis, that of axis 0 relative to the position if the settings say so.
        sponge: f, the distance from which the sponge takes points; None: there is no sponge.
        sponge_weight: P of the sponge.
    """

    temperature: float
    widths: tuple[float, ...]
    sponge: float | None
    sponge_weight: float

    @property
    def sponge_square(self) -> float:
        """The d2 of the sponge, infinity if there is none."""
        return math.inf if self.sponge is None else self.sponge**2

    def search(self, settings: Settings) -> kernels.Search:
        """Return how far around a point clusters count. Local."""
        limit = 2.0 * self.temperature * settings.ExpArgumentCut2
        return kernels.Search(self.sponge_square, limit, self.widths[0], int(settings.relative))

    def law(self, total: int, cut: float) -> kernels.Law:
        """Return what the passes need to know. Local.

        Args:
            total: number of points.
            cut: see `kernels.Law`.
        """
        half, sponge = 0.5 / self.temperature, -math.inf
        if self.sponge is not None:
            sponge = math.log(max(self.sponge_weight, _SMALLEST_WEIGHT / total)) - half * self.sponge_square
        return kernels.Law(half, sponge, cut)


def sigma_of(centres: Floats, settings: Settings, conditions: Conditions) -> Floats:
    """Return the widths of clusters along the axes, K x D. Local."""
    widths = np.tile(conditions.widths, (len(centres), 1))
    if settings.relative:
        widths[:, 0] *= centres[:, 0]
    return widths


def table_of(rows: Floats, total: int, settings: Settings, conditions: Conditions) -> Floats:
    """Return what the passes need of each cluster: position, 1/sigma, ln P. Local."""
    d = len(conditions.widths)
    weights = np.maximum(rows[:, d], _SMALLEST_WEIGHT / total)
    return np.column_stack([rows[:, :d], 1.0 / sigma_of(rows[:, :d], settings, conditions), np.log(weights)])


@dataclass(frozen=True)
class Moments:
    """What decisions are made from, at one state of the clusters.

    Attributes:
        counts: C_k of the home clusters.
        freezing: sum of M (1 - M) over C_k.
        occupied: points of which each cluster has the largest membership.
        scatter: S_k, the mean of z z^T, D x D each.
        drift: sum of z m (1 - m) with m = M/2.
        sponge_count: C of the sponge.
        energy: H, half the sum of M d2.
        free_energy: F.
    """

    counts: Floats
    freezing: Floats
    occupied: Integers
    scatter: Floats
    drift: Floats
    sponge_count: float
    energy: float
    free_energy: float

    @property
    def widths(self) -> Floats:
        """W_k, the mean of d2."""
        return np.asarray(np.trace(self.scatter, axis1=1, axis2=2))


class Mixture:
    """The points of this rank and its clusters. Collective over the team to create.

    Args:
        points: those of this rank, a contiguous part of all, which are sorted along axis 0.
        total: number of points of all ranks.
        settings: of the run.
        team: the ranks.
        timers: get the seconds of the parts.

    Attributes:
        rows: the home clusters of this rank.
        clusters: number of clusters of all ranks.
    """

    def __init__(self, points: Floats, total: int, settings: Settings, team: gw.Team, timers: Timers) -> None:
        self.points, self.total, self.settings, self.timers = points, total, settings, timers
        self.team = team
        self.exchange: Replicated = Replicated(team, timers)
        self.rows = np.empty((0, points.shape[1] + 2))
        self.clusters = 0
        self._axes = tuple(range(points.shape[1]))
        self._threads = gw.threads()
        capacity = settings.TargetNcentPerPoint
        self._lists = np.zeros((len(points), capacity), np.int32)
        self._listed = np.zeros(len(points), np.int32)
        self._memberships = np.zeros((len(points), capacity + 1))
        self._work = np.zeros((self._threads, capacity))
        self._scales = kernels.Scales(*[1.0] * 7)

    @property
    def dimension(self) -> int:
        """The number of axes, D."""
        return int(self.points.shape[1])

    @property
    def widths(self) -> tuple[float, ...]:
        """The sigma of each axis at the start."""
        return (1.0,) * self.dimension if self.settings.SigmaMethod == 0 else self.settings.SigmaVectorParameters

    def centroid(self) -> Floats:
        """Return the mean of all points, the same on any number of ranks. Collective over the team."""
        largest = np.abs(self.points).max(axis=0, initial=1e-200)
        self._maximum(largest)
        scale = np.array([_power(self.total * value) for value in largest])
        sums = (self.points * scale).astype(np.int64).sum(axis=0)
        Replicated(self.team, self.timers).sum(sums)
        return np.asarray(sums / scale / self.total)

    def divide(self) -> None:
        """Go over to clusters that are divided over the ranks. Collective over the team."""
        ends = np.empty((self.team.size, 2))
        mine = self.points[[0, -1], 0] if len(self.points) else np.array([np.inf, np.inf])
        self.team.Allgather(np.ascontiguousarray(mine), ends)
        # Ranks without points come last; they get no clusters.
        middle = np.where(np.isinf(ends[1:, 0]), np.inf, 0.5 * (ends[:-1, 1] + ends[1:, 0]))
        self._cuts = middle
        self.rows = self.own(self.rows)
        self.exchange = Divided(self.team, self.timers, middle)

    def own(self, rows: Floats) -> Floats:
        """Return those of all clusters that this rank gets when they are divided. Local."""
        return np.asarray(rows[np.searchsorted(self._cuts, rows[:, 0], "right") == self.team.rank])

    def everything(self) -> Floats:
        """Return the rows of all clusters in order, on all ranks. Collective over the team."""
        return self.exchange.everything(self.rows)

    def sigma(self, centres: Floats, conditions: Conditions) -> Floats:
        """Return the widths of clusters along the axes, K x D. Local."""
        return sigma_of(centres, self.settings, conditions)

    def exact_sum(self, values: Floats) -> float:
        """Return the sum of a value of each home cluster over all ranks, the same however they are divided.

        Collective over the team.
        """
        largest = self.exchange.highest(float(np.abs(values).max(initial=0.0)))
        scale = _power(max(largest, 1e-200) * max(self.clusters, 1))
        return float(self.exchange.total(np.array([(values * scale).astype(np.int64).sum()]))[0]) / scale

    def choose(self, conditions: Conditions) -> None:
        """Bring the clusters in order and list those near each point. Collective over the team."""
        self.rows = self.exchange.arrange(self.rows)
        search = conditions.search(self.settings)
        low, high = self._range(search)
        while True:
            window = self.exchange.window(self.rows, low, high)
            reach, listed = self._choose(window, search, conditions)
            most = float(self.exchange.collect(listed)[:-1].max(initial=1))
            lacks = self.exchange.lacks(float(reach[:, 1].min()), float(reach[:, 2].max()))
            found = np.array([float(lacks), float(reach[:, 0].max()), most])
            self._maximum(found)
            if not found[0]:
                break
            low, high = min(low, float(reach[:, 1].min())), max(high, float(reach[:, 2].max()))
        self._memberships[:] = 0.0
        self._rescale(found[1], found[2], conditions)

    def _range(self, search: kernels.Search) -> tuple[float, float]:
        """Where clusters of this rank's points may be, if each point has one near, or the sponge."""
        ends = np.concatenate([self.points[[0, -1], 0] if len(self.points) else [], self.rows[:, 0]])
        if not len(ends):
            return math.inf, -math.inf
        first, last = float(ends.min()), float(ends.max())
        nearest = 0.0 if math.isinf(search.sponge) else search.sponge
        # Clusters are compared with those close to close ones, which may have moved meanwhile.
        close = 16.0 * self.settings.ScaledSquaredDistanceAtClosenessTest
        radius = math.sqrt(max(nearest + search.limit, close)) * search.width
        if not search.relative:
            return first - radius, last + radius
        return first / (1.0 + radius), last / (1.0 - radius) if radius < 1.0 else math.inf

    def _choose(self, window: Floats, search: kernels.Search, conditions: Conditions) -> tuple[Floats, Integers]:
        self._partial = np.zeros((self._threads, len(window) + 1, 3 + self.dimension * (self.dimension + 3) // 2), int)
        near = np.zeros((self._threads, self._lists.shape[1]))
        reach = np.zeros((self._threads, 3))
        with self.timers("compute"):
            table = table_of(window, self.total, self.settings, conditions)
            gw.parallel(
                kernels.choose, self._axes, self.points, table, search, self._lists, self._listed, near,
                self._partial, reach, threads=self._threads,
            )  # fmt: skip
        return reach, self._partial[:, :, :1].sum(axis=0)

    def _rescale(self, farthest: float, most: float, conditions: Conditions) -> None:
        """Choose the powers of two: from the largest d2 in a list, and the largest number of points of a cluster."""
        # Centres move until lists are made again, but not as far as this.
        limit = 2.0 * math.sqrt(farthest) + 1.0
        energy = limit**2 * self.dimension + (0.0 if conditions.sponge is None else conditions.sponge_square)
        logarithm = energy / (2.0 * conditions.temperature) + 100.0
        self._scales = kernels.Scales(
            _power(self.total), _power(most * limit), _power(most * limit**2), _power(self.total * energy),
            _power(self.total * logarithm), limit, energy,
        )  # fmt: skip

    def _maximum(self, values: Floats) -> None:
        """Replace values by the largest of all ranks."""
        if self.team.size > 1:
            with self.timers("allreduce"):
                self.team.Allreduce(gw.IN_PLACE, values, gw.MAX)

    def _pass(self, kernel: Any, conditions: Conditions, columns: int, *args: Any) -> Integers:
        """Run a pass over the points and add what all ranks have. Collective over the team."""
        window = self.exchange.spread(self.rows)
        partial = self._partial.reshape(-1)[: self._threads * (len(window) + 1) * columns]
        partial = partial.reshape(self._threads, len(window) + 1, columns)
        sums = partial[0] if self._threads == 1 else np.empty(partial.shape[1:], int)
        with self.timers("compute"):
            table = table_of(window, self.total, self.settings, conditions)
            law = conditions.law(self.total, self.settings.ExpArgumentCut1)
            gw.parallel(
                kernel, self._axes, self.points, self._lists, self._listed, table, law, self._scales,
                *args, self._work, partial, sums, threads=self._threads,
            )  # fmt: skip
        return self.exchange.collect(sums)

    def iterate(self, conditions: Conditions) -> tuple[float, Floats]:
        """Do one iteration: memberships, then weights and centres. Collective over the team.

        Returns:
            The mean change of a point's memberships since the last iteration, and how far each home centre has moved,
            as a squared distance.
        """
        sums = self._pass(kernels.expect, conditions, 1 + self.dimension, self._memberships)
        d, scales = self.dimension, self._scales
        counts = sums[:-1, 0] / scales.one
        sponge_count, change = sums[-1, 0] / scales.one, sums[-1, 1] / scales.one / self.total
        rows = self.rows.copy()
        full = counts > self.settings.CountForClusterCkToBeZero
        step = np.where(full[:, None], sums[:-1, 1 : 1 + d] / scales.z / np.where(full, counts, 1.0)[:, None], 0.0)
        rows[:, :d] += step * self.sigma(rows[:, :d], conditions)
        rows[:, d] = counts / self.total
        if conditions.sponge is not None:
            if self.settings.SpongePOption == 1:
                conditions.sponge_weight = self.settings.SpongePWeight / max(self.clusters, 1)
                rest = 1.0 - sponge_count / self.total
                rows[:, d] *= (1.0 - conditions.sponge_weight) / rest if rest > 0.0 else 1.0
            else:
                conditions.sponge_weight = sponge_count / self.total
        self.rows = rows
        return float(change), (step**2).sum(axis=1)

    def moments(self, conditions: Conditions) -> Moments:
        """Compute what decisions are made from. Collective over the team."""
        d, scales = self.dimension, self._scales
        width = 0.0 if conditions.sponge is None else conditions.sponge_square
        sums = self._pass(kernels.moments, conditions, self._partial.shape[2], width)
        counts = sums[:-1, 0] / scales.one
        divisor = np.where(counts > 0.0, counts, 1.0)
        scatter = np.empty((len(counts), d, d))
        upper = np.triu_indices(d)
        scatter[:, upper[0], upper[1]] = sums[:-1, 3:-d] / scales.zz / divisor[:, None]
        scatter[:, upper[1], upper[0]] = scatter[:, upper[0], upper[1]]
        return Moments(
            counts,
            sums[:-1, 1] / scales.one / divisor,
            sums[:-1, 2],
            scatter,
            sums[:-1, -d:] / scales.z,
            float(sums[-1, 0] / scales.one),
            0.5 * float(sums[-1, 3] / scales.energy),
            conditions.temperature * float(sums[-1, 4] / scales.logarithm),
        )


def _power(bound: float) -> float:
    """Return the power of two by which numbers are multiplied whose sum is at most `bound`."""
    return 2.0 ** math.floor(_LARGEST - math.log2(bound))
