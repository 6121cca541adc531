"""Several threads of a rank that communicate at the same time, beside threads in C with MPI_THREAD_MULTIPLE."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import gondwana as gw
from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.measure import Variant
from gondwana_bench.native.injection import ADD, MESSAGE, MOST_THREADS, PUT, Injection
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rma.candidates import Candidate, absent, counting, served_by_mpi, timed_and_checked
from gondwana_bench.rma.loops import on_message, serve
from gondwana_bench.rows import Row, beside

THREADS = (1, 2, 4)
COLUMNS = {
    "operation": "operation", "threads": "threads", "ours_per_s": "M/s", "rival": "rival", "rival_per_s": "M/s",
    "ratio": "ours/theirs (95 %)", "verified": "right",
}  # fmt: skip

OPERATIONS = {
    PUT: ("put of a word", "MPI_Put + flush"),
    ADD: ("fetch_add", "MPI_Fetch_and_op + flush"),
    MESSAGE: ("active message", "MPI_Isend, MPI_Irecv"),
}
"""What is measured: ours and its rival."""

_LINE = 8
"""Words between those of two threads, so that these do not share a cache line."""


@gw.jit
def put(threads: Any, counts: Any, mask: int, target: Any, calls: int) -> None:
    """Put the number of puts so far. `mask` is 0, which the compiler does not know: it cannot leave out all but one."""
    place = threads.index * _LINE
    for step in range(calls):
        counts[place] += 1
        gw.put(counts[place], target + (place + (step & mask)))


@gw.jit
def add(threads: Any, adders: Any, target: Any, calls: int) -> None:
    """Add 1 to a word of this thread."""
    for _ in range(calls):
        adders.fetch_add(target + threads.index * _LINE, 1)


@gw.jit
def send(threads: Any, message: Any, calls: int) -> None:
    """Send active messages to rank 1."""
    for _ in range(calls):
        message.send(1)


def check(ranks: int, counts: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    if ranks != 2:
        raise UsageError(f"--ranks {ranks}: threads of rank 0 communicate with rank 1; give 2")
    if not counts or not all(1 <= count <= MOST_THREADS for count in counts):
        raise UsageError(f"--threads {','.join(map(str, counts))}: give numbers from 1 to {MOST_THREADS}, such as 1,2")


def measure(
    team: Team, threads: Sequence[int] = THREADS, *, repeat: int = 20, batch_seconds: float = 0.02
) -> Iterator[Row]:
    """Measure rates of all operations with several numbers of threads. Collective over team.

    Args:
        team: two MPI ranks. Between nodes only puts and additions are measured, and rank 1 waits inside MPI.
        threads: numbers of threads of rank 0 that inject.
        repeat: rounds; each times every variant once.
        batch_seconds: length of one sample [s].

    Returns:
        The same rows on both ranks: operations of all threads together [M/s], ours and in C, our rate over theirs with
        its interval, whether all have arrived, and on how many nodes the ranks are.

    Raises:
        UsageError: there are not two ranks, or there is no C compiler or MPI header.
    """
    check(team.size, threads)
    with Injection(team) as c:
        ours = Ours(team)
        for what in (PUT, ADD) if team.node_count > 1 else OPERATIONS:
            for count in threads:
                pair = {"ours": ours.candidate(what, count), "c": in_c(team, c, what, count)}
                if team.node_count > 1:
                    pair = served_by_mpi(team, pair)
                yield _row(team, what, count, pair, repeat, batch_seconds)


class Ours:
    """Memory, atomics and a message of two ranks. Collective over team to create, else local.

    Args:
        team: two MPI ranks.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        segment = gw.Segment(team, 8 * _LINE * MOST_THREADS)
        self._held = segment.view(team.rank).view(np.int64)
        self._target = segment.pointer(1, "i8")
        self._counts = np.zeros(_LINE * MOST_THREADS, np.int64)
        self._adders = gw.AtomicDomain("i8", {"fetch_add"}, team)
        self._arrived = np.zeros(1, np.int64)
        self._message = gw.ActiveMessage(on_message, context=(self._arrived,), team=team)
        self._due = 0

    def candidate(self, what: int, threads: int) -> Candidate:
        """Return an operation by a number of threads of rank 0."""
        count: Callable[[], int]
        if what == MESSAGE:
            run, count = self._messages(threads), lambda: int(self._arrived[0])
        else:
            arguments = (put, self._counts, 0) if what == PUT else (add, self._adders)
            run, count = self._injecting(threads, *arguments, self._target), lambda: int(self._held.sum())
            if what == ADD:
                self._counts[:] = 0
                self._held[:] = 0
        return _counting(self._team, run, count, threads)

    def _injecting(self, threads: int, loop: Any, *arguments: Any) -> Variant:
        def variant(calls: int) -> float:
            start = time.perf_counter()
            gw.parallel(loop, *arguments, calls, threads=threads)
            return time.perf_counter() - start

        return variant if self._team.rank == 0 else absent

    def _messages(self, threads: int) -> Variant:
        inject = self._injecting(threads, send, self._message)

        def variant(calls: int) -> float:
            self._due += threads * calls
            start = time.perf_counter()
            if self._team.rank == 0:
                inject(calls)
            else:
                serve(self._arrived, self._due)
            return time.perf_counter() - start

        return variant


def in_c(team: Team, c: Injection, what: int, threads: int) -> Candidate:
    """Return the same operation in C. Local."""
    return _counting(team, partial(c.run, what, threads), lambda: c.count(what), threads)


def _counting(team: Team, run: Variant, count: Callable[[], int], threads: int) -> Candidate:
    """Return a candidate that adds one for each thread at rank 1 in each call."""
    return counting(team, run, count, threads if team.rank == 1 else 0, threads)


def _row(team: Team, what: int, threads: int, pair: dict[str, Candidate], repeat: int, batch_seconds: float) -> Row:
    samples, right = timed_and_checked(team, pair, repeat=repeat, batch_seconds=batch_seconds)
    compared = beside(samples["c"], samples["ours"])
    return {
        "operation": OPERATIONS[what][0],
        "threads": threads,
        "ranks": team.size,
        "nodes": team.node_count,
        "ours_per_s": 1e-6 / compared["seconds"]["median"],
        "rival": f"C {OPERATIONS[what][1]}",
        "rival_per_s": 1e-6 / compared["rival_seconds"]["median"],
        **compared,
        "verified": all(right.values()),
    }


if __name__ == "__main__":
    sys.exit(measure_on_ranks("injection", COLUMNS, measure))
