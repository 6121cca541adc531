"""The advance in time: one step in a sweep over memory, or two.

The cells that need no ghosts of other ranks are computed while these are exchanged, and then the rest. Two steps in one
sweep need two ghost layers, corners too, but these only once: near its faces a rank also computes the
first of the two steps on cells of its neighbours, to the same bits as they do.
"""

from __future__ import annotations

import functools
from typing import Any

import gondwana as gw
from gondwana_apps.grayscott.fields import Fields
from gondwana_apps.grayscott.kernels import Noise, Rates, react_and_diffuse
from gondwana_apps.grayscott.settings import Settings

_THINNEST = 2
"""The fewest points of a box along x and y for two steps in one sweep."""

_ALIGNMENT = 256

SWEEPS_TOGETHER = 16
"""Sweeps that are replayed by one call; an even number, after which the arrays have their roles again."""

Noises = tuple[Noise | None, Noise | None]
"""The noises of two steps."""


def noises_of(settings: Settings, step: int) -> Noises:
    """Return the noise of the next two steps; None without noise. Local.

    Args:
        settings: settings of the run.
        step: number of steps done before.
    """
    if settings.noise == 0:
        return None, None
    return Noise(settings.noise, settings.seed, step + 1), Noise(settings.noise, settings.seed, step + 2)


def one_step(fields: Fields, rates: Rates, noise: Noise | None, *, corners: bool) -> None:
    """Compute the next time step. Collective over the team of the fields.

    Args:
        fields: fields at the present and the next time.
        rates: constants of the model.
        noise: noise of the step.
        corners: whether all ghosts are filled, or just those that one step needs.
    """
    ghosts = gw.exchange(fields.u, fields.v, corners=corners)
    react_and_diffuse(fields.u.inner, *fields, rates, noise)
    ghosts.wait()
    react_and_diffuse(fields.u.rim, *fields, rates, noise)


class TwoSteps:
    """Computes two time steps in one sweep, to the bits of two sweeps. Collective over the team of the fields to make.

    If the ghosts come through the memory of one host, the processor itself moves them: then all cells are one sweep,
    after the exchange. Else the rim, whose boxes are too thin for that, takes two sweeps over its own arrays.

    Args:
        fields: periodic fields with two ghost layers.
    """

    def __init__(self, fields: Fields) -> None:
        u = fields.u
        self._side = u.domain.shape[0]
        self._overlaps = not u.kind.host or u.team.node_count > 1
        self.inner, self._rim = parts(u.layout, u.team.rank) if self._overlaps else (u.owned, ())
        self._between = gw.Intermediate(u.dtype), gw.Intermediate(u.dtype)
        nbytes = between_size(u.layout, u.team.rank, u.dtype.itemsize) if self._overlaps else 0
        self._memory = gw.Segment(u.team, nbytes, u.kind)
        self._between_of_rim = [self._arrays(box.accrete(1), u) for box in self._rim]

    def _arrays(self, box: gw.RectDomain, u: gw.GlobalArray) -> tuple[Any, Any]:
        """Arrays on a box for both species. All boxes share the memory: each is done before the next one is begun."""
        first = self._memory.pointer(u.team.rank, u.dtype)
        second = self._memory.pointer(u.team.rank, u.dtype, _up(box.size * u.dtype.itemsize))
        return gw.array_at(first, box, order=u.order), gw.array_at(second, box, order=u.order)

    def __call__(self, fields: Fields, rates: Rates, noises: Noises) -> None:
        """Compute the fields two steps later. Collective over their team.

        Args:
            fields: fields at the present time, and two steps later.
            rates: constants of the model.
            noises: noises of both steps.
        """
        ghosts = gw.exchange(fields.u, fields.v, corners=True)
        if not self._overlaps:
            ghosts.wait()
        self.sweep_inner(fields, rates, noises)
        if self._overlaps:
            ghosts.wait()
        for box, between in zip(self._rim, self._between_of_rim, strict=True):
            react_and_diffuse(box.accrete(1), *between, fields.u, fields.v, rates, self._around(noises[0]))
            react_and_diffuse(box, fields.u_next, fields.v_next, *between, rates, noises[1])

    def sweep_inner(self, fields: Fields, rates: Rates, noises: Noises) -> None:
        """Compute the cells that need no ghosts of other ranks, or all. Local; arguments as for the call."""
        first = react_and_diffuse, *self._between, fields.u, fields.v, rates, self._around(noises[0])
        second = react_and_diffuse, fields.u_next, fields.v_next, *self._between, rates, noises[1]
        gw.fused(self.inner, first, second)

    def _around(self, noise: Noise | None) -> Noise | None:
        """The noise of a step that is computed in ghosts too, even of this rank itself."""
        return None if noise is None else noise._replace(side=self._side)

    def close(self) -> None:
        """Release the memory of the rim. Local."""
        self._memory.close()


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


def parts(layout: gw.Layout, rank: int) -> tuple[gw.RectDomain, tuple[gw.RectDomain, ...]]:
    """Return the cells of a rank for which two steps need no ghosts of other ranks, and the boxes of the others. Local.

    Args:
        layout: layout of fields with two ghost layers.
        rank: rank that owns the cells.
    """
    inner, owned = layout.inner(rank), layout.owned(rank)
    if not inner.is_empty and min(inner.shape[:2]) >= _THINNEST:
        return inner, tuple(layout.rim(rank).rects)
    nothing = gw.RectDomain(owned.lo, owned.lo)
    return nothing, () if owned.is_empty else (owned,)


def between_size(layout: gw.Layout, rank: int, itemsize: int) -> int:
    """Return the bytes between two steps at the rim of a rank. Local; arguments as for `parts`."""
    rim = parts(layout, rank)[1]
    return max((2 * _up(box.accrete(1).size * itemsize) for box in rim), default=0)


def _up(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
