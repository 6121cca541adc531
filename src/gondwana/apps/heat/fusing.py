"""Whether two time steps are done in one sweep over memory: as the settings say, or measured."""

from __future__ import annotations

import gondwana as gw
from gondwana.apps.heat import division
from gondwana.apps.heat.kernels import rates_of
from gondwana.apps.heat.settings import Settings
from gondwana.apps.heat.sweeps import one_step, two_steps

_WORTH = 64**3
"""Cells of a block from which on memory is what a sweep waits for, so that it may pay to go there less often."""

_SOME = 0.5
"""A temperature."""


def choose(settings: Settings, team: gw.Team) -> int:
    """Return the time steps of a sweep, the same on all ranks. Collective over team; blocks.

    Args:
        settings: of the run.
        team: the ranks that share the box.

    Raises:
        UsageError: two are wanted and blocks are too thin.
    """
    if settings.fuse_steps != "auto":
        return settings.fuse_steps
    divided = division.layout(settings, team.size)
    if settings.device != "host" or _WORTH * team.size > settings.cells or division.thinnest(divided) < 2:
        return 1
    return 2 if _pays(settings, team) else 1


def _pays(settings: Settings, team: gw.Team) -> bool:
    """Whether two steps in one sweep are faster on rank 0, while the other ranks wait.

    Where all ranks share the bandwidth of a host, two steps in one sweep gain more than rank 0 measures alone.
    """
    layout = division.layout(settings, team.size, 2)
    T, T_next = gw.zeros(layout, team=team), gw.zeros(layout, team=team)
    boxes, k, each = (T.owned,), rates_of(settings), settings.sums_every == 1

    def single() -> None:
        for _ in range(2):
            one_step(boxes, T_next, T, (k,), (each,))

    def pair() -> None:
        two_steps(boxes, T_next, T, (k, k), (each, each))

    pays = False
    if team.rank == 0:
        T.fill(_SOME)
        key = ("heat", "sums" if each else "", "x".join(map(str, T.owned.shape)))
        pays = gw.is_faster(pair, single, key=key, device=None)
    decided: bool = team.bcast(pays)
    for array in T, T_next:
        array.close()
    return decided
