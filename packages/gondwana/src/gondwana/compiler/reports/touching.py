"""Loads and stores of compiled code that the race detector sees: runs of elements, kept until something is reported.

Compiled code calls `touching_native.touch` before each access by an index that is computed. It keeps, for each place in
the program, the elements at regular distances that were accessed last, and gives them to Python when others follow.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import json
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gondwana.compiler import externs
from gondwana.compiler.multithreading.pool import threads
from gondwana.compiler.native import Native
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import Box

F = TypeVar("F", bound=Callable[..., Any])

_WORD = 8
PLACES = 4096
"""Runs that are kept, by places in the program."""
MOST = 10_000
"""The most runs of a place that are reported: each takes some microseconds, and code may access scattered elements."""


class Table(NamedTuple):
    """Bytes from the start of the table to its words.

    Attributes:
        low: lowest address of memory that is watched.
        high: end of the highest.
        next: number of the next turn, for threads that wait for theirs.
        now: number of the present turn.
        alone: whether the process has one thread that computes, which takes no turns.
        runs: the runs.
    """

    low: int = 0
    high: int = 8
    next: int = 16
    now: int = 24
    alone: int = 32
    runs: int = 64


class Run(NamedTuple):
    """Bytes from the start of a run to its words.

    Attributes:
        text: address of the description of the place, 0 without a run.
        length: its bytes.
        item: bytes of an element.
        first: address of the first element.
        number: number of elements; below 0: this place is not followed any more.
        stride: bytes from one to the next.
    """

    text: int = 0
    length: int = 8
    item: int = 16
    first: int = 24
    number: int = 32
    stride: int = 40


TABLE, RUN, RUN_BYTES = Table(), Run(), 48

_table = (ctypes.c_int64 * ((TABLE.runs + PLACES * RUN_BYTES) // _WORD))()
TABLE_NAME = externs.provide("touched", _table)
"""The name by which machine code refers to the table."""
_take_all = Native("gondwana.compiler.reports.touching_native", "take_all", 2)
_taken = (ctypes.c_int64 * (PLACES * RUN_BYTES // _WORD))()

_starts: list[int] = []
_memory: list[tuple[int, int, int, int]] = []
"""Watched memory by its first address: that, its end, key of the segment, rank in the world."""
_rows: dict[int, list[int]] = {}
"""Runs at regular distances by the place in the program: the bytes of its description, those of an element, number and
distance of the elements, address of the first, number of runs, and their distance."""
_given: Counter[int] = Counter()
"""Number of runs of each place so far."""
_seen = 0
"""Number of turns that have been taken when the runs were last reported."""


def announce(segment: Any, sizes: list[int]) -> None:
    """Tell the detector about a new segment, and have accesses of compiled code to it be reported. Local.

    Args:
        segment: the segment.
        sizes: bytes of the host memory of each rank of its team.
    """
    assert reporter is not None
    ranks = list(segment.team.world_ranks)
    reporter.tell(segment=segment.key, ranks=ranks, sizes=sizes, table=segment.table_address)
    mapped = [one for one in zip(segment.bases, sizes, ranks, strict=True) if one[0] and one[1]]
    for address, nbytes, rank in mapped:
        _forget(address)
        place = bisect.bisect(_starts, address)
        _starts.insert(place, address)
        _memory.insert(place, (address, address + nbytes, segment.key, rank))
        _table[TABLE.low // _WORD], _table[TABLE.high // _WORD] = _starts[0], max(end for _, end, *_ in _memory)
    weakref.finalize(segment, _free, segment.key, [address for address, *_ in mapped]).atexit = False


def _free(key: int, addresses: list[int]) -> None:
    assert reporter is not None
    reporter.later(Kind.FREE, key)
    for address in addresses:
        _forget(address, key)


def _forget(address: int, key: int | None = None) -> None:
    """Have accesses to memory that was mapped at an address, for a segment or any, not be reported any more."""
    place = bisect.bisect_left(_starts, address)
    if place < len(_starts) and _starts[place] == address and key in (None, _memory[place][2]):
        del _starts[place], _memory[place]


def _give(text: int, length: int, item: int, first: int, count: int, stride: int) -> None:
    """Keep a run with those before it of the same place at regular distances, or report these.

    Called by compiled code, on any thread, with the GIL.
    """
    _given[text] += 1
    if _given[text] > MOST:
        if _given[text] == MOST + 1 and reporter is not None:
            about = _described(text, length)
            reporter.tell(left=f"{os.path.basename(about['file'])}:{about['line']}")
        run = (TABLE.runs + (text >> 5) % PLACES * RUN_BYTES) // _WORD
        _table[run + RUN.text // _WORD], _table[run + RUN.number // _WORD] = text, -1
        return
    rows = _rows.get(text)
    if rows is not None and rows[:4] == [length, item, count, stride]:
        *_, start, number, distance = rows
        if number == 1:
            rows[5:] = 2, first - start
            return
        if first == start + number * distance:
            rows[5] = number + 1
            return
    if rows is not None:
        _report(text, *rows)
    _rows[text] = [length, item, count, stride, first, 1, 0]


def _report(text: int, length: int, item: int, count: int, stride: int, first: int, rows: int, distance: int) -> None:
    axes = [(count, stride), (rows, distance)]
    at = first + sum(min(0, (number - 1) * step) for number, step in axes)
    place = bisect.bisect(_starts, at) - 1
    if place < 0 or reporter is None or at >= _memory[place][1]:
        return
    start, _, key, rank = _memory[place]
    box = Box(key, rank, at - start, item, tuple((number, abs(step)) for number, step in axes))
    about = _described(text, length)
    launched, inside = reporter.caller()
    what, name, kernel = f"{about['function']}: {about['name']}", about["name"], about["function"]
    site = reporter.site(what, (about["file"], about["line"]), inside, kernel=kernel, name=name, launched=launched)
    reporter.add_late(Kind.WRITE if about["writes"] else Kind.READ, box, site)


@functools.cache
def _described(text: int, length: int) -> dict[str, Any]:
    """The description of a place in the program, which machine code has at an address."""
    about: dict[str, Any] = json.loads(ctypes.string_at(text, length))
    return about


_called = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(_give)
GIVE = externs.provide("touch", _called)
"""The name by which machine code calls `_give`."""


def flush() -> None:
    """Report all runs that are kept. Local."""
    global _seen
    if _table[TABLE.next // _WORD] == _seen or threading.current_thread() is not threading.main_thread():
        return
    count = _take_all.call(ctypes.addressof(_table), ctypes.addressof(_taken))
    _seen = _table[TABLE.next // _WORD]
    words = RUN_BYTES // _WORD
    for index in range(count):
        _give(*_taken[index * words : (index + 1) * words])
    rows = list(_rows.items())
    _rows.clear()
    for text, run in rows:
        _report(text, *run)


if reporter is not None:
    reporter.before = flush
    _table[TABLE.alone // _WORD] = threads() == 1


def flushing(method: F) -> F:
    """Have what compiled code has accessed be reported when a function returns: a decorator. Local."""
    if reporter is None:
        return method

    @functools.wraps(method)
    def report(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            flush()

    return report  # type: ignore[return-value]
