"""The clocks of ranks on different hosts: the offset to add to one so that it shows the time of another."""

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
    """The relation of a clock to that of rank 0.

    Attributes:
        offset: time to add to it [ns].
        error: largest error of the offset [ns], as long as both clocks run at the same speed.
    """

    offset: int
    error: int


SAME = Clock(0, 0)


def host() -> str:
    """Return an identity shared by exactly the processes with the same clock: that of the start of their system."""
    return text_of("/proc/sys/kernel/random/boot_id")


def estimate(ask: Callable[[], int], rounds: int = ROUNDS, now: Callable[[], int] = time.monotonic_ns) -> Clock:
    """Compare the clock of this process with another one. Local, except for what `ask` does.

    The other clock was read between question and answer. Assuming half-way is wrong by at most half of that
    time, and the shortest round is the most accurate.

    Args:
        ask: has the other process read its clock, and returns its value [ns].
        rounds: number of questions.
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

    The first rank of each host but that of rank 0 compares with rank 0, one after the other; the rest take its result.

    Args:
        comm: the communicator of all ranks.
        where: identity of the clock of this rank: see `host`.
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
