"""Loops whose iterations are divided among the ranks of a team, with a reduction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from gondwana.errors import UsageError
from gondwana.memory.segment import Segment
from gondwana.sync.atomics import AtomicDomain
from gondwana.teams import Team, world

T = TypeVar("T")

_CHUNKS = 256
"""Default number of chunks of a loop; it does not depend on the ranks, nor does the result."""


def pfor(
    function: Callable[[Any], T],
    items: Sequence[Any],
    *,
    reduce: Callable[[T, T], T] | None = None,
    schedule: Literal["static", "dynamic"] = "static",
    chunk: int | None = None,
    team: Team = world,
) -> T | None:
    """Call a function for every item, each on one rank of a team, and reduce the results. Collective over team.

    Blocking. The items are divided into chunks of consecutive ones. The result is the same for every schedule and
    number of ranks, to the last bit: results are combined in order within each chunk, and then chunk by chunk.

    Args:
        function: takes an item.
        items: a range or another sequence, the same on every rank.
        reduce: combines two results; must be associative. None: there is no result.
        schedule: "static": every rank has an equal number of consecutive chunks; "dynamic": a rank takes the next
            chunk when it has finished one, for iterations of different length.
        chunk: number of items in a chunk; None: chosen such that there are at most 256 chunks.
        team: the ranks that share the loop.

    Returns:
        The combined result, on every rank; None without `reduce`, or without items.

    Raises:
        UsageError: the arguments are illegal, or differ between ranks.

    Example:
        >>> import operator
        >>> import gondwana as gw
        >>> gw.pfor(lambda i: i * i, range(10), reduce=operator.add, schedule="dynamic")
        285
    """
    count = len(items)
    team.expect_same("loops", items=count, schedule=schedule, chunk=chunk, reduce=reduce is not None)
    if schedule not in ("static", "dynamic"):
        raise UsageError(f'pfor with schedule={schedule!r}: give "static" or "dynamic"')
    if chunk is not None and chunk < 1:
        raise UsageError(f"pfor with chunks of {chunk} items: give 1 or more")
    length = chunk or max(1, -(-count // _CHUNKS))
    chunks = -(-count // length)
    mine = _static(chunks, team) if schedule == "static" else _dynamic(chunks, team)
    results: list[tuple[int, T]] = []
    for number in mine:
        values = [function(items[index]) for index in range(number * length, min(count, (number + 1) * length))]
        if reduce is not None:
            results.append((number, functools.reduce(reduce, values)))
    everything = sorted((pair for pairs in team.allgather(results) for pair in pairs), key=lambda pair: pair[0])
    if reduce is None or not everything:
        return None
    total: T = functools.reduce(reduce, [value for _, value in everything])
    return total


def _static(chunks: int, team: Team) -> range:
    return range(chunks * team.rank // team.size, chunks * (team.rank + 1) // team.size)


def _dynamic(chunks: int, team: Team) -> Iterator[int]:
    """Yield the numbers of chunks that no rank has taken yet; a word on rank 0 counts the taken ones."""
    counter = Segment(team, 0 if team.rank else 8).pointer(0, np.int64)
    taken = AtomicDomain(np.int64, ("fetch_add",), team)
    while (number := int(taken.fetch_add(counter, 1).result())) < chunks:
        yield number
    team.barrier()  # the word lives until all ranks have seen the end
