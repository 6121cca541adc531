"""Candidates of a benchmark of transfers: an operation between ranks 0 and 1 and a check of its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import Team
from gondwana_bench.measure import Variant, interleave, timed

Bytes = NDArray[np.uint8]
Buffer = TypeVar("Buffer")
Ends = tuple[Bytes | None, Bytes | None]
"""The array that this rank sends and the one into which it receives; None: it does not."""

WAYS = {1: "", 2: ", both"}
"""Suffix of the name of a flood, by the number of ranks that send concurrently."""

CALLS = 3
"""Number of operations in a check."""


@dataclass(frozen=True)
class Candidate:
    """An operation to time.

    Attributes:
        run: performs the operation a number of times and returns the seconds. All ranks call it; ranks other than 0
            and 1 return at once.
        is_right: collective; runs the operation and returns on every rank whether the data were right.
        operations: number of operations of a call, as the table counts them.
    """

    run: Variant
    is_right: Callable[[], bool]
    operations: int = 1


class Between:
    """Operations between ranks 0 and 1 of a team, and the data that each sends and receives. Local.

    Args:
        team: at least two MPI ranks.

    Attributes:
        peer: the other of the two ranks; of other ranks, 0.
    """

    def __init__(self, team: Team) -> None:
        self.team, self.peer = team, 1 - min(team.rank, 1)

    def moving(self, run: Variant, ends: Ends, operations: int = 1) -> Candidate:
        """Return a candidate whose check compares the received with the sent data. Local."""
        return Candidate(run, lambda: self._moves(run, *ends), operations)

    def counting(self, run: Variant, count: Callable[[], int], each: int, operations: int = 1) -> Candidate:
        """Return a candidate whose check is that every call adds `each` to the `count` of this rank. Local."""
        return Candidate(run, lambda: self._counts(run, count, each * CALLS), operations)

    def by_role(self, first: Callable[[], object], second: Callable[[], object] | None = None) -> Variant:
        """Return a variant from the parts of ranks 0 and 1, if any, in one operation. Local."""
        role = {0: first, 1: second}.get(self.team.rank)
        return timed(role) if role is not None else absent

    def sending(
        self,
        send: Callable[[Buffer, int], object],
        receive: Callable[[Buffer, int], object],
        here: Buffer,
        back: Buffer,
    ) -> Variant:
        """Return round trips of messages: rank 0 sends `here`, rank 1 sends it on to `back` of rank 0. Local."""

        def ping() -> None:
            send(here, 1)
            receive(back, 1)

        def pong() -> None:
            receive(here, 0)
            send(here, 0)

        return self.by_role(ping, pong)

    def notifying(self, source: NDArray[Any], target: gw.GlobalPtr, signal: gw.Signal) -> Variant:
        """Return round trips of copies to the peer, from Python, that raise a signal there. Local."""

        def ping() -> None:
            gw.copy(source, target, notify=signal)
            signal.wait()

        def pong() -> None:
            signal.wait()
            gw.copy(source, target, notify=signal)

        return self.by_role(ping, pong)

    def there_and_back(self, here: Bytes, back: Bytes) -> Ends:
        """Return the ends if rank 0 sends `here` to `here` of rank 1, which sends it on to `back` of rank 0. Local."""
        return (here, back) if self.team.rank == 0 else (None, here if self.team.rank == 1 else None)

    def one_way(self, here: Bytes, there: Bytes) -> Ends:
        """Return the ends if rank 0 sends `here` to `there` of rank 1. Local."""
        return (here if self.team.rank == 0 else None), (there if self.team.rank == 1 else None)

    def both_ways(self, here: Bytes, there: Bytes) -> Ends:
        """Return the ends if ranks 0 and 1 send `here` to `there` of the other. Local."""
        return (here, there) if self.team.rank < 2 else (None, None)

    def ends_of(self, ways: int, here: Bytes, there: Bytes) -> Ends:
        """Return the ends if the first `ways` of ranks 0 and 1 send `here` to `there` of the other. Local."""
        return self.both_ways(here, there) if ways == 2 else self.one_way(here, there)

    def _moves(self, run: Variant, sent: Bytes | None, received: Bytes | None) -> bool:
        if received is not None:
            received[:] = 0
        if sent is not None:
            sent[:] = pattern(sent.size)
        self.team.barrier()
        run(CALLS)
        self.team.barrier()
        return all(self.team.allgather(received is None or np.array_equal(received, pattern(received.size))))

    def _counts(self, run: Variant, count: Callable[[], int], expected: int) -> bool:
        before = count()
        self.team.barrier()
        run(CALLS)
        self.team.barrier()
        return all(self.team.allgather(count() - before == expected))


def timed_and_checked(
    team: Team, used: Mapping[str, Candidate], **timing: Any
) -> tuple[dict[str, list[float]], dict[str, bool]]:
    """Time candidates in turns, then check them. Collective over team.

    Args:
        team: the ranks.
        used: candidates by name.
        timing: options of `measure.interleave`.

    Returns:
        Seconds of an operation, one sample a round, and whether all data were right, by name.
    """
    samples = interleave({name: candidate.run for name, candidate in used.items()}, team=team, **timing)
    seconds = {name: [sample / used[name].operations for sample in samples[name]] for name in used}
    return seconds, {name: candidate.is_right() for name, candidate in used.items()}


def served_by_mpi(team: Team, candidates: Mapping[str, Candidate]) -> dict[str, Candidate]:
    """Return candidates whose ranks wait for each other inside MPI afterwards. Local.

    So the target of one-sided operations of another node lets MPI progress without pause while they are timed. The time
    of that wait does not count.
    """

    def serving(run: Variant) -> Variant:
        def variant(calls: int) -> float:
            seconds = run(calls)
            team.comm.Barrier()
            return seconds

        return variant

    return {name: replace(candidate, run=serving(candidate.run)) for name, candidate in candidates.items()}


def absent(calls: int) -> float:
    """Do nothing, on ranks that take no part. Local."""
    return 0.0


def pattern(size: int) -> Bytes:
    """Return the data to send: bytes without zeros, the same on all ranks. Local."""
    return np.random.default_rng(size).integers(1, 256, size, dtype=np.uint8)
