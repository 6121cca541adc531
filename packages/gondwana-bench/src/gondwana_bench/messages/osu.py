"""Messages and sums by the procedure of OSU's benchmarks, with the counts of the Java study."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.messages import comparison, round_trips
from gondwana_bench.messages.comparison import PARITY, PYTHON_PARITY, Pair, rows
from gondwana_bench.messages.sums import ITEM, sums
from gondwana_bench.native.messages import Messages
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, check_names, check_ranks

LATENCY, ALLREDUCE = "latency", "allreduce"
SIZES = {LATENCY: (0, *(2**power for power in range(21))), ALLREDUCE: tuple(2**power for power in range(2, 24))}
"""Bytes of a message, and of each rank's contribution to a sum."""

SMALL, LARGE = (200, 1000), (10, 100)
"""Calls that do not count and calls that do, for small and for large messages."""
THRESHOLD = 8192
"""The largest small message [bytes], and the largest small sum [floats]."""

_ON_NODE = range(8, 8193)
"""Sizes of sums with a goal [bytes]."""

PAIRS = {
    LATENCY: (
        Pair(round_trips.COMPILED, round_trips.C, PARITY),
        Pair(round_trips.PYTHON, round_trips.MPI4PY, PYTHON_PARITY),
        Pair(round_trips.PYTHON_OBJECTS, round_trips.MPI4PY_OBJECTS),
        Pair(round_trips.MPI4PY, round_trips.C),
        Pair(round_trips.MPI4PY_OBJECTS, round_trips.C),
    ),
    ALLREDUCE: (
        Pair(round_trips.COMPILED, round_trips.C, 1.5, lambda size: size in _ON_NODE, on_node=True),
        Pair(round_trips.PYTHON, round_trips.MPI4PY, PYTHON_PARITY, lambda size: size in _ON_NODE, on_node=True),
        Pair(round_trips.MPI4PY, round_trips.C),
        Pair(round_trips.MPI4PY_OBJECTS, round_trips.C),
    ),
}

COLUMNS = {"test": "test", **comparison.COLUMNS, "operation": "variant"}


def check(ranks: int, tests: Sequence[str], sizes: Sequence[int] | None) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_ranks(ranks, "messages and sums need at least 2 ranks")
    check_names("--tests", tests, PAIRS)
    if sizes is not None and ALLREDUCE in tests and any(size < ITEM or size % ITEM for size in sizes):
        raise UsageError(
            f"--sizes {','.join(map(str, sizes))}: sums are of floats; give multiples of {ITEM} bytes, or "
            f"--tests {LATENCY}"
        )


def measure(
    team: Team, tests: Sequence[str] = tuple(PAIRS), sizes: Sequence[int] | None = None, *, repeat: int = 10
) -> Iterator[Row]:
    """Measure the one-way time of messages and the time of sums. Collective over team.

    Args:
        team: at least two MPI ranks, of which the first two exchange messages.
        tests: names of `PAIRS`.
        sizes: bytes of a message, or that each rank contributes; None: `SIZES`.
        repeat: rounds, each of which runs OSU's loop once for every variant. A tenth as many before do not count.

    Returns:
        The same rows on every rank: microseconds (of messages, half of a round trip; of sums, the mean over the ranks),
        the speed relative to the rival with its interval (above 1: ours is faster), the goal and whether it is met, and
        whether all results were right.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header.
    """
    check(team.size, tests, sizes)
    rounds = {"repeat": repeat, "discard": repeat // 10}
    if LATENCY in tests:
        wanted = sizes or SIZES[LATENCY]
        trips = round_trips.RoundTrips(team, max(wanted))
        for size in wanted:
            timing: dict[str, Any] = {"calls": SMALL if size <= THRESHOLD else LARGE, **rounds}
            for row in rows(team, PAIRS[LATENCY], trips.two_sided(size), size, parts=2, **timing):
                yield {"test": LATENCY, **row}
    if ALLREDUCE in tests:
        c = Messages(team)
        for size in sizes or SIZES[ALLREDUCE]:
            timing = {"calls": SMALL if size // ITEM <= THRESHOLD else LARGE, "of_ranks": statistics.fmean, **rounds}
            for row in rows(team, PAIRS[ALLREDUCE], sums(team, c, size), size, **timing):
                yield {"test": ALLREDUCE, **row}


if __name__ == "__main__":
    sys.exit(measure_on_ranks("osu", COLUMNS, measure, pinned=True))
