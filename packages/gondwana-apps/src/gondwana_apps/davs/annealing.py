"""Annealing: equilibrium at one temperature after the other, and the decisions in between."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

import numpy as np

from gondwana_apps.davs.exchange import Floats
from gondwana_apps.davs.mixture import Conditions, Mixture, Moments
from gondwana_apps.davs.settings import Settings
from gondwana_apps.davs.splitting import MATURE, split
from gondwana_apps.davs.validity import remove

_START = 1.5
"""The first temperature over the mean of d2 to the centroid; the first split comes below the variance of one axis."""
_RISES = 5
"""Successive rises of the energy before annealing ends."""
_REPEATED, _HELD = 100, 10
"""Temperatures left to the final loop; distance to the limit while the energy falls."""
_AT_REST = 1e-6
"""Mean squared movement of centres, over the mean width, below which the final loop has converged."""
_WAIT_AFTER_RESTART = 10
_COLDEST = 1e-12
"""The first temperature if all points are at one place."""
_FAILURES = 1


class Phase(enum.StrEnum):
    """The phase of a run."""

    ANNEAL = "anneal"
    LAST = "last"
    FINAL = "final"
    DONE = "done"


@dataclass
class Progress:
    """Everything about a run but the clusters, as JSON can hold it.

    Attributes:
        temperature: T.
        first: the first T.
        width: sigma of axis 0.
        sponge: distance of the sponge, None without one.
        sponge_weight: P of the sponge.
        phase: phase of the run.
        fine: whether a cluster has split.
        divided: whether clusters are divided over the ranks.
        wait: temperatures until the next test for splits.
        failures: tests without any cluster that could split.
        closing: temperatures since the last split.
        rises: successive rises of the energy.
        energy: H at the previous temperature; None if it cannot be compared.
        best: the lowest H with the present number of clusters; None: unknown.
        steps: equilibria so far.
        iterations: iterations of expectation and maximisation.
        unconverged: equilibria that were not reached within the limit of iterations.
        history: temperature, clusters, energy and share of points in the sponge at each equilibrium.
    """

    temperature: float
    first: float
    width: float
    sponge: float | None = None
    sponge_weight: float = 0.0
    phase: str = Phase.ANNEAL
    fine: bool = False
    divided: bool = False
    wait: int = 0
    failures: int = 0
    closing: int = 0
    rises: int = 0
    energy: float | None = None
    best: float | None = None
    steps: int = 0
    iterations: int = 0
    unconverged: int = 0
    history: list[tuple[float, int, float, float]] = field(default_factory=list)


class Annealing:
    """A run, from one cluster to the end. Collective over the team to create.

    Args:
        mixture: the points and their clusters; empty clusters: one at the centroid is the start.
        progress: progress of a run that is continued, or None.
        best: clusters of its lowest energy.

    Attributes:
        mixture: the points and their clusters.
        progress: progress of the run.
        best: clusters at the lowest energy with the present number of clusters.
    """

    def __init__(self, mixture: Mixture, progress: Progress | None = None, best: Floats | None = None) -> None:
        self.mixture, self.settings = mixture, mixture.settings
        self.progress = self._start() if progress is None else progress
        self.best = mixture.rows if best is None else best
        if progress is not None and progress.divided:
            self._divide()

    @property
    def conditions(self) -> Conditions:
        """The present conditions of memberships."""
        p = self.progress
        widths = (p.width, *self.mixture.widths[1:])
        return Conditions(p.temperature, widths, p.sponge, p.sponge_weight)

    def step(self) -> bool:
        """Reach one equilibrium and decide how to continue. Collective over the team.

        Returns:
            Whether the run continues.
        """
        p = self.progress
        moments, conditions = self._equilibrium()
        kept, removed = remove(self.mixture, moments, conditions)
        moments = moments.of(kept)
        clusters = self.mixture.clusters
        p.steps += 1
        p.history.append((p.temperature, clusters, moments.energy, moments.sponge_count / self.mixture.total))
        if removed:
            p.wait, p.energy = max(p.wait, self.settings.WaitIterationsConverge), None
        if p.phase == Phase.ANNEAL:
            self._anneal(moments, conditions, clusters)
        else:
            self._close(moments, removed)
        return p.phase != Phase.DONE

    def _start(self) -> Progress:
        """The first temperature: of one cluster at the centroid, or of given centres."""
        s, mixture = self.settings, self.mixture
        progress = Progress(1.0, 1.0, mixture.widths[0])
        if mixture.clusters:
            progress.temperature = progress.first = s.RestartTemperature
            progress.width = s.FinalTargetSigma0 if s.SigmaMethod == 3 else progress.width
            progress.fine, progress.wait = True, _WAIT_AFTER_RESTART * s.WaitIterations
            if s.UseSponge or progress.temperature < s.SpongeTemperature1:
                progress.sponge = sponge_factor(s, progress.temperature)
                progress.sponge_weight = s.SpongePWeight / mixture.clusters
            return progress
        mixture.rows, mixture.clusters = np.concatenate([mixture.centroid(), [1.0, MATURE]])[None], 1
        conditions = Conditions(1.0, mixture.widths, None, 0.0)
        mixture.choose(conditions)
        width = float(mixture.moments(conditions).widths[0])
        progress.temperature = progress.first = max(_START * width, _COLDEST)
        if s.UseSponge:
            progress.sponge, progress.sponge_weight = sponge_factor(s, progress.temperature), 0.5
            mixture.rows[:, mixture.dimension] = 0.5
        return progress

    def _equilibrium(self) -> tuple[Moments, Conditions]:
        """Iterate until memberships no longer change."""
        p, s, mixture = self.progress, self.settings, self.mixture
        conditions, final = self.conditions, p.phase == Phase.FINAL
        tolerance = s.MalphaMaxChange1 if final else s.MalphaMaxChange
        mixture.choose(conditions)
        done, least, at_rest = 0, 2, False
        while done < s.ConvergenceLoopLimit and not at_rest:
            more, change, moved = mixture.iterate(conditions, tolerance, s.ConvergenceLoopLimit - done, least)
            done, least = done + more, 1
            at_rest = change <= tolerance and not (final and self._moves(moved, conditions))
        p.iterations += done
        p.unconverged += not at_rest
        p.sponge_weight = conditions.sponge_weight
        return mixture.moments(conditions), conditions

    def _moves(self, moved: Floats, conditions: Conditions) -> bool:
        width = _mean_width(self.mixture.moments(conditions), conditions, self.mixture.total)
        return self.mixture.exact_sum(moved) / max(self.mixture.clusters, 1) > _AT_REST * width

    def _anneal(self, moments: Moments, conditions: Conditions, clusters: int) -> None:
        p, s = self.progress, self.settings
        room = s.MaxNumberSplitClusters
        if s.MaxNcentTotal:
            room = min(room, s.MaxNcentTotal - clusters)
        if room <= 0 or p.temperature < least_temperature(s, p.first) or p.failures > _FAILURES:
            p.phase, p.energy, p.best = Phase.LAST, None, None
            return
        if p.wait > 0:
            p.wait -= 1
        else:
            with self.mixture.timers("splitting"):
                tested, count = split(self.mixture, moments, conditions, room)
            p.failures = 0 if tested else p.failures + 1
            p.wait = s.WaitIterations if clusters > 1 else 0
            if count:
                p.fine, p.energy = True, None
                return
        self._cool(moments, clusters)

    def _close(self, moments: Moments, removed: int) -> None:
        """After the last split: cool until all memberships are frozen, then once more with a stricter test."""
        p, s, mixture = self.progress, self.settings, self.mixture
        p.closing += 1
        falls = p.energy is None or moments.energy <= p.energy
        p.rises = 0 if falls else p.rises + 1
        if removed:
            p.best = None
        if p.best is None or moments.energy <= p.best:
            p.best, self.best = moments.energy, mixture.rows.copy()
        p.energy = moments.energy
        if falls and p.temperature >= least_temperature(s, p.first):
            p.closing = min(p.closing, s.IterationAtEnd - _HELD)
        frozen = mixture.exchange.highest(float(moments.freezing.max(initial=0.0))) <= s.FreezingLimit
        if self._settled() and (frozen or p.rises >= _RISES or p.closing >= s.IterationAtEnd):
            if p.phase == Phase.LAST or removed:
                p.phase, p.rises, p.closing = Phase.FINAL, 0, max(s.IterationAtEnd - _REPEATED, 0)
            else:
                p.phase = Phase.DONE
                if p.best < moments.energy:
                    mixture.rows = self.best
                return
        self._cool(moments, mixture.clusters)

    def _settled(self) -> bool:
        """Return whether sponge and width have their final values."""
        p, s = self.progress, self.settings
        if p.sponge is None and p.temperature >= s.SpongeTemperature1 > 0.0:
            return False
        if p.sponge is not None and p.sponge != sponge_factor(s, 0.0, p.sponge):
            return False
        return s.SigmaMethod != 3 or p.width == s.FinalTargetSigma0

    def _cool(self, moments: Moments, clusters: int) -> None:
        """Add the sponge, or else lower the temperature; clusters may be divided, which changes no result."""
        p, s = self.progress, self.settings
        if p.sponge is None and self._wants_sponge(moments):
            p.sponge, p.sponge_weight = sponge_factor(s, p.temperature), s.SpongePWeight / max(clusters, 1)
            self.mixture.rows[:, self.mixture.dimension] *= 1.0 - p.sponge_weight
            p.energy = p.best = None
            return
        if not p.divided and self._wants_division(clusters):
            self._divide()
            p.divided = True
        factor = cooling_factor(s, p.temperature, fine=p.fine and p.phase == Phase.ANNEAL)
        before, p.temperature = p.temperature, p.temperature * factor
        width = annealed_width(s, p.width, before, p.temperature)
        sponge = None if p.sponge is None else sponge_factor(s, p.temperature, p.sponge)
        if (width, sponge) != (p.width, p.sponge):
            p.energy = p.best = None
        p.width, p.sponge = width, sponge

    def _divide(self) -> None:
        self.mixture.divide()
        self.best = self.mixture.exchange.own(self.best)

    def _wants_sponge(self, moments: Moments) -> bool:
        s, p = self.settings, self.progress
        narrow = 2.0 * moments.energy / self.mixture.total <= s.CreateSpongeScaledSquaredWidth
        return p.temperature < s.SpongeTemperature1 or narrow

    def _wants_division(self, clusters: int) -> bool:
        s, size = self.settings, self.mixture.team.size
        if size == 1:
            return False
        many = s.ClusterLimitForDistribution >= 0 and clusters >= max(s.ClusterLimitForDistribution, 4 * size)
        return many or self.progress.temperature <= s.TemperatureLimitForDistribution


def least_temperature(settings: Settings, first: float) -> float:
    """Return the temperature at which splitting ends. Local.

    Args:
        settings: settings of the run.
        first: the first temperature.
    """
    return settings.Tminimum if settings.Tminimum > 0.0 else first / -settings.Tminimum


def cooling_factor(settings: Settings, temperature: float, *, fine: bool) -> float:
    """Return the factor of the temperature. Local.

    Args:
        settings: settings of the run.
        temperature: the present temperature.
        fine: True from the first to the last split.
    """
    s = settings
    if temperature >= s.CoolingTemperatureSwitch:
        return s.FineCoolingFactor1 if fine else s.InitialCoolingFactor1
    return max(s.FineCoolingFactor1, s.FineCoolingFactor2) if fine else s.InitialCoolingFactor2


def sponge_factor(settings: Settings, temperature: float, present: float | None = None) -> float:
    """Return the distance f of the sponge: linear in T from f_1 at T_1 to f_2 at T_2, constant outside. Local.

    Args:
        settings: settings of the run.
        temperature: T.
        present: the present f, which stays if the settings have no second temperature or factor.

    Example:
        >>> from gondwana_apps.davs.settings import Settings
        >>> [sponge_factor(Settings(), T) for T in (20.0, 9.0, 6.0, 3.0, 1.0)]
        [12.0, 12.0, 7.5, 3.0, 3.0]
    """
    s = settings
    if s.SpongeTemperature2 < 0.0 or s.SpongeFactor2 < 0.0:
        return s.SpongeFactor1 if present is None else present
    if temperature <= s.SpongeTemperature2:
        return s.SpongeFactor2
    if temperature >= s.SpongeTemperature1:
        return s.SpongeFactor1
    share = (temperature - s.SpongeTemperature2) / (s.SpongeTemperature1 - s.SpongeTemperature2)
    return s.SpongeFactor2 + (s.SpongeFactor1 - s.SpongeFactor2) * share


def annealed_width(settings: Settings, width: float, before: float, after: float) -> float:
    """Return the width of axis 0 after a step of the temperature: its logarithm is linear in that of T. Local.

    Args:
        settings: settings of the run.
        width: width at the previous temperature.
        before: the previous temperature.
        after: the next temperature.
    """
    final, end = settings.FinalTargetSigma0, settings.FinalTargetTemperature
    if settings.SigmaMethod != 3:
        return width
    if after <= end or before <= end:
        return final
    slope = math.log(final / width) / math.log(end / before)
    return max(final, width * math.exp(slope * math.log(after / before)))


def _mean_width(moments: Moments, conditions: Conditions, total: int) -> float:
    """The mean of d2 of all points in clusters."""
    outside = 0.0 if conditions.sponge is None else moments.sponge_count * conditions.sponge_square
    return (2.0 * moments.energy - outside) / max(total - moments.sponge_count, 1.0)
