"""The speed of collectives, beside MPI in C and mpi4py on the same ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import Team
from gondwana.teams import mpi
from gondwana_bench.measure import Variant, in_seconds, timed
from gondwana_bench.messages.comparison import COLUMNS, PYTHON_PARITY, Pair, rows
from gondwana_bench.native.messages import Messages
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rma.candidates import Candidate
from gondwana_bench.rows import WORD, Row, check_words

SIZES = (8, 64, 512, 1024, 8192, 65536, 1048576, 8388608)
SMALL = 8192
"""The largest contribution that goes through shared memory [bytes]: up to it there are goals."""

Doubles = NDArray[np.float64]
Run = Callable[[Doubles, int], float]
"""Performs a collective on an array, in place, a number of times; returns the seconds on this rank."""


_IN_SHARED_MEMORY: dict[str, Any] = {"sizes": lambda size: size <= SMALL, "on_node": True}
BARRIERS = (Pair("compiled barrier", "C barrier"), Pair("Python barrier", "mpi4py barrier"))
TRANSFERS = (
    Pair("compiled allreduce", "C allreduce", goal=1.5, **_IN_SHARED_MEMORY),
    Pair("Python allreduce", "mpi4py allreduce", goal=PYTHON_PARITY, **_IN_SHARED_MEMORY),
    Pair("compiled bcast", "C bcast"),
    Pair("Python bcast", "mpi4py bcast"),
)


check = partial(check_words, "a collective needs at least 2 ranks", "8,8192")


def measure(team: Team, sizes: Sequence[int] = SIZES, **timing: Any) -> Iterator[Row]:
    """Measure a barrier, and broadcasts and sums of every size. Collective over team.

    Calls follow each other without anything in between; the slowest rank's time counts.

    Args:
        team: at least two MPI ranks.
        sizes: bytes that each rank contributes.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on every rank: microseconds a call of ours and of the rival, the speed relative to the rival with
        its interval (above 1: ours is faster), the goal and whether it is met, and whether both results were right.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header.
    """
    check(team.size, sizes)
    c = Messages(team)
    yield from rows(team, BARRIERS, _barriers(team, c), 0, **timing)
    for size in sizes:
        yield from rows(team, TRANSFERS, _transfers(team, c, size), size, **timing)


def _barriers(team: Team, c: Messages) -> dict[str, Candidate]:
    runs: dict[str, Variant] = {
        "compiled barrier": in_seconds(_repeat_barrier, team),
        "C barrier": c.barrier,
        "Python barrier": timed(team.barrier),
        "mpi4py barrier": timed(team.comm.Barrier),
    }
    return {name: Candidate(run, lambda: True) for name, run in runs.items()}


def _transfers(team: Team, c: Messages, size: int) -> dict[str, Candidate]:
    comm, in_place = team.comm, mpi.module().IN_PLACE
    runs: dict[str, Run] = {
        "compiled allreduce": in_seconds(_repeat_allreduce, team),
        "C allreduce": c.add,
        "Python allreduce": _called(lambda data: team.Allreduce(gw.IN_PLACE, data)),
        "mpi4py allreduce": _called(lambda data: comm.Allreduce(in_place, data)),
        "compiled bcast": in_seconds(_repeat_bcast, team),
        "C bcast": c.bcast,
        "Python bcast": _called(team.Bcast),
        "mpi4py bcast": _called(comm.Bcast),
    }
    data = np.zeros(size // WORD)  # sums of zeros stay zeros, however often they are added
    return {
        name: Candidate(partial(run, data), partial(_is_right, team, name, run, size)) for name, run in runs.items()
    }


def _called(function: Callable[[Doubles], object]) -> Run:
    """Return a variant that calls a function of an array a number of times."""
    return lambda data, calls: timed(partial(function, data))(calls)


@gw.jit
def _repeat_barrier(team: Any, calls: int) -> int:
    start = gw.clock()
    for _ in range(calls):
        gw.barrier(team)
    return gw.clock() - start


@gw.jit
def _repeat_bcast(team: Any, data: Any, calls: int) -> int:
    start = gw.clock()
    for _ in range(calls):
        gw.bcast(team, data)
    return gw.clock() - start


@gw.jit
def _repeat_allreduce(team: Any, data: Any, calls: int) -> int:
    start = gw.clock()
    for _ in range(calls):
        gw.allreduce(team, data)
    return gw.clock() - start


def _is_right(team: Team, name: str, run: Run, size: int) -> bool:
    """Run a collective once and return on every rank whether the results of all are right."""
    data = np.arange(size / WORD) + team.rank
    run(data, 1)
    first = np.arange(size / WORD)
    expected = first if name.endswith("bcast") else team.size * first + sum(range(team.size))
    return all(team.allgather(np.array_equal(data, expected)))


if __name__ == "__main__":
    sys.exit(measure_on_ranks("collectives", COLUMNS, measure, pinned=True))
