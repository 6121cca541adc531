"""The BSP ring of the Julia study: supersteps of reads, writes and floating-point operations, and a message each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.messages import ring_loops as loops
from gondwana_bench.messages.comparison import PYTHON_PARITY, Pair, rows
from gondwana_bench.messages.round_trips import COMPILED, MPI4PY, MPI4PY_OBJECTS, PYTHON, PYTHON_ONE_SIDED, C
from gondwana_bench.native.messages import Messages, Words
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rma.candidates import Candidate
from gondwana_bench.rows import Row, check_numbers, columns

COMMUNICATIONS = (10, 100)
ITEM = 8
ONE_SIDED = "compiled put + signal"
PHASES = ("reads", "writes", "flops", "communication")

PAIRS = (
    Pair(ONE_SIDED, C, 1.5, on_node=True),
    Pair(COMPILED, C),
    Pair(PYTHON, MPI4PY, PYTHON_PARITY),
    Pair(PYTHON_ONE_SIDED, MPI4PY),
    Pair(MPI4PY, C),
    Pair(MPI4PY_OBJECTS, C),
)

COLUMNS = columns(
    "ranks communications operation microseconds communication rival rival_microseconds rival_communication "
    "ratio goal met verified",
    communications="supersteps", microseconds="us a run", rival_microseconds="us a run",
    rival_communication="communication",
)  # fmt: skip

_CHECKED = 7
"""Supersteps of the run that is compared with the oracle: odd, so that both inboxes are read first once."""
_CLOCKED = 20
"""Runs whose phases are timed."""


@dataclass(frozen=True)
class Work:
    """The work of a superstep.

    Attributes:
        size: bytes of a message, a multiple of 8.
        reads: 64-bit integers that are loaded.
        writes: 64-bit integers that are stored.
        flops: floating-point operations, each of which needs the result of the previous one.
    """

    size: int = 1024
    reads: int = 1000
    writes: int = 1000
    flops: int = 100


def check(ranks: Sequence[int], communications: Sequence[int], work: Work) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    if not ranks or min(ranks) < 2:
        raise UsageError(f"--ranks {','.join(map(str, ranks))}: a ring has at least 2 ranks")
    check_numbers("--communications", communications, "numbers of supersteps, such as 10,100")
    if work.size < ITEM or work.size % ITEM:
        raise UsageError(f"--size {work.size}: give a multiple of {ITEM} bytes, such as 1024")


def measure(
    team: Team,
    communications: Sequence[int] = COMMUNICATIONS,
    *,
    size: int = Work.size,
    reads: int = Work.reads,
    writes: int = Work.writes,
    flops: int = Work.flops,
    repeat: int = 100,
    batch_seconds: float = 0.002,
) -> Iterator[Row]:
    """Measure runs of supersteps on a ring of ranks, each after a barrier that does not count. Collective over team.

    Args:
        team: at least two MPI ranks.
        communications: supersteps of a run.
        size: bytes of a message.
        reads: reads of a superstep, as `Work` describes them.
        writes: writes of a superstep.
        flops: floating-point operations of a superstep.
        repeat: rounds; each times every variant once. A tenth as many before them do not count.
        batch_seconds: length of one sample [s].

    Returns:
        The same rows on every rank: microseconds of a run on the slowest rank, the share of each phase of it, the
        microseconds of communication (the mean over the ranks, in runs with more clocks), the speed relative to the
        rival with its interval (above 1: ours is faster), the goal and whether it is met, and whether all sums, numbers
        and messages were right.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header.
    """
    work = Work(size, reads, writes, flops)
    check([team.size], communications, work)
    ring = Ring(team, work)
    for supersteps in communications:
        spent = {name: _phases(team, partial(run, supersteps)) for name, run in ring.runs.items()}
        found = {
            name: Candidate(partial(_without_clocks, run, supersteps), partial(ring.is_right, run))
            for name, run in ring.runs.items()
        }
        for row in rows(team, PAIRS, found, size, repeat=repeat, discard=repeat // 10, batch_seconds=batch_seconds):
            mine, theirs = (spent[row[side]] for side in ("operation", "rival"))
            share, their_share = (phases / phases.sum() for phases in (mine, theirs))
            yield {
                **row,
                "communications": supersteps,
                **{name: getattr(work, name) for name in ("reads", "writes", "flops")},
                **{f"{phase}_share": part for phase, part in zip(PHASES, share, strict=True)},
                **{f"rival_{phase}_share": part for phase, part in zip(PHASES, their_share, strict=True)},
                "communication_us": float(mine[-1]) * 1e6,
                "rival_communication_us": float(theirs[-1]) * 1e6,
                "communication": f"{share[-1]:.0%}",
                "rival_communication": f"{their_share[-1]:.0%}",
            }


Phases = NDArray[np.float64]
Run = Callable[[int, Phases | None, int], float]
"""Performs runs of so many supersteps, a number of times; the seconds of each phase are added to an array, if any."""


def _without_clocks(run: Run, supersteps: int, calls: int) -> float:
    return run(supersteps, None, calls)


def _phases(team: Team, run: Callable[[Phases | None, int], float]) -> Phases:
    """Return the seconds of each phase of a run, the median over the runs and the mean over all ranks."""
    run(np.zeros(len(PHASES)), 1)
    phases = np.zeros((_CLOCKED, len(PHASES)))
    for of_run in phases:
        run(of_run, 1)
    mean: Phases = np.mean(team.allgather(np.median(phases, axis=0).tolist()), axis=0)
    return mean


class Ring:
    """A rank of the ring: its data and the ways in which it can communicate. Collective over team to create.

    In a superstep each rank adds the words read, and the first and last word of the previous message, to its sum; then
    writes the sum, counted on, over its data; computes; and sends the first words of the data to the next rank.

    Args:
        team: the ranks.
        work: work of a superstep.

    Attributes:
        runs: supersteps, by the name of the way.
    """

    def __init__(self, team: Team, work: Work) -> None:
        self._team, self._work, self._words = team, work, work.size // ITEM
        self._data = np.zeros(max(self._words, work.reads, work.writes), np.int64)
        self._total, self._product, self._steps = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
        self._inbox = np.zeros(self._words, np.int64)
        self._segment = gw.Segment(team, 2 * work.size)
        self._inboxes = self._segment.view(team.rank).view(np.int64).reshape(2, self._words)
        self._inboxes[:] = 0
        self._right, self._left = (team.rank + 1) % team.size, (team.rank - 1) % team.size
        self._arrived, self._free = gw.Signal(team), gw.Signal(team)
        self._free.add(self._left)
        comm = team.comm
        self._c = Messages(team)
        self.runs: dict[str, Run] = {
            C: self._native,
            COMPILED: partial(self._compiled, loops.exchange, (team,), (self._inbox,)),
            ONE_SIDED: self._put,
            MPI4PY: partial(self._python, self._messages(comm.Sendrecv), comm.Barrier),
            PYTHON: partial(self._python, self._messages(team.Sendrecv), team.barrier),
            PYTHON_ONE_SIDED: partial(self._python, self._copy, team.barrier),
            MPI4PY_OBJECTS: partial(self._python, self._objects, comm.Barrier),
        }
        team.barrier()

    def is_right(self, run: Run) -> bool:
        """Return on every rank whether a run leaves the same data as a serial computation. Collective over team."""
        rank = self._team.rank
        self._data[:], self._total[:], self._product[:] = np.arange(self._data.size) * (rank + 1), rank, 0.0
        self._inbox[:] = self._inboxes[:] = 0
        self._team.barrier()
        run(_CHECKED, None, 1)
        data, total, product, inbox = self._expected()
        found = self._inboxes[1 - self._steps[0] % 2] if self._inboxes.any() else self._inbox
        right = (
            np.array_equal(self._data, data)
            and (self._total[0], self._product[0]) == (total, product)
            and np.array_equal(found, inbox)
        )
        return all(self._team.allgather(bool(right)))

    def _expected(self) -> tuple[Words, int, float, Words]:
        """Compute the run of `is_right` for all ranks; return the final data of this one."""
        size, work = self._team.size, self._work
        data = np.arange(self._data.size) * np.arange(1, size + 1)[:, None]
        total, inbox, product = np.arange(size), np.zeros((size, self._words), np.int64), 0.0
        for _ in range(_CHECKED):
            total = total + inbox[:, 0] + inbox[:, -1] + data[:, : work.reads].sum(axis=1)
            data[:, : work.writes] = total[:, None] + np.arange(work.writes)
            for _ in range(0, work.flops, 2):
                product = product * 0.5 + 1.0
            inbox = np.roll(data[:, : self._words], 1, axis=0)
        rank = self._team.rank
        return data[rank], int(total[rank]), product, inbox[rank]

    # -- the ways --------------------------------------------------------------------------------------------------

    def _native(self, supersteps: int, phases: Phases | None, calls: int) -> float:
        work = (self._work.reads, self._work.writes, self._work.flops)
        arrays = self._data, self._inbox, self._total, self._product
        return self._c.ring(*arrays, work, supersteps, phases, calls)

    def _compiled(
        self,
        loop: Callable[..., int],
        first: tuple[Any, ...],
        inbox: tuple[Any, ...],
        supersteps: int,
        phases: Phases | None,
        calls: int,
    ) -> float:
        work = self._work
        nanoseconds = np.zeros(len(PHASES), np.int64)
        elapsed = loop(
            *first, self._data, *inbox[:1], self._total, self._product, *inbox[1:], work.reads, work.writes, work.flops,
            supersteps, nanoseconds, phases is not None, calls,
        )  # fmt: skip
        if phases is not None:
            phases += nanoseconds * 1e-9
        return elapsed * 1e-9

    def _put(self, supersteps: int, phases: Phases | None, calls: int) -> float:
        target = self._segment.pointer(self._right, "i8")
        first = self._team, target, self._arrived, self._free
        return self._compiled(loops.put, first, (self._inboxes, self._steps), supersteps, phases, calls)

    def _python(
        self,
        communicate: Callable[[Words], Words],
        barrier: Callable[[], object],
        supersteps: int,
        phases: Phases | None,
        calls: int,
    ) -> float:
        """Run supersteps from Python, which calls a compiled function for everything but communication."""
        work, clock, elapsed = self._work, time.perf_counter, 0.0
        arguments = self._total, self._product, work.reads, work.writes, work.flops
        data, nanoseconds = self._data, np.zeros(len(PHASES), np.int64)
        inbox = self._inboxes[1 - self._steps[0] % 2] if communicate == self._copy else self._inbox
        for _ in range(calls):
            barrier()
            start = clock()
            for _ in range(supersteps):
                if phases is None:
                    loops.compute(data, inbox, *arguments)
                    inbox = communicate(data)
                else:
                    loops.timed_compute(data, inbox, *arguments, nanoseconds)
                    computed = clock()
                    inbox = communicate(data)
                    phases[loops.COMMUNICATION] += clock() - computed
            elapsed += clock() - start
        if phases is not None:
            phases += nanoseconds * 1e-9
        return elapsed

    def _messages(self, sendrecv: Callable[..., object]) -> Callable[[Words], Words]:
        sent, received, right, left = self._data[: self._words], self._inbox, self._right, self._left

        def communicate(data: Words) -> Words:
            sendrecv(sent, right, 0, received, left, 0)
            return received

        return communicate

    def _objects(self, data: Words) -> Words:
        self._inbox[:] = self._team.comm.sendrecv(data[: self._words], self._right, 0, None, self._left, 0)
        return self._inbox

    def _copy(self, data: Words) -> Words:
        step = int(self._steps[0]) % 2
        self._free.add(self._left)
        self._free.wait()
        gw.copy(
            data[: self._words], self._segment.pointer(self._right, "i8") + step * self._words, notify=self._arrived
        )
        self._arrived.wait()
        self._steps[0] += 1
        inbox: Words = self._inboxes[step]
        return inbox


if __name__ == "__main__":
    sys.exit(measure_on_ranks("ring", COLUMNS, measure, pinned=True))
