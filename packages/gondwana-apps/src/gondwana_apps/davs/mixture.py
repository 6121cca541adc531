"""Expectation and maximisation: the clusters of a rank, and the passes of its points that move them.

Clusters are rows of a table: position (D columns), mixing weight P, and an age that splitting uses. All other values of
a cluster follow from these and the temperature.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import gondwana as gw
from gondwana_apps.davs import kernels, lists
from gondwana_apps.davs.exchange import Exchange, Floats, Integers, Links
from gondwana_apps.davs.settings import Settings
from gondwana_apps.timers import Timers

_LARGEST = 61
"""Sums of integers stay below two to this power."""
_SMALLEST_WEIGHT = 0.01
"""Times 1/N: the floor of P in memberships, so that a cluster that has lost its points can still get some."""


_MARGIN = 1.5
"""Factor by which the d2 of points from their nearest clusters may grow from the previous temperature."""
_FAR = 1e300
"""The radius if clusters at any distance may be near."""
_UNEVEN, _COST_OF_A_POINT = 1.01, 3
"""Points move between ranks if one has this factor more work than the mean; the time of a point, beside that of its
list, in clusters."""


@dataclass
class Conditions:
    """The conditions under which memberships are computed.

    Attributes:
        temperature: T.
        widths: sigma of each axis, that of axis 0 relative to the position if the settings say so.
        sponge: f, the distance from which the sponge takes points; None: no sponge.
        sponge_weight: P of the sponge.
    """

    temperature: float
    widths: tuple[float, ...]
    sponge: float | None
    sponge_weight: float

    @property
    def sponge_square(self) -> float:
        """The d2 of the sponge, infinity without one."""
        return math.inf if self.sponge is None else self.sponge**2

    def law(self, settings: Settings, total: int, clusters: int) -> kernels.Law:
        """Return the parameters for compiled code. Local.

        Args:
            settings: settings of the run.
            total: number of points.
            clusters: number of clusters.
        """
        share = settings.SpongePWeight / max(clusters, 1) if settings.SpongePOption == 1 else -1.0
        return kernels.Law(
            self.widths, int(settings.relative), 0.5 / self.temperature, self.sponge_square, share,
            settings.ExpArgumentCut1, 2.0 * self.temperature * settings.ExpArgumentCut2, _SMALLEST_WEIGHT / total,
            settings.CountForClusterCkToBeZero, float(total),
        )  # fmt: skip


class Moments(NamedTuple):
    """The basis of decisions, at one state of the clusters.

    Attributes:
        sponge_count: C of the sponge.
        energy: H, half the sum of M d2.
        free_energy: F.
        counts: C_k, for each cluster of the window as all that follow.
        freezing: the sum of M (1 - M) over C_k.
        occupied: number of points of which each cluster has the largest membership.
        widths: W_k, the mean of d2.
        drift: the sum of z m (1 - m) with m = M/2.
        scatter: S_k, the mean of z z^T, D x D each.
    """

    sponge_count: float
    energy: float
    free_energy: float
    counts: Floats
    freezing: Floats
    occupied: Floats
    widths: Floats
    drift: Floats
    scatter: Floats

    def of(self, chosen: Integers) -> Moments:
        """Return the moments of some clusters. Local."""
        return Moments(*self[:3], *(values[chosen] for values in self[3:]))


class Mixture:
    """The points of this rank and its clusters. Collective over the team to create.

    Args:
        points: points of this rank, a contiguous part of all, which are sorted along axis 0.
        total: number of points of all ranks.
        settings: settings of the run.
        team: the ranks.
        timers: timers of the parts.

    Attributes:
        window: clusters that this rank holds: those at home here, and others that its points may reach.
        home: the clusters of the window that are at home here.
        clusters: number of clusters of all ranks.
    """

    def __init__(self, points: Floats, total: int, settings: Settings, team: gw.Team, timers: Timers) -> None:
        self.total, self.settings, self.timers = total, settings, timers
        self.team = team
        self.exchange = Exchange(team, timers)
        self.rows = np.empty((0, points.shape[1] + 2))
        self.clusters = 0
        self._threads = gw.threads()
        self._place(points)
        self._work = kernels.work_of(self._threads, settings.TargetNcentPerPoint)
        self._sums, self._room = np.empty(0, np.int64), np.empty(0, np.int64)
        self._spent = np.zeros(2, np.int64)
        self._scales = kernels.Scales(*[1.0] * 7)
        self._closest = 0.0

    @property
    def rows(self) -> Floats:
        """The home clusters of this rank."""
        return self.window[self.home]

    @rows.setter
    def rows(self, rows: Floats) -> None:
        self.window, self.home = rows, slice(None)

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
        with self.timers("allreduce"):
            self.team.Allreduce(gw.IN_PLACE, sums)
        return np.asarray(sums / scale / self.total)

    def divide(self) -> None:
        """Divide the clusters over the ranks from now on. Collective over the team."""
        self.exchange.divide(self.points)
        self.rows = self.exchange.own(self.rows)

    def everything(self) -> Floats:
        """Return the rows of all clusters in order, on all ranks. Collective over the team."""
        return self.exchange.everything(self.rows)

    def sigma(self, centres: Floats, conditions: Conditions) -> Floats:
        """Return the widths of clusters along the axes, K x D. Local."""
        widths = np.tile(conditions.widths, (len(centres), 1))
        if self.settings.relative:
            widths[:, 0] *= centres[:, 0]
        return widths

    def exact_sum(self, values: Floats) -> float:
        """Return the sum of a value of each home cluster over all ranks, the same for every division.

        Collective over the team.
        """
        largest = self.exchange.highest(float(np.abs(values).max(initial=0.0)))
        scale = _power(max(largest, 1e-200) * max(self.clusters, 1))
        return float(self.exchange.total(np.array([(values * scale).astype(np.int64).sum()]))[0]) / scale

    def choose(self, conditions: Conditions) -> None:
        """Sort the clusters and list those near each point. Collective over the team."""
        self._balance()
        rows, law = self.rows, self.law(conditions)
        while True:
            # Clusters are compared with those close to close ones, which may have moved meanwhile.
            near = max(self._closest + law.limit, 16.0 * self.settings.ScaledSquaredDistanceAtClosenessTest)
            radius = min(math.sqrt(near) * law.widths[0], _FAR)
            self.window, links = self.exchange.window(rows, radius, relative=self.settings.relative)
            self.home = self.exchange.home(self.window)
            self._prepare(links)
            found = np.array(self._run(lists.begin, law))
            self._maximum(found)
            closest, farthest, most = found.tolist()
            # Elsewhere, lists may lack clusters that the window does not have.
            if not self.exchange.divided or closest <= self._closest:
                break
            self._closest = closest
        self._closest = _MARGIN * closest
        self._rescale(farthest, most, conditions)

    def _balance(self) -> None:
        """Move points to other ranks if some have much longer lists. Collective over the team."""
        size, work = self.team.size, self._listed + _COST_OF_A_POINT
        if size == 1:
            return
        loads = np.empty(size, np.int64)
        self.team.Allgather(work.sum(keepdims=True), loads)
        total = int(loads.sum())
        # No rank loses all of its points.
        if loads.max() * size <= _UNEVEN * total or self.total < size * (self._lists.shape[1] + _COST_OF_A_POINT):
            return
        before = np.cumsum(work) - work + int(loads[: self.team.rank].sum())
        self._place(self.exchange.deliver(self.points, before * size // total))
        if self.exchange.divided:
            self.exchange.divide(self.points)

    def _place(self, points: Floats) -> None:
        """Make space for lists and memberships of points."""
        capacity = self.settings.TargetNcentPerPoint
        self.points = points
        self._lists = np.zeros((len(points), capacity), np.uint32)
        self._listed = np.zeros(len(points), np.int64)
        self._memberships = np.zeros((len(points), capacity + 1))

    def _prepare(self, links: Links) -> None:
        """Make space for the values that passes compute of the clusters in the window."""
        d, size = self.dimension, len(self.window)
        columns = 3 + d * (d + 3) // 2
        sums = (self._threads + 1) * (size + 1) * columns
        shared = int((links.pieces[:, 2] - links.pieces[:, 1]).sum()) * columns
        if len(self._sums) < sums or len(self._room) < shared:
            self._sums, self._room = np.empty(2 * sums, np.int64), np.empty(2 * shared, np.int64)
        self._state = kernels.State(
            links, self.points, self._lists, self._listed, self.window, np.empty((size, 2 * d + 1)),
            self._memberships, self._work, self._sums, self._room, np.empty(size), self._spent,
        )  # fmt: skip

    def law(self, conditions: Conditions) -> kernels.Law:
        """Return the parameters for compiled code. Local."""
        return conditions.law(self.settings, self.total, self.clusters)

    def _rescale(self, farthest: float, most: float, conditions: Conditions) -> None:
        """Choose the powers of two: from the largest d2 in a list, and the largest number of points of a cluster."""
        # Centres move until lists are made again, but not as far as this.
        limit = 2.0 * math.sqrt(farthest) + 1.0
        energy = limit**2 * self.dimension + (0.0 if conditions.sponge is None else conditions.sponge_square)
        logarithm = energy / (2.0 * conditions.temperature) + 100.0
        most = max(most, 1.0)
        self._scales = kernels.Scales(
            _power(self.total), _power(most * limit), _power(most * limit**2), _power(self.total * energy),
            _power(self.total * logarithm), limit, energy,
        )  # fmt: skip

    def _maximum(self, values: Floats) -> None:
        """Replace values by the largest of all ranks."""
        if self.team.size > 1:
            with self.timers("allreduce"):
                self.team.Allreduce(gw.IN_PLACE, values, gw.MAX)

    def _run(self, kernel: Any, law: kernels.Law, *args: Any) -> Any:
        """Run a pass on the present state. Collective over the team."""
        self._spent[:] = 0
        start = time.perf_counter()
        result = gw.parallel(kernel, law, self._state, *args, threads=self._threads)
        allreduce, send_receive = self._spent * 1e-9
        seconds = self.timers.seconds
        seconds["allreduce"] += allreduce
        seconds["send_receive"] += send_receive
        seconds["compute"] += time.perf_counter() - start - allreduce - send_receive
        return result

    def iterate(
        self, conditions: Conditions, tolerance: float = 0.0, limit: int = 1, least: int = 1
    ) -> tuple[int, float, Floats]:
        """Iterate memberships, weights and centres until memberships no longer change. Collective over the team.

        Args:
            conditions: conditions; their weight of the sponge is set.
            tolerance: mean change of a point's memberships that is small enough.
            limit: most iterations.
            least: fewest iterations.

        Returns:
            The number of iterations, the last mean change, and the squared distance of each home centre's movement in
            the last iteration.
        """
        done, change, conditions.sponge_weight = self._run(
            kernels.equilibrate, self.law(conditions), self._scales, conditions.sponge_weight, tolerance, limit, least
        )
        return done, change, self._state.moved[self.home]

    def moments(self, conditions: Conditions) -> Moments:
        """Compute the basis of decisions. Collective over the team."""
        d, law = self.dimension, self.law(conditions)
        about = np.empty((len(self.window), 4 + d + d * d))
        outside, energy, free = self._run(kernels.measure, law, self._scales, conditions.sponge_weight, about)
        counts, freezing, occupied, widths = about[:, :4].T
        drift, scatter = about[:, 4 : 4 + d], about[:, 4 + d :].reshape(-1, d, d)
        sums = outside, 0.5 * energy, conditions.temperature * free
        return Moments(*sums, counts, freezing, occupied, widths, drift, scatter)


def _power(bound: float) -> float:
    """Return the power of two for scaling numbers whose sum is at most `bound`."""
    return 2.0 ** math.floor(_LARGEST - math.log2(bound))
