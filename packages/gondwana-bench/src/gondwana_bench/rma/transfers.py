"""The speed of one-sided communication, beside MPI in C, mpi4py and on a node memcpy, on the same ranks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from gondwana import Team
from gondwana_bench.native.transfers import Transfers
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rma import calls, peaks, rivals
from gondwana_bench.rma.candidates import WAYS, Between, Candidate, served_by_mpi, timed_and_checked
from gondwana_bench.rma.ours import Ours
from gondwana_bench.rows import WORD, Row, beside, check_words, columns, judged

SIZES = (8, 64, 512, 4096, 65536, 524288, 4194304)
LARGE = 65536
"""Size from which floods are to be nearly as fast as memcpy [bytes]."""

COLUMNS = columns("operation size unit ours rival theirs ratio goal met verified")

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


_BETWEEN_NODES: dict[str, dict[str, Any]] = {
    "compiled signal": {"rival": "C send/recv"},  # the flag is shared memory
    "compiled put + signal": {"goal_ratio": 1 / 1.2},
}
OPERATIONS_BETWEEN_NODES = tuple(
    replace(case, unit=case.unit.replace("ns", "us"), goal=None, **_BETWEEN_NODES.get(case.ours, {}))
    for case in sorted(OPERATIONS, key=lambda case: "rpc" in case.ours)
)
"""The same without goals of a node; remote calls from Python come last."""

TRANSFERS_BETWEEN_NODES = (
    *TRANSFERS,
    Case("compiled put + signal", "C MPI_Put + message", "us"),
    Case("Python copy + notify", "mpi4py Send/Recv", "us"),
    Case("Python copy + notify", "C MPI_Put + message", "us"),
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


FLOODS_BETWEEN_NODES = tuple(case for case in floods(WORD) if "memcpy" not in case.rival)


check = partial(check_words, "data move between at least 2 ranks", "8,65536")


def measure(team: Team, sizes: Sequence[int] = SIZES, **timing: Any) -> Iterator[Row]:
    """Measure transfers between ranks 0 and 1. Collective over team.

    With more than two ranks only a put and a call from Python are measured, which must take the same time then; the
    other ranks wait at a barrier, and so serve progress. Between nodes what needs shared memory is left out, and rank 1
    waits inside MPI for one-sided operations of rank 0.

    Args:
        team: at least two MPI ranks.
        sizes: bytes of a transfer in the panels of transfers and floods.
        timing: options of `measure.interleave`.

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
        ours, pair = Ours(team, largest), Between(team)
        operations = ours.operations() | mpi4py.operations() | mpi4py.messages(WORD)
        if team.size > 2:
            yield from _rows(team, PUT_AND_RPC, operations | calls.calls(pair), WORD, timing)
            return
        c = stack.enter_context(Transfers(team, largest))
        operations |= ours.transfers(WORD) | rivals.c_operations(pair, c) | rivals.c_transfers(pair, c, WORD)
        operations |= rivals.c_floods(pair, c, WORD, ours.places(WORD))
        measure_two = _measure_on_node if team.node.size == team.size else _measure_between_nodes
        for cases, found, size in measure_two(Sides(pair, ours, mpi4py, c), operations, sizes):
            yield from _rows(team, cases, found, size, timing)


Found = dict[str, Candidate]
"""Candidates by name."""

Panel = tuple[Sequence[Case], Found, int]
"""Cases that are timed in turns, their candidates, and the bytes of a transfer."""


class Sides(NamedTuple):
    """The sources of the candidates of two ranks."""

    pair: Between
    ours: Ours
    mpi4py: rivals.Mpi4py
    c: Transfers

    def floods(self, size: int) -> Found:
        """Return the floods of all sides. Local."""
        pair, ours, mpi4py, c = self
        places = ours.places(size)
        return ours.floods(size) | mpi4py.floods(size, places) | rivals.c_floods(pair, c, size, places)


def _measure_on_node(sides: Sides, operations: Found, sizes: Sequence[int]) -> Iterator[Panel]:
    pair, ours, _, c = sides
    yield OPERATIONS, operations | calls.calls(pair) | calls.active_messages(pair), WORD
    payloads = calls.Payloads(pair.team)
    for size in sizes:
        found = ours.transfers(size) | rivals.c_transfers(pair, c, size)
        found |= {PAYLOAD.ours: payloads.transfer(size)} if PAYLOAD in transfers(size) else {}
        yield transfers(size), found, size
        yield floods(size), sides.floods(size) | rivals.memcpy_floods(pair, c, *ours.ends(size)), size


def _measure_between_nodes(sides: Sides, operations: Found, sizes: Sequence[int]) -> Iterator[Panel]:
    pair, ours, mpi4py, c = sides
    served_by_us = ours.copies_with_signal(WORD) | calls.calls(pair) | calls.active_messages(pair)
    yield OPERATIONS_BETWEEN_NODES, served_by_mpi(pair.team, operations) | served_by_us, WORD
    for size in sizes:
        found = ours.transfers(size) | mpi4py.messages(size) | rivals.c_transfers(pair, c, size)
        yield TRANSFERS_BETWEEN_NODES, served_by_mpi(pair.team, found) | ours.copies_with_signal(size), size
        yield FLOODS_BETWEEN_NODES, served_by_mpi(pair.team, sides.floods(size)), size


def _rows(
    team: Team, cases: Sequence[Case], found: Mapping[str, Candidate], size: int, timing: Mapping[str, Any]
) -> Iterator[Row]:
    """Time all candidates of the cases interleaved, check them, and compare."""
    used = {name: found[name] for case in cases for name in (case.ours, case.rival)}
    seconds, right = timed_and_checked(team, used, **timing)
    for case in cases:
        verified = right[case.ours] and right[case.rival]
        row = _row(team.size, case, size, seconds[case.ours], seconds[case.rival], verified)
        yield row | {"nodes": len({team.node_of(0), team.node_of(1)})}


def _row(ranks: int, case: Case, size: int, ours: Sequence[float], theirs: Sequence[float], verified: bool) -> Row:
    compared = beside(theirs, ours)
    value = _in_unit(case, size, compared["seconds"]["median"])
    goal = judged(case.goal, value, "{:g}", most=case.unit in SECONDS)
    if case.goal_ratio is not None:
        goal = judged(case.goal_ratio, compared["ratio"], "{:.2g} x")
    return {
        "operation": case.ours,
        "rival": case.rival,
        "size": size,
        "ranks": ranks,
        "unit": case.unit,
        "ours": value,
        "theirs": _in_unit(case, size, compared["rival_seconds"]["median"]),
        **compared,
        **goal,
        "verified": verified,
    }


def _in_unit(case: Case, size: int, seconds: float) -> float:
    """Convert the seconds of an operation to the unit of its case."""
    if case.unit in SECONDS:
        return seconds / SECONDS[case.unit]
    return 1e-6 / seconds if case.unit == "M/s" else 1e-9 * size * case.ways / seconds


if __name__ == "__main__":
    sys.exit(measure_on_ranks("rma", COLUMNS, measure, derived={"peaks": (peaks.COLUMNS, peaks.peaks)}, pinned=True))
