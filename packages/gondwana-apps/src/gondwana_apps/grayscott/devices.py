"""The device of a run: the host, or the GPUs of its ranks; and whether the fields fit there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps import gpus
from gondwana_apps.free_memory import in_gib
from gondwana_apps.grayscott.fields import layout_of
from gondwana_apps.grayscott.resources import ARRAYS, fitting
from gondwana_apps.grayscott.settings import Settings
from gondwana_apps.grayscott.sweeps import between_size
from gondwana_apps.sentences import say

RESERVE = 64 << 20
"""Bytes of a device that are left to each rank for kernels, graphs and copies."""

_LINE = 128
"""Rows of cells take whole lines of a device's memory."""


class Demand(NamedTuple):
    """The demand of a rank on its device.

    Attributes:
        uuid: identity of the device.
        name: name of the product.
        needed: bytes that the rank needs.
        free: free bytes, before the rank takes any.
    """

    uuid: str
    name: str
    needed: int
    free: int


def check(settings: Settings) -> bool:
    """Return, before any rank starts, whether a run will use GPUs: see `gpus.will_be_used`. Local."""
    return gpus.will_be_used(settings.device, '"host" or "auto"')


def choose(settings: Settings, team: gw.Team) -> gw.MemoryKind:
    """Return the memory kind of this rank's fields; one line reports the GPUs found. Collective over the world.

    Args:
        settings: settings of the run.
        team: the ranks that share the cube.

    Raises:
        UsageError: a rank has no GPU and the settings ask for one.
    """
    if settings.device == "host":
        return gw.host
    if settings.device == "auto":
        without = {rank: reason for rank, reason in enumerate(team.allgather(gpus.lacking())) if reason}
        if without:
            if team.rank == 0:
                reason = next(iter(without.values()))
                say(f'gondwana: device "auto" is the host: {gw.name_ranks(list(without))}: {reason}', "stderr")
            return gw.host
    return gw.cuda()


def check_memory(settings: Settings, team: gw.Team, kind: gw.MemoryKind) -> None:
    """Refuse a run whose fields do not fit on the devices, each shared by all ranks that use it. Collective over team.

    Args:
        settings: settings of the run.
        team: the ranks that share the cube.
        kind: memory kind of this rank's fields.

    Raises:
        UsageError: one line with the figures.
    """
    one = kind.device
    team.barrier()  # contexts take memory: all exist when the first rank measures it
    mine = None
    if one is not None:
        needed = _needed(settings, team) + RESERVE
        mine = Demand(one.uuid, one.name, needed, one.free_memory())
    demands: list[Demand | None] = team.allgather(mine)
    problem = short_of_memory(settings, demands)
    if problem:
        raise UsageError(problem)


def short_of_memory(settings: Settings, demands: Sequence[Demand | None]) -> str:
    """Return the device that is too small for the demands of its ranks, as text, "" if none is. Local.

    Args:
        settings: settings of the run.
        demands: demand of each rank; None for a rank on the host.
    """
    sharing: dict[str, list[int]] = {}
    for rank, demand in enumerate(demands):
        if demand is not None:
            sharing.setdefault(demand.uuid, []).append(rank)
    for ranks in sharing.values():
        of_ranks = [demand for rank in ranks if (demand := demands[rank]) is not None]
        needed, free = sum(demand.needed for demand in of_ranks), min(demand.free for demand in of_ranks)
        if needed > free:
            return (
                f"L: {settings.L}^3 cells in {settings.precision} need {in_gib(needed)} on the {of_ranks[0].name} of "
                f"{gw.name_ranks(ranks)} and {in_gib(free)} are free; {fitting(settings, needed, free)}, "
                "or use more GPUs"
            )
    return ""


def _needed(settings: Settings, team: gw.Team) -> int:
    """The most bytes that this rank takes of a device."""
    ghost = 2 if settings.boundary == "periodic" and settings.fuse_steps != 1 else 1
    layout = layout_of(settings, team.size, ghost)
    columns, *others = layout.held(team.rank).shape
    row = -(-columns * settings.itemsize // _LINE) * _LINE
    between = between_size(layout, team.rank, settings.itemsize) if ghost > 1 else 0
    return ARRAYS * row * math.prod(others) + between
