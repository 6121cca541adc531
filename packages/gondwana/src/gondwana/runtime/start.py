"""How a process becomes a rank of the world: once, at the first use of ``gondwana.world``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gondwana.runtime import collector, exits, later, ordering, tracing
from gondwana.runtime.watching import live, watchdog

OF_MESSAGES = ("gondwana.transfer.messages.direct:attach",)
"""Functions of the upper rooms that every rank of a new team calls with it if it is for messages only. Local."""

OF_TEAMS = ("gondwana.transfer.collectives.on_node:share", *OF_MESSAGES)
"""Functions of the upper rooms that every rank of a new team calls with it, in this order; they may be collective."""

OF_THE_WORLD = (
    "gondwana.sync.delivery:connect",
    *OF_TEAMS,
    "gondwana.calls.endpoints:connect",
    "gondwana.transfer.slots:connect",
    "gondwana.teams.mpi:unlink_segments",
)
"""The same for the world, once it has connected. Named here, since the order in which ranks load modules may differ."""

OF_SETTINGS = {
    "GONDWANA_COPY_PATH": "gondwana.transfer.paths:force_from_environment",
    "GONDWANA_DEBUG_COPY": "gondwana.transfer.engine:delay_from_environment",
    "GONDWANA_MPI_CUDA": "gondwana.teams.device_memory:check_environment",
}
"""Functions that each rank calls with the world before these if a variable of the environment is set. Local."""

_hooks: list[Callable[[Any], None]] = []


def at_connect(hook: Callable[[Any], None]) -> None:
    """Register `hook(world)`, a local function, to be called when the world has connected. Local."""
    _hooks.append(hook)


@tracing.traced("startup", "connect")
def connect(join: Callable[[], exits.Communicator]) -> exits.Communicator:
    """Handle errors, join the other ranks and start the watchdog. Collective over all ranks.

    Args:
        join: returns the communicator of all ranks, starting MPI if it is wanted.

    Raises:
        LaunchError: several processes were started, but they cannot find each other.
        UsageError: a GONDWANA_ variable has an illegal value.
    """
    exits.install()
    limit = watchdog.time_limit()
    if ordering.problem is not None:
        raise ordering.problem
    comm = join()
    exits.connected(comm)
    if tracing.recorder is not None:
        tracing.recorder.connected(comm)
    watchdog.start(comm, limit, os.environ.pop(live.VARIABLE, ""))  # of this job, not of those that it starts
    return comm


@tracing.traced("startup", "prepare the world")
def connected(world: Any) -> None:
    """Have the upper rooms prepare the world. Collective over the world."""
    places = [place for variable, place in OF_SETTINGS.items() if variable in os.environ]
    with collector.paused():
        actions = [later.find(place) for place in (*places, *OF_THE_WORLD)]
    for action in actions:
        action(world)
    for hook in _hooks:
        hook(world)


def divided(team: Any, places: tuple[str, ...] = OF_TEAMS) -> None:
    """Have the upper rooms prepare a new team. Collective over team.

    Args:
        team: the team.
        places: functions that prepare it.
    """
    for place in places:
        later.find(place)(team)
