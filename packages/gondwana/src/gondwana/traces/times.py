"""Where the time of a rank went: each instant counts for one kind of span."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Interval: TypeAlias = tuple[int, int, str]
"""Begin and end [ns], and the category."""

PYTHON = "python"
"""The category of the time that no span has: the program itself."""
SUSPENDED = "suspended"
"""That of the waits of a task, in which others run: it takes no time of the rank."""


def by_category(begin: int, end: int, intervals: Iterable[Interval]) -> dict[str, int]:
    """Return the nanoseconds of each category between two moments; their sum is the time between these. Pure.

    An instant counts for the span that began last of those that are open then, and for the program itself if none is.
    Spans that do not lie inside of each other, as those of tasks, may come in any order.

    Example:
        >>> by_category(0, 10, [(2, 8, "kernel"), (3, 5, "wait")])
        {'python': 4, 'kernel': 4, 'wait': 2}
    """
    total = {PYTHON: 0}
    open_ones: list[Interval] = [(begin, end, PYTHON)]
    now = begin
    for interval in sorted(intervals, key=lambda one: (one[0], -one[1])):
        if interval[1] <= now or interval[0] >= end:
            continue
        now = _advance(total, open_ones, now, max(now, interval[0]))
        open_ones.append((interval[0], min(interval[1], end), interval[2]))
    _advance(total, open_ones, now, end)
    return total


def _advance(total: dict[str, int], open_ones: list[Interval], now: int, until: int) -> int:
    """Give the time from `now` to `until` to the spans that are open, the last one first; return `until`."""
    while now < until:
        while open_ones[-1][1] <= now:
            open_ones.pop()
        _, end, category = open_ones[-1]
        following = min(end, until)
        total[category] = total.get(category, 0) + following - now
        now = following
    return until


def per_rank(each: Sequence[dict[str, int]]) -> dict[str, list[float]]:
    """Return the seconds of each category on each rank, the category with the most time first. Pure."""
    names = sorted({name for one in each for name in one}, key=lambda name: -sum(one.get(name, 0) for one in each))
    return {name: [one.get(name, 0) / 1e9 for one in each] for name in names}
