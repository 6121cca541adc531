"""The choice of one or two time steps in one sweep over memory: as the settings say, or measured."""

from __future__ import annotations

import gondwana as gw
from gondwana_apps.grayscott.fields import make_fields
from gondwana_apps.grayscott.kernels import Rates, react_and_diffuse
from gondwana_apps.grayscott.settings import Settings
from gondwana_apps.grayscott.sweeps import TwoSteps, noises_of

_WORTH = 64**3
"""Cells of a block from which on memory limits a sweep, so that fewer sweeps may pay."""

_U, _V = 0.5, 0.25


def choose(settings: Settings, rates: Rates, team: gw.Team, kind: gw.MemoryKind) -> int:
    """Return the time steps of a sweep, the same on all ranks. Collective over team; blocks.

    Args:
        settings: settings of the run.
        rates: constants of the model.
        team: the ranks that share the cube.
        kind: memory kind of this rank's blocks.
    """
    if settings.fuse_steps != "auto":
        return settings.fuse_steps
    if settings.boundary != "periodic" or not _is_worth_a_try(settings, team, kind.device):
        return 1
    return 2 if _pays(settings, rates, team, kind) else 1


def _is_worth_a_try(settings: Settings, team: gw.Team, device: gw.Device | None) -> bool:
    """Whether blocks are large enough; times of the emulated GPU mean nothing."""
    return not (device is not None and device.emulated) and _WORTH * team.size <= settings.L**3


def _pays(settings: Settings, rates: Rates, team: gw.Team, kind: gw.MemoryKind) -> bool:
    """Whether two steps in one sweep are faster on the device or the host of rank 0, while the other ranks wait.

    If all ranks share the bandwidth of a host, two steps in one sweep gain more than rank 0 measures alone.
    """
    fields = make_fields(settings, team, kind, ghost=2)
    two_steps = TwoSteps(fields)
    inner, noises, pays = two_steps.inner, noises_of(settings, 0), False

    def single() -> None:
        for noise in noises:
            react_and_diffuse(inner, *fields, rates, noise)

    def pair() -> None:
        two_steps.sweep_inner(fields, rates, noises)

    if team.rank == 0 and not inner.is_empty:
        for field, value in zip(fields, (_U, _V, _U, _V), strict=True):
            field.fill(value)
        key = ("gray-scott", settings.precision, "noise" if noises[0] else "", "x".join(map(str, inner.shape)))
        pays = gw.is_faster(pair, single, key=key, device=kind.device)
    decided: bool = team.bcast(pays)
    two_steps.close()
    for field in fields:
        field.close()
    return decided
