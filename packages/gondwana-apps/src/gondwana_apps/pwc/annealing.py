"""The annealing: from one cluster at a high temperature to as many as are found, until each point belongs to one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana_apps.pwc import splitting
from gondwana_apps.pwc.equations import Solution, alone, freezing, sweep
from gondwana_apps.pwc.rows import Rows, Vectors
from gondwana_apps.pwc.settings import Settings

_HOTTEST, _COLDEST, _FINAL_COOLING = 2.0, 1e-5, 0.98
"""First temperature by the mean dissimilarity, last by the first, and the factor of a step at the end."""
_STEPS_OF_INTEGERS = 3.0
"""Temperature, in steps of integer dissimilarities, below which these are too coarse."""
_SUM_ERROR = 1e-9
"""Relative error of the sum of all sizes."""
_CLOSE = 0.01
"""Clusters coincide if neither their sizes nor, by the temperature, their potentials differ by more."""
_DUPLICATE_SWEEPS, _MOST_SPLITS, _MOST_RISES, _MOST_FAILURES = 200, 3, 5, 2


Watch = Callable[[float, int, float], None]


class Step(NamedTuple):
    """A temperature at which clusters were tested, with the eigenvalue of the least stable one (below 0: unstable)."""

    temperature: float
    clusters: int
    eigenvalue: float | None


class Partition(NamedTuple):
    """The result, the same on all ranks.

    Attributes:
        labels: the cluster of each point [N].
        sizes: points of each cluster [K].
        centers: the member of each cluster with the least mean dissimilarity to the members [K].
        widths: mean dissimilarity of two members [K].
        related: mean dissimilarity of members of two clusters, by the root of the product of their widths [K, K].
        energy: H, half the sum of size times width.
        freezing: the largest Phi.
        verified: whether all limits were kept: of the iterations, of the temperatures, of the sum of the sizes, and of
            the difference between H and the energy of the annealed solution, which the freezing limit bounds.
    """

    labels: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    centers: npt.NDArray[np.int64]
    widths: Vectors
    related: Vectors
    energy: float
    freezing: float
    verified: bool


class Freezing(NamedTuple):
    """State of the cooling at the last number of clusters.

    Attributes:
        best: the solution with the lowest energy.
        before: the previous energy.
        rises: successive rises of the energy.
        done: steps of temperature.
    """

    best: Solution
    before: float = np.inf
    rises: int = 0
    done: int = 0


class Annealing:
    """The state of a run. Collective over the team of the rows to create.

    Args:
        rows: the dissimilarities.
        settings: settings that decide the run.
        quantum: step of dissimilarities that were integers, 0 for others.
        watch: called after each step with the temperature, the clusters, and the share of the way to the end.
        keep: called before each temperature, with this object.

    Attributes:
        rows: the dissimilarities.
        first: the first temperature.
        temperature: T.
        solution: the clusters at T.
        trace: the tests for splits.
        family: partitions for smaller numbers of clusters, if requested.
        steps: temperatures so far.
        waited: those since the last test for splits.
        failures: successive tests that found no eigenvalue.
        converged: whether each equilibrium was reached within the limit of iterations.
        closing: state of the cooling at the end, None before it.
    """

    def __init__(
        self,
        rows: Rows,
        settings: Settings,
        quantum: float = 0.0,
        watch: Watch = lambda *state: None,
        keep: Callable[[Annealing], None] = lambda annealing: None,
    ) -> None:
        self.rows, self._settings, self._watch, self._keep = rows, settings, watch, keep
        self.solution = alone(rows)
        total = float(rows.total(self.solution.mean[:, rows.own])[0])
        mean = total / max(1, rows.points - 1)  # B is the mean over all N
        self.temperature = self.first = _HOTTEST * mean or 1.0
        self._last = max(_COLDEST * self.first, _STEPS_OF_INTEGERS * quantum)
        self.trace: list[Step] = []
        self.family: dict[int, Partition] = {}
        self.steps = self.waited = self.failures = 0
        self.converged = True
        self.closing: Freezing | None = None

    def run(self) -> Partition:
        """Cool and split until the largest number of clusters is reached or none splits. Collective."""
        if self.closing is None:
            self._anneal()
        return self._finish(self._anneal)

    def _anneal(self) -> None:
        s = self._settings
        while self._step() and len(self.solution.size) < s.MaxNcent and self.temperature >= self._last:
            self.waited += 1
            if len(self.solution.size) == 1 or self.waited > s.WaitIterations:
                self.waited = 0
                if self._merge():
                    self._equilibrate()
                with self.rows.timed("splitting"):
                    known, new = self._test()
                self.failures = 0 if known else self.failures + 1
                if self.failures == _MOST_FAILURES:
                    break
                if new is not None:
                    if s.ConvergeIntermediateClusters:
                        branch = copy.copy(self)
                        branch._keep = lambda annealing: None
                        self.family[len(self.solution.size)] = branch._finish()
                    self.solution = new
                    continue
            self._cool(s.InitialCoolingFactor if len(self.solution.size) == 1 else s.FineCoolingFactor)
        self.waited = self.failures = 0

    def _step(self) -> bool:
        """Come to the next temperature: return whether the equilibrium there was reached. Collective."""
        self._keep(self)
        self.steps += 1
        return self._equilibrate()

    def _equilibrate(self) -> bool:
        """Iterate at this temperature until no potential changes; return whether that was reached. Collective."""
        limit = self._settings.ConvergenceLoopLimit
        self.solution, reached = self._settled(self.solution, np.ones(len(self.solution.size)), limit)
        self.converged &= reached
        return reached

    def _settled(self, solution: Solution, copies: Vectors, limit: int) -> tuple[Solution, bool]:
        s = self._settings
        for _ in range(limit):
            solution, change = sweep(self.rows, solution, self.temperature, copies, s.ContinuousClustering)
            if change <= s.EpsiMaxChange * self.temperature:
                return solution, True
        return solution, False

    def _cool(self, factor: float) -> None:
        self.temperature *= factor
        done = np.log(self.first / self.temperature) / np.log(self.first / self._last)
        self._watch(self.temperature, len(self.solution.size), min(1.0, float(done)))

    def _test(self) -> tuple[bool, Solution | None]:
        """Return whether an eigenvalue was found, and a solution with clusters split, None if all are stable."""
        s, here = self._settings, self.solution
        large = np.flatnonzero(here.size > s.TooSmallToSplit)
        if not len(large):
            return False, None
        if jointly := len(here.size) == 1 or s.ContinuousClustering:
            bases = [here._replace(membership=0.5 * here.membership, size=0.5 * here.size)] * len(large)
        else:
            bases = [self._duplicated(cluster) for cluster in large]
        copies = Solution(*map(np.concatenate, zip(*map(Solution.select, bases, large[:, None]), strict=True)))
        found = splitting.lowest(self.rows, copies, self.temperature, s)
        known, relative = bool(found.known.any()), np.where(found.known, found.lowest / found.largest, np.inf)
        self.trace.append(Step(self.temperature, len(here.size), float(relative.min()) if known else None))
        order = np.argsort(np.where(found.known, found.lowest, np.inf), kind="stable")
        most = min(_MOST_SPLITS if jointly else 1, s.MaxNcent - len(here.size))
        chosen = [number for number in order if relative[number] <= s.MinEigTest][:most]
        if not chosen:
            return known, None
        new: Solution = bases[chosen[0]]
        for number in chosen:
            copied, vector = copies.select([number]), found.vectors[number]
            new = splitting.split(new, int(large[number]), copied, vector, self.temperature)
        return known, new

    def _duplicated(self, cluster: np.intp) -> Solution:
        """Return the clusters, each alone but for one that counts twice."""
        copies = np.ones(len(self.solution.size))
        copies[cluster] = 2.0
        return self._settled(self.solution, copies, _DUPLICATE_SWEEPS)[0]

    def _merge(self) -> bool:
        """Remove clusters that coincide with another one, such as copies that a split has not driven apart."""
        size, potential = self.solution.size, self.solution.potential
        alike = [(j, k) for k in range(len(size)) for j in range(k) if abs(size[j] - size[k]) <= _CLOSE * size[k]]
        if not alike:
            return False
        gaps = [np.abs(potential[j] - potential[k]).mean() for j, k in alike]
        kept = np.ones(len(size), bool)
        kept[[k for (_, k), gap in zip(alike, gaps, strict=True) if gap <= _CLOSE * self.temperature]] = False
        self.solution = self.solution.select(kept)
        return not kept.all()

    def _finish(self, after_merging: Callable[[], None] = lambda: None) -> Partition:
        """Cool until every point belongs to one cluster, without those that have too few points. Collective."""
        while True:
            while self._freeze():
                after_merging()
            kept = self.solution.size >= self._settings.MinimumCountForClusterCk
            kept[self.solution.size.argmax()] = True
            if kept.all():
                return self._partition()
            self.solution = self.solution.select(kept)

    def _freeze(self) -> bool:
        """Cool at this number of clusters and keep the solution with the lowest energy, or stop if two coincide."""
        best, before, rises, begin = self.closing or Freezing(self.solution)
        for done in range(begin, self._settings.IterationAtEnd):
            self.closing = Freezing(best, before, rises, done)
            self._step()
            energy = self.solution.energy
            rises = rises + 1 if energy > before else 0
            if before == np.inf or energy <= best.energy:
                best = self.solution
            if rises == _MOST_RISES or freezing(self.rows, self.solution).max() <= self._settings.FreezingLimit:
                break
            before = energy
            merged = self._merge()
            self._cool(_FINAL_COOLING)
            if merged:
                self.closing = None
                return True
        else:
            self.converged = False
        self.solution, self.closing = best, None
        return False

    def _partition(self) -> Partition:
        """Give each point to its nearest cluster, and describe the clusters."""
        here, rows = self.solution, self.rows
        nearest = -here.membership if self._settings.ContinuousClustering else here.potential
        found, labels = np.unique(nearest.argmin(axis=0), return_inverse=True)
        belongs = labels == np.arange(len(found))[:, None]
        sizes, sums = belongs.sum(axis=1), rows.gather(rows.multiply(belongs.astype(float)))
        related = np.stack([sums[:, members].sum(axis=1) for members in belongs], axis=1) / np.outer(sizes, sizes)
        widths, centers = related.diagonal().copy(), np.where(belongs, sums, np.inf).argmin(axis=1)
        scale = np.sqrt(np.outer(widths, widths))
        related = np.divide(related, scale, out=np.zeros_like(scale), where=scale > 0.0)
        energy, frozen = 0.5 * float((widths * sizes).sum()), float(freezing(rows, here).max())
        agrees = abs(energy - here.energy) <= self._settings.FreezingLimit * self.first * rows.points
        agrees &= abs(here.size.sum() - rows.points) <= _SUM_ERROR * rows.points
        return Partition(labels, sizes, centers, widths, related, energy, frozen, bool(self.converged and agrees))
