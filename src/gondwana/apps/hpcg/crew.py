"""The threads of a rank that solve together: what each of them knows, and what they share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.apps.hpcg.native import follow, meet, publish
from gondwana.apps.hpcg.schedule import Schedule

_LINE = 8
"""Words between what different threads write."""


class Crew(NamedTuple):
    """What one thread knows.

    Attributes:
        thread: its number.
        threads: how many there are.
        gate: where they meet; see `native.meet`.
        sums: room for a part of each thread, and for the sum.
        progress: blocks that each thread has done in a sweep down, then those of a sweep up; see `tell`.
        down, up: who sweeps over which rows.
    """

    thread: int
    threads: int
    gate: NDArray[np.int64]
    sums: NDArray[np.float64]
    progress: NDArray[np.int64]
    down: Schedule
    up: Schedule


def crews(threads: int, down: Schedule, up: Schedule) -> list[Crew]:
    """Return what each of so many threads is to know. Local."""
    gate, sums = np.zeros(2 * _LINE, np.int64), np.zeros(_LINE * (threads + 1))
    progress = np.zeros(_LINE * 2 * threads, np.int64)
    return [Crew(thread, threads, gate, sums, progress, down, up) for thread in range(threads)]


def workers(threads: int) -> ThreadPoolExecutor | None:
    """Start the threads besides the calling one; None if there are none. Local."""
    return ThreadPoolExecutor(threads - 1, "hpcg") if threads > 1 else None


@gw.jit
def share(crew: Any, first: int, last: int) -> tuple[int, int]:
    """Return the part of a range that is this thread's."""
    count = last - first
    return first + count * crew.thread // crew.threads, first + count * (crew.thread + 1) // crew.threads


@gw.jit
def restart(crew: Any, up: int) -> None:
    """Begin a sweep: nobody looks any more at what this thread did in the one before."""
    publish(crew.progress, _LINE * ((1 - up) * crew.threads + crew.thread), 0)


@gw.jit
def await_needed(crew: Any, order: Any, up: int, block: int) -> None:
    """Wait until other threads have done what a block of the sweep needs."""
    for wait in range(order.waits[block], order.waits[block + 1]):
        follow(crew.progress, _LINE * (up * crew.threads + order.whom[wait]), order.until[wait])


@gw.jit
def tell(crew: Any, up: int, done: int) -> None:
    """Let other threads know how many blocks of the sweep this one has done."""
    publish(crew.progress, _LINE * (up * crew.threads + crew.thread), done)


@gw.jit
def reduce(crew: Any, team: Any, part: float) -> tuple[float, int]:
    """Sum up over threads and ranks; return the nanoseconds among ranks, too. Collective over team."""
    crew.sums[_LINE * crew.thread] = part
    meet(crew.gate, crew.threads)
    spent = 0
    if crew.thread == 0:
        total = 0.0
        for thread in range(crew.threads):
            total += crew.sums[_LINE * thread]
        started = gw.clock()
        crew.sums[_LINE * crew.threads] = gw.allreduce(team, total, "sum")
        spent = gw.clock() - started
    meet(crew.gate, crew.threads)
    return crew.sums[_LINE * crew.threads], spent
