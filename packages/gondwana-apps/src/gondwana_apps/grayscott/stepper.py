"""Steps of a run, as many at a time as its fields allow."""

from __future__ import annotations

import functools

import gondwana as gw
from gondwana_apps.grayscott.fields import Fields
from gondwana_apps.grayscott.kernels import Rates
from gondwana_apps.grayscott.settings import Settings
from gondwana_apps.grayscott.sweeps import TwoSteps, noises_of, one_step

SWEEPS_TOGETHER = 16
"""Sweeps that are replayed by one call; an even number, after which the arrays have their roles again."""


class Stepper:
    """Does the steps of a run. Collective over the team of the fields to make.

    On a GPU, sweeps that wait for no other rank and are the same in every step are captured once and replayed:
    launching them one by one takes longer than computing a small cube. Noise has the number of its step.

    Args:
        settings: settings of the run.
        rates: constants of the model.
        fields: fields of the run.
        fuse_steps: time steps in one sweep.
    """

    def __init__(self, settings: Settings, rates: Rates, fields: Fields, fuse_steps: int) -> None:
        self._settings = settings
        self._rates = rates
        self._fuse_steps = fuse_steps
        self._two_steps = TwoSteps(fields) if fuse_steps == 2 else None
        self._repeats = fields.u.team.size == 1 and not fields.u.kind.host and settings.noise == 0
        self._sweeps = 0
        self._captured: dict[int, gw.Captured] = {}

    def prepare(self, fields: Fields, step: int) -> None:
        """Compile all code of steps: do each kind of sweep once; the fields stay. Collective; does not wait."""
        for steps in range(1, self._fuse_steps + 1):
            self._compute(fields, step, steps)

    def advance(self, fields: Fields, step: int, most: int) -> tuple[Fields, int]:
        """Do some steps. Collective over the team of the fields; on GPUs it returns before they are done.

        Args:
            fields: fields to advance.
            step: number of steps done before.
            most: largest number of steps to do, at least one.

        Returns:
            The fields in their new roles, and the number of steps done.
        """
        together = SWEEPS_TOGETHER * self._fuse_steps
        # Before, each array has had both roles once, so that all is compiled and planned.
        if self._repeats and most >= together and self._sweeps >= 2:
            self._replay(fields)
            return fields, together
        steps = min(most, self._fuse_steps)
        self._compute(fields, step, steps)
        self._sweeps += 1
        return fields.swapped(), steps

    def _compute(self, fields: Fields, step: int, steps: int) -> None:
        """Compute the fields one or two steps later, beside the present ones."""
        noises = noises_of(self._settings, step)
        if steps == 2 and self._two_steps:
            self._two_steps(fields, self._rates, noises)
        else:
            one_step(fields, self._rates, noises[0], corners=self._two_steps is not None)

    def _replay(self, fields: Fields) -> None:
        captured = self._captured.get(id(fields.u))
        if captured is None:
            # Not a method of this object: the graph would keep it, and its memory, in a reference cycle.
            function = functools.partial(_sweeps, fields, self._rates, self._two_steps)
            captured = self._captured[id(fields.u)] = gw.capture(function)
        captured()


def _sweeps(fields: Fields, rates: Rates, two_steps: TwoSteps | None) -> None:
    for _ in range(SWEEPS_TOGETHER):
        if two_steps:
            two_steps(fields, rates, (None, None))
        else:
            one_step(fields, rates, None, corners=False)
        fields = fields.swapped()
