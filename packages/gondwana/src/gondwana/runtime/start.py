"""How a process becomes a rank of the world: once, at the first use of ``gondwana.world``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gondwana.runtime import exits, tracing, watchdog

_hooks: list[Callable[[Any], None]] = []


def at_connect(hook: Callable[[Any], None]) -> None:
    """Register `hook(world)` to be called on every rank when the world has connected; may be collective. Local."""
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
    comm = join()
    exits.connected(comm)
    if tracing.recorder is not None:
        tracing.recorder.connected(comm)
    watchdog.start(comm, limit)
    return comm


@tracing.traced("startup", "prepare the world")
def connected(world: Any) -> None:
    """Call the hooks of the upper layers. Collective over the world."""
    for hook in _hooks:
        hook(world)
