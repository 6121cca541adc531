"""The speed of collectives, beside MPI in C and mpi4py on the same ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import Team
from gondwana.errors import UsageError
from gondwana.teams import mpi
from gondwana_bench.measure import Variant, interleave, timed
from gondwana_bench.native.collectives import Collectives
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, relative
from gondwana_bench.statistics import summarize

WORD = 8
SIZES = (8, 64, 512, 1024, 8192, 65536, 1048576, 8388608)
SMALL = 8192
"""The largest contribution that goes through shared memory [bytes]: up to it there are goals."""

COLUMNS = {
    "operation": "operation",
    "size": "bytes",
    "microseconds": "us",
    "rival": "rival",
    "rival_microseconds": "us",
    "ratio": "theirs/ours (95 %)",
    "goal": "goal",
    "met": "met",
    "verified": "right",
}

Doubles = NDArray[np.float64]
Run = Callable[[Doubles, int], float]
"""Performs a collective on an array, in place, a number of times; returns the seconds on this rank."""


@dataclass(frozen=True)
class Pair:
    """One of our collectives and its rival.

    Attributes:
        operation: what both do: barrier, bcast or allreduce.
        ours: its name and what performs it.
        rival: the same.
        goal: ours must be at least this fast, relative to the rival, up to `SMALL` bytes.
    """

    operation: str
    ours: tuple[str, Run]
    rival: tuple[str, Run]
    goal: float | None = None


def check(ranks: int, sizes: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    if ranks < 2:
        raise UsageError(f"--ranks {ranks}: a collective needs at least 2 ranks")
    if not sizes or any(size < WORD or size % WORD for size in sizes):
        raise UsageError(f"--sizes {','.join(map(str, sizes))}: give multiples of {WORD} bytes, such as 8,8192")


def measure(
    team: Team, sizes: Sequence[int] = SIZES, *, repeat: int = 20, batch_seconds: float = 0.02
) -> Iterator[Row]:
    """Measure a barrier, and broadcasts and sums of every size. Collective over team.

    Calls follow each other without anything in between; the slowest rank's time counts.

    Args:
        team: at least two MPI ranks.
        sizes: bytes that each rank contributes.
        repeat: rounds; each times every variant once.
        batch_seconds: length of one sample [s].

    Returns:
        The same rows on every rank: microseconds a call of ours and of the rival, the speed relative to the rival with
        its interval (above 1: ours is faster), the goal and whether it is met, and whether both results were right.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header.
    """
    check(team.size, sizes)
    c = Collectives(team)
    yield from _rows(team, _barriers(team, c), 0, repeat, batch_seconds)
    for size in sizes:
        yield from _rows(team, _transfers(team, c), size, repeat, batch_seconds)


def _barriers(team: Team, c: Collectives) -> tuple[Pair, ...]:
    return (
        Pair("barrier", ("compiled", lambda data, calls: _barrier(team, calls)), ("C", lambda data, n: c.barrier(n))),
        Pair(
            "barrier",
            ("Python", _called(lambda data: team.barrier())),
            ("mpi4py", _called(lambda data: team.comm.Barrier())),
        ),
    )


def _transfers(team: Team, c: Collectives) -> tuple[Pair, ...]:
    comm, in_place = team.comm, mpi.module().IN_PLACE
    return (
        Pair("allreduce", ("compiled", partial(_allreduce, team)), ("C", c.allreduce), goal=1.5),
        Pair(
            "allreduce",
            ("Python", _called(lambda data: team.Allreduce(gw.IN_PLACE, data))),
            ("mpi4py", _called(lambda data: comm.Allreduce(in_place, data))),
            goal=1 / 1.1,
        ),
        Pair("bcast", ("compiled", partial(_bcast, team)), ("C", c.bcast)),
        Pair("bcast", ("Python", _called(team.Bcast)), ("mpi4py", _called(comm.Bcast))),
    )


def _called(function: Callable[[Doubles], object]) -> Run:
    """Return what calls a function of an array a number of times."""
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


def _barrier(team: Team, calls: int) -> float:
    return _repeat_barrier(team, calls) * 1e-9


def _bcast(team: Team, data: Doubles, calls: int) -> float:
    return _repeat_bcast(team, data, calls) * 1e-9


def _allreduce(team: Team, data: Doubles, calls: int) -> float:
    return _repeat_allreduce(team, data, calls) * 1e-9


def _rows(team: Team, pairs: Sequence[Pair], size: int, repeat: int, batch_seconds: float) -> Iterator[Row]:
    """Time both sides of all pairs interleaved, check them, and compare."""
    runs = {_key(pair, side): side[1] for pair in pairs for side in (pair.ours, pair.rival)}
    data = np.zeros(size // WORD)  # sums of zeros stay zeros, however often they are added
    variants: Mapping[str, Variant] = {name: partial(run, data) for name, run in runs.items()}
    samples = interleave(
        variants,
        repeat=repeat,
        batch_seconds=batch_seconds,
        team=team,
    )
    for pair in pairs:
        right = all(_is_right(team, pair.operation, side[1], size) for side in (pair.ours, pair.rival))
        yield _row(team, pair, size, samples[_key(pair, pair.ours)], samples[_key(pair, pair.rival)], right)


def _key(pair: Pair, side: tuple[str, Run]) -> str:
    return f"{side[0]} {pair.operation}"


def _is_right(team: Team, operation: str, run: Run, size: int) -> bool:
    """Run a collective once and return on every rank whether all of them have what they should."""
    data = np.arange(size / WORD) + team.rank
    run(data, 1)
    if operation == "barrier":
        return True
    first = np.arange(size / WORD)
    expected = first if operation == "bcast" else team.size * first + sum(range(team.size))
    return all(team.allgather(np.array_equal(data, expected)))


def _row(team: Team, pair: Pair, size: int, ours: Sequence[float], theirs: Sequence[float], verified: bool) -> Row:
    mine, rival, speed = summarize(ours), summarize(theirs), relative(theirs, ours)
    goal = pair.goal if size <= SMALL and team.on_node is not None else None
    return {
        "operation": _key(pair, pair.ours),
        "rival": _key(pair, pair.rival),
        "size": size,
        "ranks": team.size,
        "microseconds": mine.median * 1e6,
        "rival_microseconds": rival.median * 1e6,
        **speed,
        "goal": None if goal is None else f">= {goal:.2g} x",
        "met": None if goal is None else speed["ratio"] >= goal,
        "verified": verified,
        "seconds": asdict(mine),
        "rival_seconds": asdict(rival),
    }


if __name__ == "__main__":
    sys.exit(measure_on_ranks("collectives", COLUMNS, measure, pinned=True))
