"""The compiled loops of `gondwana bench ring`."""

from __future__ import annotations

from typing import Any

import gondwana as gw

READS, WRITES, FLOPS, COMMUNICATION = range(4)
"""Phases of a superstep, and where their nanoseconds are added."""


@gw.jit
def compute(data: Any, inbox: Any, total: Any, product: Any, reads: int, writes: int, flops: int) -> None:
    """Do the computation of a superstep, as `messages_ring` in C."""
    found = total[0] + inbox[0] + inbox[inbox.size - 1]
    for j in range(reads):
        found += data[j]
    total[0] = found
    for j in range(writes):
        data[j] = found + j
    value = product[0]
    for _ in range(0, flops, 2):
        value = value * 0.5 + 1.0
    product[0] = value


@gw.jit
def timed_compute(
    data: Any, inbox: Any, total: Any, product: Any, reads: int, writes: int, flops: int, phases: Any
) -> int:
    """Do the same with a clock after each phase; return when the last one has ended."""
    start = gw.clock()
    compute(data, inbox, total, product, reads, 0, 0)
    read = gw.clock()
    found = total[0]
    for j in range(writes):
        data[j] = found + j
    written = gw.clock()
    value = product[0]
    for _ in range(0, flops, 2):
        value = value * 0.5 + 1.0
    product[0] = value
    end = gw.clock()
    phases[READS] += read - start
    phases[WRITES] += written - read
    phases[FLOPS] += end - written
    return end


@gw.jit
def exchange(
    team: Any, data: Any, inbox: Any, total: Any, product: Any, reads: int, writes: int, flops: int,
    supersteps: int, phases: Any, clocks: bool, calls: int,
) -> int:  # fmt: skip
    """Run supersteps that end with a message to the next rank and one from the rank before."""
    right, left, words = (team.rank + 1) % team.size, (team.rank - 1) % team.size, inbox.size
    elapsed = 0
    for _ in range(calls):
        gw.barrier(team)
        start = gw.clock()
        for _ in range(supersteps):
            if clocks:
                computed = timed_compute(data, inbox, total, product, reads, writes, flops, phases)
                gw.sendrecv(team, data[:words], right, inbox, left)
                phases[COMMUNICATION] += gw.clock() - computed
            else:
                compute(data, inbox, total, product, reads, writes, flops)
                gw.sendrecv(team, data[:words], right, inbox, left)
        elapsed += gw.clock() - start
    return elapsed


@gw.jit
def put(
    team: Any, target: Any, arrived: Any, free: Any, data: Any, inboxes: Any, total: Any, product: Any, steps: Any,
    reads: int, writes: int, flops: int, supersteps: int, phases: Any, clocks: bool, calls: int,
) -> int:  # fmt: skip
    """Run supersteps that end with a put into one of the two inboxes of the next rank, and a signal.

    A rank writes into an inbox that the next rank has read: `free` tells it so, one superstep before it has to know.
    """
    left, words = (team.rank - 1) % team.size, inboxes.shape[1]
    elapsed, step = 0, steps[0]
    for _ in range(calls):
        gw.barrier(team)
        start = gw.clock()
        for _ in range(supersteps):
            computed = 0
            if clocks:
                computed = timed_compute(data, inboxes[1 - step % 2], total, product, reads, writes, flops, phases)
            else:
                compute(data, inboxes[1 - step % 2], total, product, reads, writes, flops)
            gw.signal(free, left)
            gw.wait(free)
            gw.put(data[:words], target + step % 2 * words, notify=arrived)
            gw.wait(arrived)
            step += 1
            if clocks:
                phases[COMMUNICATION] += gw.clock() - computed
        elapsed += gw.clock() - start
    steps[0] = step
    return elapsed
