"""Seconds that a rank spends on the parts of a run."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import gondwana as gw


class Timers:
    """Wall-clock seconds of this rank, by purpose. Local to create.

    Attributes:
        seconds: seconds by part; 0.0 for a part that has not been timed.

    Example:
        >>> timers = Timers()
        >>> with timers("compute"):
        ...     total = sum(range(1000))
        >>> timers.seconds["compute"] > 0.0
        True
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextlib.contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Add the time of a block to a part. Local."""
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start


def slowest(seconds: Mapping[str, float], team: gw.Team) -> dict[str, float]:
    """Return the seconds of each part on the rank where it took longest. Collective over team.

    Args:
        seconds: seconds by part; all ranks have the same parts.
        team: the ranks.
    """
    ranks = team.allgather(dict(seconds))
    return {part: max(rank[part] for rank in ranks) for part in seconds}


def over_ranks(seconds: float, team: gw.Team) -> dict[str, float]:
    """Return the minimum, the median and the maximum of the seconds of all ranks. Collective over team.

    Args:
        seconds: seconds of this rank.
        team: the ranks.

    Example:
        >>> over_ranks(0.5, gw.world)
        {'min': 0.5, 'median': 0.5, 'max': 0.5}
    """
    return spread(team.allgather(seconds))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the minimum, the median and the maximum of some values. Local."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}
