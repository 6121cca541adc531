"""Several threads of a rank that communicate at the same time, beside threads in C with MPI_THREAD_MULTIPLE."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import gondwana as gw
from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.measure import Variant
from gondwana_bench.native.resources import NativeState
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rma.calls import arriving
from gondwana_bench.rma.candidates import Between, Candidate, absent, served_by_mpi, timed_and_checked
from gondwana_bench.rma.loops import on_message, serve
from gondwana_bench.rma.ours import compiled
from gondwana_bench.rows import Row, beside

PUT, ADD, MESSAGE = range(3)
"""Work of the threads: put a word and flush, fetch and add a word and flush, send windows of messages of a word."""

MOST_THREADS = 64
"""The same limit as in `injection.c`."""

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
"""The measured pair: ours and its rival."""

_LINE = 8
"""Words between the places of two threads, so that these do not share a cache line."""


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


def measure(team: Team, threads: Sequence[int] = THREADS, **timing: Any) -> Iterator[Row]:
    """Measure rates of all operations with several numbers of threads. Collective over team.

    Args:
        team: two MPI ranks. Between nodes only puts and additions are measured, and rank 1 waits inside MPI.
        threads: numbers of threads of rank 0 that inject.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on both ranks: operations of all threads together [M/s], ours and in C, our rate over theirs with
        its interval, whether all have arrived, and on how many nodes the ranks are.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header was found.
    """
    check(team.size, threads)
    with Injection(team) as c:
        ours = Ours(team)
        for what in (PUT, ADD) if team.node_count > 1 else OPERATIONS:
            for count in threads:
                pair = {"ours": ours.candidate(what, count), "c": in_c(team, c, what, count)}
                if team.node_count > 1:
                    pair = served_by_mpi(team, pair)
                yield _row(team, what, count, pair, timing)


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

    def candidate(self, what: int, threads: int) -> Candidate:
        """Return an operation by a number of threads of rank 0."""
        team, inject = self._team, partial(gw.parallel, threads=threads)
        if what == MESSAGE:
            sends, serves = partial(inject, send, self._message), partial(serve, self._arrived)
            run = arriving(team, sends, serves, int(self._arrived[0]), threads)
            return _counting(team, run, lambda: int(self._arrived[0]), threads)
        if what == ADD:
            self._counts[:] = 0
            self._held[:] = 0
        arguments = (put, self._counts, 0) if what == PUT else (add, self._adders)
        run = compiled(inject, *arguments, self._target) if team.rank == 0 else absent
        return _counting(team, run, lambda: int(self._held.sum()), threads)


class Injection(NativeState):
    """Threads of rank 0 that communicate with rank 1 through MPI, in `injection.c`. Collective over team.

    Args:
        team: a team of at least two MPI ranks.

    Raises:
        UsageError: the team has fewer ranks, or no MPI, or there is no C compiler.
    """

    def __init__(self, team: Team) -> None:
        if team.size < 2:
            raise UsageError(f"{team.size} ranks: give at least 2")
        results = {"run": ctypes.c_double, "sum": ctypes.c_int64, "received": ctypes.c_int64}
        super().__init__("injection", team, results=results, flags=["-pthread"])

    def run(self, what: int, threads: int, calls: int) -> float:
        """Have each thread do something `calls` times; return the seconds on this rank. Collective over team."""
        return self._time("run", what, threads, ctypes.c_int64(calls))

    def count(self, what: int) -> int:
        """Return how many operations have arrived at this rank by now. Local."""
        return int(self._call("received" if what == MESSAGE else "sum"))


def in_c(team: Team, c: Injection, what: int, threads: int) -> Candidate:
    """Return the same operation in C. Local."""
    return _counting(team, partial(c.run, what, threads), lambda: c.count(what), threads)


def _counting(team: Team, run: Variant, count: Callable[[], int], threads: int) -> Candidate:
    """Return a candidate that adds one for each thread at rank 1 in each call."""
    return Between(team).counting(run, count, threads if team.rank == 1 else 0, threads)


def _row(team: Team, what: int, threads: int, pair: dict[str, Candidate], timing: Mapping[str, Any]) -> Row:
    samples, right = timed_and_checked(team, pair, **timing)
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
