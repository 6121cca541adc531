"""The speed of one-sided communication, beside MPI in C, mpi4py and on a node memcpy, on the same ranks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.native.transfers import Transfers
from gondwana_bench.panels import Derived, measure_on_ranks
from gondwana_bench.rma import calls, peaks, rivals
from gondwana_bench.rma.candidates import WAYS, Candidate, served_by_mpi, timed_and_checked
from gondwana_bench.rma.ours import Ours
from gondwana_bench.rows import Row, beside, check_numbers

WORD = 8
SIZES = (8, 64, 512, 4096, 65536, 524288, 4194304)
LARGE = 65536
"""Size from which floods are to be nearly as fast as memcpy [bytes]."""

COLUMNS = {
    "operation": "operation",
    "size": "bytes",
    "unit": "unit",
    "ours": "ours",
    "rival": "rival",
    "theirs": "theirs",
    "ratio": "theirs/ours (95 %)",
    "goal": "goal",
    "met": "met",
    "verified": "right",
}

SECONDS = {"ns": 1e-9, "us": 1e-6}
"""The units of time; in the others, rates, more is better."""


@dataclass(frozen=True)
class Case:
    """A comparison of one of our operations with one of theirs.

    Attributes:
        ours: the candidate to judge.
        rival: the candidate to judge it by.
        unit: ns or us for an operation, M/s for operations, GB/s for bytes (10^9) that arrive at all ranks.
        goal: ours must be at most this time or at least this rate.
        goal_ratio: ours must be at least this fast, relative to the rival.
        ways: 2 if data move both ways at once.
    """

    ours: str
    rival: str
    unit: str
    goal: float | None = None
    goal_ratio: float | None = None
    ways: int = 1


PUT_AND_RPC = (
    Case("Python put", "mpi4py Put", "us", goal=0.3),
    Case("Python rpc round trip", "mpi4py pickle round trip", "us", goal=4.0),
)
"""The cases whose time must not depend on the number of ranks."""

OPERATIONS = (
    Case("compiled put of a word", "C MPI_Put", "ns", goal=10.0),
    Case("compiled get of a word", "C MPI_Get", "ns", goal=10.0),
    Case("compiled signal", "C flag", "us"),
    Case("compiled put + signal", "C send/recv", "us", goal=0.25),
    Case("compiled send/recv", "C send/recv", "us", goal_ratio=1 / 1.15),
    Case("compiled fetch_add", "C MPI_Fetch_and_op", "ns"),
    Case("compiled AM round trip", "C send/recv round trip", "us", goal=1.0),
    Case("compiled AM flood", "C Isend flood", "M/s", goal=2.0),
    *PUT_AND_RPC,
    Case("Python get", "mpi4py Get", "us", goal=0.3),
    Case("Python put + signal", "mpi4py Send/Recv", "us", goal=0.5),
    Case("Python copy + notify", "mpi4py Send/Recv", "us", goal=0.8),
    Case("Python fetch_add", "mpi4py Fetch_and_op", "us", goal=0.45),
    Case("Python rpc_ff flood", "mpi4py pickle flood", "M/s", goal=1.7),
)

TRANSFERS = (
    Case("compiled put", "C MPI_Put", "us"),
    Case("compiled get", "C MPI_Get", "us"),
    Case("compiled put + signal", "C send/recv", "us"),
)
PAYLOAD = Case("compiled AM with payload", "C send/recv", "us")


def transfers(size: int) -> tuple[Case, ...]:
    """Return the cases of transfers of a size [bytes], one after the other. Local."""
    return (*TRANSFERS, PAYLOAD) if size <= calls.LONGEST_PAYLOAD else TRANSFERS


OPERATIONS_BETWEEN_NODES = (
    Case("compiled put of a word", "C MPI_Put", "us"),
    Case("compiled get of a word", "C MPI_Get", "us"),
    Case("compiled signal", "C send/recv", "us"),
    Case("compiled put + signal", "C send/recv", "us", goal_ratio=1 / 1.2),
    Case("compiled send/recv", "C send/recv", "us", goal_ratio=1 / 1.15),
    Case("compiled fetch_add", "C MPI_Fetch_and_op", "us"),
    Case("compiled AM round trip", "C send/recv round trip", "us"),
    Case("compiled AM flood", "C Isend flood", "M/s"),
    Case("Python put", "mpi4py Put", "us"),
    Case("Python get", "mpi4py Get", "us"),
    Case("Python put + signal", "mpi4py Send/Recv", "us"),
    Case("Python copy + notify", "mpi4py Send/Recv", "us"),
    Case("Python fetch_add", "mpi4py Fetch_and_op", "us"),
    Case("Python rpc round trip", "mpi4py pickle round trip", "us"),
    Case("Python rpc_ff flood", "mpi4py pickle flood", "M/s"),
)
"""Without the flag, which is shared memory."""

TRANSFERS_BETWEEN_NODES = (
    *TRANSFERS,
    Case("compiled put + signal", "C MPI_Put + message", "us"),
    Case("Python copy + notify", "mpi4py Send/Recv", "us"),
    Case("Python copy + notify", "C MPI_Put + message", "us"),
)

FLOODS_BETWEEN_NODES = tuple(
    Case(ours + suffix, rival + suffix, "GB/s", ways=ways)
    for ways, suffix in WAYS.items()
    for ours, rival in (
        ("compiled put flood", "C MPI_Put flood"),
        ("compiled put flood", "C Isend flood"),
        ("Python copy flood", "mpi4py Put flood"),
    )
)


def floods(size: int) -> tuple[Case, ...]:
    """Return the cases of floods on a node with transfers of a size [bytes]. Local."""
    compiled, python = (0.9, 0.8) if size >= LARGE else (None, None)
    pairs = (
        ("compiled put flood", "C memcpy flood", compiled),
        ("Python copy flood", "C memcpy flood", python),
        ("compiled put flood", "C MPI_Put flood", None),
        ("compiled put flood", "C Isend flood", None),
        ("Python copy flood", "mpi4py Put flood", None),
    )
    return tuple(
        Case(ours + suffix, rival + suffix, "GB/s", goal_ratio=goal, ways=ways)
        for ways, suffix in WAYS.items()
        for ours, rival, goal in pairs
    )


def check(ranks: int, sizes: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    if ranks < 2:
        raise UsageError(f"--ranks {ranks}: data move between at least 2 ranks")
    check_numbers("--sizes", sizes, f"multiples of {WORD} bytes, such as 8,65536", least=WORD, multiple=WORD)


def measure(
    team: Team, sizes: Sequence[int] = SIZES, *, repeat: int = 20, batch_seconds: float = 0.02
) -> Iterator[Row]:
    """Measure transfers between ranks 0 and 1. Collective over team.

    With more than two ranks only a put and a call from Python are measured, which must take the same time then; the
    other ranks wait at a barrier, and so serve progress. Between nodes what needs shared memory is left out, and rank 1
    waits inside MPI for one-sided operations of rank 0.

    Args:
        team: at least two MPI ranks.
        sizes: bytes of a transfer in the panels of transfers and floods.
        repeat: rounds; each times every variant once.
        batch_seconds: length of one sample [s].

    Returns:
        The same rows on every rank: ours and the rival's in `unit`, the speed relative to the rival with its interval
        (above 1: ours is faster), the goal and whether it is met, whether all data were right, and on how many nodes
        ranks 0 and 1 are.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header.
    """
    check(team.size, sizes)
    largest = max(sizes) if team.size == 2 else WORD
    with ExitStack() as stack:
        mpi4py = stack.enter_context(rivals.Mpi4py(team, largest))
        ours = Ours(team, largest)
        operations = ours.operations() | mpi4py.operations() | mpi4py.messages(WORD)
        if team.size > 2:
            yield from _rows(team, PUT_AND_RPC, operations | calls.calls(team), WORD, repeat, batch_seconds)
            return
        c = stack.enter_context(Transfers(team, largest))
        measure_two = _measure_on_node if team.node.size == team.size else _measure_between_nodes
        for cases, found, size in measure_two(team, ours, mpi4py, c, operations, sizes):
            yield from _rows(team, cases, found, size, repeat, batch_seconds)


Panel = tuple[Sequence[Case], Mapping[str, Candidate], int]
"""Cases that are timed in turns, their candidates, and the bytes of a transfer."""


def _measure_on_node(
    team: Team, ours: Ours, mpi4py: rivals.Mpi4py, c: Transfers, operations: dict[str, Candidate], sizes: Sequence[int]
) -> Iterator[Panel]:
    operations |= calls.calls(team) | calls.active_messages(team)
    operations |= ours.transfers(WORD) | rivals.c_operations(team, c) | rivals.c_transfers(team, c, WORD)
    operations |= rivals.c_floods(team, c, WORD, ours.places(WORD))
    yield OPERATIONS, operations, WORD
    payloads = calls.Payloads(team)
    for size in sizes:
        found = ours.transfers(size) | rivals.c_transfers(team, c, size)
        found |= {PAYLOAD.ours: payloads.transfer(size)} if PAYLOAD in transfers(size) else {}
        yield transfers(size), found, size
        places = ours.places(size)
        found = ours.floods(size) | mpi4py.floods(size, places) | rivals.c_floods(team, c, size, places)
        yield floods(size), found | rivals.memcpy_floods(team, c, *ours.ends(size)), size


def _measure_between_nodes(
    team: Team, ours: Ours, mpi4py: rivals.Mpi4py, c: Transfers, operations: dict[str, Candidate], sizes: Sequence[int]
) -> Iterator[Panel]:
    operations |= ours.transfers(WORD) | rivals.c_operations(team, c) | rivals.c_transfers(team, c, WORD)
    operations |= rivals.c_floods(team, c, WORD, ours.places(WORD))
    served_by_us = ours.copies_with_signal(WORD) | calls.calls(team) | calls.active_messages(team)
    yield OPERATIONS_BETWEEN_NODES, served_by_mpi(team, operations) | served_by_us, WORD
    for size in sizes:
        found = ours.transfers(size) | mpi4py.messages(size) | rivals.c_transfers(team, c, size)
        yield TRANSFERS_BETWEEN_NODES, served_by_mpi(team, found) | ours.copies_with_signal(size), size
        places = ours.places(size)
        found = ours.floods(size) | mpi4py.floods(size, places) | rivals.c_floods(team, c, size, places)
        yield FLOODS_BETWEEN_NODES, served_by_mpi(team, found), size


def _rows(
    team: Team,
    cases: Sequence[Case],
    found: Mapping[str, Candidate],
    size: int,
    repeat: int,
    batch_seconds: float,
) -> Iterator[Row]:
    """Time all candidates of the cases interleaved, check them, and compare."""
    used = {name: found[name] for case in cases for name in (case.ours, case.rival)}
    seconds, right = timed_and_checked(team, used, repeat=repeat, batch_seconds=batch_seconds)
    for case in cases:
        verified = right[case.ours] and right[case.rival]
        row = _row(team.size, case, size, seconds[case.ours], seconds[case.rival], verified)
        yield row | {"nodes": len({team.node_of(0), team.node_of(1)})}


def _row(ranks: int, case: Case, size: int, ours: Sequence[float], theirs: Sequence[float], verified: bool) -> Row:
    compared = beside(theirs, ours)
    value = _in_unit(case, size, compared["seconds"]["median"])
    return {
        "operation": case.ours,
        "rival": case.rival,
        "size": size,
        "ranks": ranks,
        "unit": case.unit,
        "ours": value,
        "theirs": _in_unit(case, size, compared["rival_seconds"]["median"]),
        **compared,
        "goal": _goal(case),
        "met": _met(case, value, compared["ratio"]),
        "verified": verified,
    }


def _in_unit(case: Case, size: int, seconds: float) -> float:
    """Convert the seconds of an operation to the unit of its case."""
    if case.unit in SECONDS:
        return seconds / SECONDS[case.unit]
    return 1e-6 / seconds if case.unit == "M/s" else 1e-9 * size * case.ways / seconds


def _goal(case: Case) -> str | None:
    if case.goal_ratio is not None:
        return f">= {case.goal_ratio:.2g} x"
    return None if case.goal is None else f"{'<=' if case.unit in SECONDS else '>='} {case.goal:g}"


def _met(case: Case, value: float, speed: float) -> bool | None:
    if case.goal_ratio is not None:
        return speed >= case.goal_ratio
    if case.goal is None:
        return None
    return value <= case.goal if case.unit in SECONDS else value >= case.goal


_PEAKS = Derived("peaks", peaks.COLUMNS, peaks.peaks)

if __name__ == "__main__":
    sys.exit(measure_on_ranks("rma", COLUMNS, measure, derived=_PEAKS, pinned=True))
