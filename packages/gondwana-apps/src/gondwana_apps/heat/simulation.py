"""The state of a heat run and its advance: no files, no printing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import gondwana as gw
from gondwana_apps import run_files
from gondwana_apps.heat import division, fusing, kernels
from gondwana_apps.heat.settings import Settings
from gondwana_apps.heat.steps import Record, make_loop


class Balance(NamedTuple):
    """The heat in the box before and after a step, and the heat that the step should have added."""

    before: float
    after: float
    added: float

    @property
    def error(self) -> float:
        """The difference, relative to the heat."""
        scale = abs(self.before) + abs(self.added)
        return abs(self.after - self.before - self.added) / scale if scale else abs(self.after)


class Simulation:
    """The temperature at one time, on all ranks of a team. Collective over team to make.

    Args:
        settings: settings of the run.
        team: the ranks that share the box.

    Attributes:
        step: number of the next step.
        fuse_steps: time steps in one sweep.
        arrays: arrays for the temperature before a sweep, and after it, in turns.

    Example:
        >>> run = Simulation(Settings(X=8, Y=8, Z=8, N=10), gw.world)
        >>> record = run.advance(2)
        >>> round(1e9 * record.sums[1] / run.settings.cells)     # 10^9 P dt / X
        12500000
    """

    def __init__(self, settings: Settings, team: gw.Team) -> None:
        self.settings = settings
        self.team = team
        self.step = 0
        kind = gw.cuda() if settings.device == "cuda" else gw.host
        self.fuse_steps = fusing.choose(settings, team)
        layout = division.layout(settings, team.size, self.fuse_steps)
        self.arrays = gw.zeros(layout, kind=kind, team=team), gw.zeros(layout, kind=kind, team=team)
        self._present = 0
        self._loop = make_loop(settings, self.arrays, self.fuse_steps)
        self._compile()
        self.T.local.restrict(self.T.owned).fill(settings.T0)

    @property
    def T(self) -> gw.GlobalArray:
        """The temperature before the next step."""
        return self.arrays[self._present]

    @property
    def fields(self) -> dict[str, gw.GlobalArray]:
        """The temperature before the next step, by its name in files."""
        return {"T": self.T}

    def restore(self) -> None:
        """Continue from the checkpoint named by the settings, written by any ranks. Collective over team; blocks.

        Raises:
            UsageError: no checkpoint exists, or it belongs to other settings.
        """
        found = {"T": gw.zeros_like(self.T)}
        self.step = run_files.restore(self.settings, found, self.settings.physics(), self.team).step
        self.T.local.copy_from(found["T"].local)
        self.team.barrier()  # neighbours that continue write into the ghosts

    def advance(self, steps: int) -> Record:
        """Do time steps. Collective over team; blocks.

        Args:
            steps: number of steps.

        Returns:
            Measurements of each step on this rank.
        """
        record = Record(np.zeros(steps, np.int64), np.full(steps, np.nan))
        self._present = self._loop(self.step, self._present, record)
        self.step += steps
        return record

    def last(self) -> tuple[Record, Balance]:
        """Do one step and check that it conserves heat. Collective over team; blocks.

        By summation over all cells, conduction cancels: a step adds dt (P Y Z - sigma sum n T^4).
        """
        s = self.settings
        before, radiated = self._heat(), self._radiated()
        power = s.P * s.Y * s.Z if self.step <= s.N // 2 else 0.0
        record = self.advance(1)
        return record, Balance(before, self._heat(), s.dt * (power - s.sigma * radiated))

    def _heat(self) -> float:
        return float(kernels.heat.all(self.team, self.T.owned, self.T))

    def _radiated(self) -> float:
        return float(kernels.radiated.all(self.team, self.T.owned, self.T, self.T.domain))

    def _compile(self) -> None:
        """Do a few steps of nothing, with sums in either step of a sweep, so that no later one compiles."""
        for first, steps in (0, self.fuse_steps + 1), (self.settings.sums_every - 1, 2):
            self._loop(first, 0, Record(np.zeros(steps, np.int64), np.zeros(steps)))
        self._heat(), self._radiated()
        for array in self.arrays:
            array.fill(0.0)
        gw.synchronize()
        self.team.barrier()
