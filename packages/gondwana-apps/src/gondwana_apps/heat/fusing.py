"""The choice of one or two time steps in one sweep over memory: as the settings say, or measured."""

from __future__ import annotations

import statistics

import numpy as np

import gondwana as gw
from gondwana_apps.heat import division
from gondwana_apps.heat.settings import Settings
from gondwana_apps.heat.steps import Record, make_loop

_WORTH = 64**3
"""Cells of a block from which on memory limits a sweep, so that fewer sweeps may pay."""
_LONG = 100
"""Steps of a run from which on the trial is a small part of it."""

_ROUNDS, _STEPS = 5, 4
_SOME = 0.5
"""A temperature."""


def choose(settings: Settings, team: gw.Team) -> int:
    """Return the time steps of a sweep, the same on all ranks. Collective over team; blocks.

    Args:
        settings: settings of the run.
        team: the ranks that share the box.
    """
    if settings.fuse_steps != "auto":
        return settings.fuse_steps
    thinnest = division.thinnest(division.layout(settings, team.size))
    large = settings.cells >= _WORTH * team.size and settings.N >= _LONG
    if settings.device != "host" or not large or thinnest < 2:
        return 1
    one, two = measure(settings, team, 1), measure(settings, team, 2)
    return 2 if team.bcast(two < one) else 1


def measure(settings: Settings, team: gw.Team, fuse_steps: int) -> float:
    """Return the time of a few steps, `fuse_steps` in a sweep, with exchanges [s]. Collective over team; blocks.

    Args:
        settings: settings of the run.
        team: the ranks that share the box.
        fuse_steps: time steps in one sweep.
    """
    layout = division.layout(settings, team.size, fuse_steps)
    arrays = gw.zeros(layout, team=team), gw.zeros(layout, team=team)
    for array in arrays:
        array.fill(_SOME)
    loop, seconds = make_loop(settings, arrays, fuse_steps), []
    for _ in range(1 + _ROUNDS):
        team.barrier()
        start = gw.clock()
        loop(1, 0, Record(np.zeros(_STEPS, np.int64), np.zeros(_STEPS)))  # sums as in most steps
        seconds.append((gw.clock() - start) * 1e-9)
    team.barrier()
    for array in arrays:
        array.close()
    return statistics.median(seconds[1:])
