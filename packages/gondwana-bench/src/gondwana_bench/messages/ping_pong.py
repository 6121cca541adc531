"""Round trips between two ranks, as in the Julia study: latency, and the harmonic mean of throughput."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from gondwana import Team
from gondwana_bench.messages import round_trips
from gondwana_bench.messages.comparison import PARITY, PYTHON_PARITY, Pair, rows
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, check_numbers, check_ranks, columns

SIZES = tuple(2**power for power in range(0, 21, 2))
SMALL = 4096
"""The largest message for which one-sided communication has a goal [bytes]."""

PAIRS = (
    Pair(round_trips.COMPILED, round_trips.C, PARITY),
    Pair(round_trips.ONE_SIDED, round_trips.C, 3.0, lambda size: size <= SMALL, on_node=True),
    Pair(round_trips.PYTHON, round_trips.MPI4PY, PYTHON_PARITY),
    Pair(round_trips.PYTHON_ONE_SIDED, round_trips.MPI4PY),
    Pair(round_trips.PYTHON_OBJECTS, round_trips.MPI4PY_OBJECTS),
    Pair(round_trips.MPI4PY, round_trips.C),
)

COLUMNS = columns(
    "operation size microseconds mb_per_s rival rival_microseconds rival_mb_per_s ratio goal met verified",
    mb_per_s="MB/s", rival_mb_per_s="MB/s",
)  # fmt: skip


def check(ranks: int, sizes: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_ranks(ranks, "messages travel between 2 ranks")
    check_numbers("--sizes", sizes, "numbers of bytes from 1, such as 8,4096")


def measure(
    team: Team, sizes: Sequence[int] = SIZES, *, repeat: int = 100, batch_seconds: float = 0.002
) -> Iterator[Row]:
    """Measure round trips between ranks 0 and 1. Collective over team.

    Args:
        team: at least two MPI ranks, on one or several nodes.
        sizes: bytes of a message.
        repeat: rounds; each times every variant once. A tenth as many before them do not count.
        batch_seconds: length of one sample [s].

    Returns:
        The same rows on every rank: microseconds of a round trip, the harmonic mean of the throughput (bytes that
        travel there and back, in 10^6 a second), the speed relative to the rival with its interval (above 1: ours is
        faster), the goal and whether it is met, and whether all data were right.

    Raises:
        UsageError: fewer than two ranks, or no C compiler or MPI header.
    """
    check(team.size, sizes)
    trips = round_trips.RoundTrips(team, max(sizes))
    for size in sizes:
        found = trips.two_sided(size) | trips.one_sided(size)
        for row in rows(team, PAIRS, found, size, repeat=repeat, discard=repeat // 10, batch_seconds=batch_seconds):
            yield row | {
                "mb_per_s": harmonic_rate(size, row["seconds"]),
                "rival_mb_per_s": harmonic_rate(size, row["rival_seconds"]),
            }


def harmonic_rate(size: int, seconds: Row) -> float:
    """Return the harmonic mean of the throughput of round trips of one size, in 10^6 bytes a second. Local.

    It is all bytes over all seconds.

    Args:
        size: bytes of a message, which travels twice.
        seconds: the summary of the times.
    """
    return 2e-6 * size / float(seconds["mean"])


if __name__ == "__main__":
    sys.exit(measure_on_ranks("ping-pong", COLUMNS, measure, pinned=True))
