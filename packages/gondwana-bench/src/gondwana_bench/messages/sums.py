"""Sums of floats over all ranks in all ways, by name; each call is timed alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import Team
from gondwana_bench.measure import Variant
from gondwana_bench.messages.round_trips import COMPILED, MPI4PY, MPI4PY_OBJECTS, PYTHON, C
from gondwana_bench.native.messages import Messages
from gondwana_bench.rma.candidates import CALLS, Candidate

Floats = NDArray[np.float32]
ITEM = 4


def sums(team: Team, c: Messages, size: int) -> dict[str, Candidate]:
    """Return sums of arrays of `size` bytes of all ranks. Local.

    The clock of a rank runs from its call to its return; a barrier that does not count follows each call. Compiled
    sums, like those of applications, are in place; the others have two arrays, as in OSU's program.
    """
    given, total = np.zeros(size // ITEM, np.float32), np.zeros(size // ITEM, np.float32)
    comm = team.comm
    runs: dict[str, Variant] = {
        C: partial(c.allreduce, given, total),
        COMPILED: partial(_in_place, team, given, total),
        MPI4PY: _alone(lambda: comm.Allreduce(given, total), comm.Barrier),
        PYTHON: _alone(lambda: team.Allreduce(given, total), team.barrier),
        MPI4PY_OBJECTS: partial(_objects, team, given, total),
    }
    return {name: Candidate(run, partial(_is_right, team, run, given, total)) for name, run in runs.items()}


@gw.jit
def _repeat(team: Any, data: Any, calls: int) -> int:
    elapsed = 0
    for _ in range(calls):
        start = gw.clock()
        gw.allreduce(team, data)
        elapsed += gw.clock() - start
        gw.barrier(team)
    return elapsed


def _in_place(team: Team, given: Floats, total: Floats, calls: int) -> float:
    total[:] = given
    return _repeat(team, total, calls) * 1e-9


def _alone(call: Callable[[], object], barrier: Callable[[], object]) -> Variant:
    def variant(calls: int) -> float:
        clock, elapsed = time.perf_counter, 0.0
        for _ in range(calls):
            start = clock()
            call()
            elapsed += clock() - start
            barrier()
        return elapsed

    return variant


def _objects(team: Team, given: Floats, total: Floats, calls: int) -> float:
    found = [given]

    def call() -> None:
        found[0] = team.comm.allreduce(given)

    seconds = _alone(call, team.comm.Barrier)(calls)
    total[:] = found[0]
    return seconds


def _is_right(team: Team, run: Variant, given: Floats, total: Floats) -> bool:
    """Return on every rank whether all ranks get the right sums: of one call, and of calls that add the sum before."""
    found = []
    for calls in (1, CALLS):
        given[:] = np.arange(given.size, dtype=np.float32) % 1000 + team.rank
        total[:] = 0
        run(calls)
        first = np.arange(given.size, dtype=np.float32) % 1000
        expected = first * team.size + sum(range(team.size))
        in_place = expected * team.size ** (calls - 1)
        found.append(np.array_equal(total, expected) or np.array_equal(total, in_place))
    given[:] = total[:] = 0  # sums of zeros stay zeros, however often they are added
    return all(team.allgather(all(found)))
