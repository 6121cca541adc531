"""The clocks of ranks on different hosts, brought together: what to add to one so that it shows the time of another."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from gondwana.runtime.files import text_of

ROUNDS = 50
"""Messages there and back: the fastest of them was delayed least."""
TAG = 30_001
"""Below those of plans of copies."""


class Clock(NamedTuple):
    """How a clock relates to that of rank 0.

    Attributes:
        offset: to be added to it [ns].
        error: the most by which that is wrong [ns], as long as both run at one speed.
    """

    offset: int
    error: int


SAME = Clock(0, 0)


def host() -> str:
    """Return what exactly the processes with one clock have in common: the start of the system that they run on."""
    return text_of("/proc/sys/kernel/random/boot_id")


def estimate(ask: Callable[[], int], rounds: int = ROUNDS, now: Callable[[], int] = time.monotonic_ns) -> Clock:
    """Compare the clock of this process with another one. Local, but for what `ask` does.

    The other clock was read somewhere between question and answer: taking the middle is wrong by at most half of that
    time, and the shortest of all rounds says most.

    Args:
        ask: has the other process read its clock, and returns that [ns].
        rounds: how often it is asked.
        now: reads the clock of this process [ns].
    """
    best = None
    for _ in range(rounds):
        sent = now()
        there = ask()
        received = now()
        found = Clock(there - (sent + received) // 2, (received - sent + 1) // 2)
        best = found if best is None or found.error < best.error else best
    assert best is not None
    return best


def align(comm: Any, where: str) -> Clock:
    """Return how the clock of this rank relates to that of rank 0. Collective over comm; blocks.

    The first rank of each host but that of rank 0 asks rank 0 in turn; the others of its host have the same clock.

    Args:
        comm: the communicator of all ranks.
        where: names the clock of this rank: see `host`.
    """
    hosts = comm.allgather(where)
    asking = [rank for rank in range(comm.size) if hosts.index(hosts[rank]) == rank and hosts[rank] != hosts[0]]
    own = SAME
    for rank in asking:
        if comm.rank == rank:
            own = estimate(lambda: int(comm.sendrecv(None, 0, TAG, None, 0, TAG)))
        elif comm.rank == 0:
            for _ in range(ROUNDS):
                comm.recv(None, rank, TAG)
                comm.send(time.monotonic_ns(), rank, TAG)
    clocks = comm.allgather(own)
    found: Clock = clocks[hosts.index(where)]
    return found
