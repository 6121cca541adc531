"""How a process becomes a rank of the world: once, at the first use of ``gondwana.world``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gondwana.world import exits, mpi, watchdog

if TYPE_CHECKING:
    from gondwana.world.team import Team

_hooks: list[Callable[[Team], None]] = []


def at_connect(hook: Callable[[Team], None]) -> None:
    """Have `hook(world)` called on every rank when the world has connected; it may be collective. Local."""
    _hooks.append(hook)


def connect() -> mpi.Communicator:
    """Start MPI if it is wanted, errors handling and the watchdog; return the communicator. Collective over all ranks.

    Raises:
        LaunchError: several processes were started, but they cannot find each other.
        UsageError: a GONDWANA_ variable has an illegal value.
    """
    exits.install()
    limit = watchdog.time_limit()
    comm = mpi.connect()
    exits.connected(comm)
    watchdog.start(comm, limit)
    return comm


def connected(world: Team) -> None:
    """Let the upper layers open what they need on every rank. Collective over the world."""
    for hook in _hooks:
        hook(world)
