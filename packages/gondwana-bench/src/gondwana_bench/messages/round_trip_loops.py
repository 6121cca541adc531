"""The compiled loops of round trips. Like those in C they begin at a barrier, and return the nanoseconds after it."""

from __future__ import annotations

from typing import Any

import gondwana as gw


@gw.jit
def messages(team: Any, sent: Any, received: Any, calls: int) -> int:
    """Send `sent` of rank 0 to `sent` of rank 1 and back to `received`."""
    rank = team.rank
    gw.barrier(team)
    start = gw.clock()
    for _ in range(calls if rank < 2 else 0):
        if rank == 0:
            gw.send(team, sent, 1)
            gw.recv(team, received, 1)
        else:
            gw.recv(team, sent, 0)
            gw.send(team, sent, 0)
    return gw.clock() - start


@gw.jit
def puts(team: Any, source: Any, target: Any, arrivals: Any, calls: int) -> int:
    """Put `source` into the memory of the other of ranks 0 and 1, which is notified, there and back."""
    rank = team.rank
    gw.barrier(team)
    start = gw.clock()
    for _ in range(calls if rank < 2 else 0):
        if rank == 1:
            gw.wait(arrivals)
        gw.put(source, target, notify=arrivals)
        if rank == 0:
            gw.wait(arrivals)
    return gw.clock() - start
