"""The threads of a rank that solve together: what each of them knows, and what they share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.apps.hpcg.native import meet, nanoseconds
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
        down, up: who sweeps over which rows.
    """

    thread: int
    threads: int
    gate: NDArray[np.int64]
    sums: NDArray[np.float64]
    down: Schedule
    up: Schedule


def crews(threads: int, down: Schedule, up: Schedule) -> list[Crew]:
    """Return what each of so many threads is to know. Local."""
    gate, sums = np.zeros(2 * _LINE, np.int64), np.zeros(_LINE * (threads + 1))
    return [Crew(thread, threads, gate, sums, down, up) for thread in range(threads)]


def workers(threads: int) -> ThreadPoolExecutor | None:
    """Start the threads besides the calling one; None if there are none. Local."""
    return ThreadPoolExecutor(threads - 1, "hpcg") if threads > 1 else None


@gw.jit
def share(crew: Any, first: int, last: int) -> tuple[int, int]:
    """Return the part of a range that is this thread's."""
    count = last - first
    return first + count * crew.thread // crew.threads, first + count * (crew.thread + 1) // crew.threads


@gw.jit
def reduce(crew: Any, team: Any, part: float) -> tuple[float, int]:
    """Sum up over threads and ranks; return the nanoseconds among ranks, too. Collective over team."""
    crew.sums[8 * crew.thread] = part
    meet(crew.gate, crew.threads)
    spent = 0
    if crew.thread == 0:
        total = 0.0
        for thread in range(crew.threads):
            total += crew.sums[8 * thread]
        started = nanoseconds()
        crew.sums[8 * crew.threads] = gw.allreduce(team, total, "sum")
        spent = nanoseconds() - started
    meet(crew.gate, crew.threads)
    return crew.sums[8 * crew.threads], spent
