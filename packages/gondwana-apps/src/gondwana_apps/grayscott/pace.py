"""The number of steps that are started at once, and their time."""

from __future__ import annotations

import math
import time

from gondwana_apps.grayscott.simulation import Simulation

_SECONDS_BETWEEN_LOOKS = 0.1
"""Interval at which the ranks agree whether to stop, and the host waits for the device's earlier work."""


class Pace:
    """Starts the steps of a run in portions and measures their time. Collective over the team.

    The first sweep, which may compile, is measured separately. GPUs get a portion while they work on the previous one:
    the host waits for them only before something else is done with the fields.

    Args:
        simulation: simulation whose steps are done.

    Attributes:
        steps: steps done.
        first: seconds of the first sweep and of its preparation.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._sweeps = 0
        self._first_steps = 0
        self._others = 0.0
        self._since: float | None = None
        self._look_every = simulation.fuse_steps
        self.steps = 0
        self.first = 0.0

    def advance(self, most: int) -> None:
        """Do some steps, up to the next agreement. Collective over the team; may return before GPUs are done."""
        simulation = self._simulation
        if self._since is None:
            self._since = time.perf_counter()
        if self.steps == 0 and simulation.device is not None:
            simulation.prepare()
        count = min(most, self._look_every - self.steps % self._look_every)
        simulation.advance(count)
        self.steps += count
        self._sweeps += 1
        if self._sweeps == 1:
            self.pause()
            self.first, self._others, self._first_steps = self._others, 0.0, self.steps
        elif self._sweeps == 2:
            self.pause()
            self._look_every = self._chosen()

    def is_time_to_look(self) -> bool:
        """Return whether the ranks must agree about continuing: the same on all. Local."""
        looks = self.steps % self._look_every == 0
        if looks:
            self._simulation.keep_up()
        return looks

    def pause(self) -> None:
        """Wait for the steps and stop the clock until the next ones. Local."""
        if self._since is not None:
            self._simulation.finish()
            self._others += time.perf_counter() - self._since
            self._since = None

    @property
    def seconds(self) -> float:
        """Time of all steps so far."""
        running = time.perf_counter() - self._since if self._since is not None else 0.0
        return self.first + self._others + running

    def seconds_per_step(self) -> float:
        """Mean over the steps after the first sweep; of the first without any other."""
        others = self.steps - self._first_steps
        return (self.seconds - self.first) / others if others else self.first / max(self.steps, 1)

    def _chosen(self) -> int:
        """Steps between two agreements, the same on all ranks; a whole number of sweeps."""
        fused = self._simulation.fuse_steps
        sweeps = math.floor(_SECONDS_BETWEEN_LOOKS / max(fused * self.seconds_per_step(), 1e-9))
        steps: int = self._simulation.team.bcast(fused * max(1, sweeps))
        return steps
