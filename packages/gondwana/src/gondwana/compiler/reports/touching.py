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

import numpy as np

from gondwana.compiler import externs
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import Box

F = TypeVar("F", bound=Callable[..., Any])

_WORD = 8
PLACES = 4096
"""Runs that are kept, by places in the program."""
MOST = 10_000
"""The most runs of a place that are reported: each takes some microseconds, and code may access scattered elements."""


class Watch(NamedTuple):
    """Bytes from the start of what all threads share to its words.

    Attributes:
        low: lowest address of memory that is watched.
        high: end of the highest.
        key: key by which the system keeps the address of each thread's table.
    """

    low: int = 0
    high: int = 8
    key: int = 16


class Run(NamedTuple):
    """Bytes from the start of a run to its words.

    Attributes:
        text: address of the description of the place, 0 without a run.
        length: its bytes.
        item: bytes of an element.
        first: address of the first element.
        number: number of elements; below 0: this place is not followed any more.
        stride: bytes from one to the next.
        bytes: bytes of a run.
    """

    text: int = 0
    length: int = 8
    item: int = 16
    first: int = 24
    number: int = 32
    stride: int = 40
    bytes: int = 48


WATCH, RUN = Watch(), Run()
RUNS = 64
"""Bytes from the start of the table of a thread, whose first word is not 0 if it has runs, to them."""

_watch = (ctypes.c_int64 * 3)()
WATCH_NAME = externs.provide("watched", _watch)
"""The name by which machine code refers to what all threads share."""

_starts: list[int] = []
_memory: list[tuple[int, int, int, int]] = []
"""Watched memory by its first address: that, its end, key of the segment, rank in the world."""
_given: Counter[int] = Counter()
"""Number of runs of each place so far."""


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
        _watch[WATCH.low // _WORD], _watch[WATCH.high // _WORD] = _starts[0], max(end for _, end, *_ in _memory)
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


class _Kept:
    """The runs of one thread, which it reports before all else, or who has launched it.

    Args:
        thread: its identifier.

    Attributes:
        table: words of the runs that machine code keeps.
        rows: runs at regular distances by the place in the program: the bytes of its description, those of an element,
            number and distance of the elements, address of the first, number of runs, and their distance.
    """

    def __init__(self, thread: int) -> None:
        self.table = np.zeros((RUNS + PLACES * RUN.bytes) // _WORD, np.int64)
        self.rows: dict[int, list[int]] = {}
        self._thread = thread
        self._runs = self.table[RUNS // _WORD :].reshape(PLACES, -1)

    def give(self, text: int, length: int, item: int, first: int, count: int, stride: int) -> None:
        """Keep a run with those before it of the same place at regular distances, or report these. Local."""
        _given[text] += 1
        if _given[text] > MOST:
            if _given[text] == MOST + 1 and reporter is not None:
                about = _described(text, length)
                reporter.tell(left=f"{os.path.basename(about['file'])}:{about['line']}")
            run = self._runs[(text >> 5) % PLACES]
            run[RUN.text // _WORD], run[RUN.number // _WORD] = text, -1
            return
        rows = self.rows.get(text)
        if rows is not None and rows[:4] == [length, item, count, stride]:
            *_, start, number, distance = rows
            if number == 1:
                rows[5:] = 2, first - start
                return
            if first == start + number * distance:
                rows[5] = number + 1
                return
        if rows is not None:
            self._report(text, *rows)
        self.rows[text] = [length, item, count, stride, first, 1, 0]

    def flush(self) -> None:
        """Report all runs. Local."""
        if not self.table[0]:
            return
        self.table[0] = 0
        kept = (self._runs[:, RUN.text // _WORD] != 0) & (self._runs[:, RUN.number // _WORD] >= 0)
        runs = self._runs[kept].tolist()
        self._runs[kept, RUN.text // _WORD] = 0
        for run in runs:
            self.give(*run)
        rows = list(self.rows.items())
        self.rows.clear()
        for text, row in rows:
            self._report(text, *row)

    def _report(
        self, text: int, length: int, item: int, count: int, stride: int, first: int, rows: int, distance: int
    ) -> None:
        axes = [(count, stride), (rows, distance)]
        at = first + sum(min(0, (number - 1) * step) for number, step in axes)
        place = bisect.bisect(_starts, at) - 1
        if place < 0 or reporter is None or at >= _memory[place][1]:
            return
        start, _, key, rank = _memory[place]
        box = Box(key, rank, at - start, item, tuple((number, abs(step)) for number, step in axes))
        about = _described(text, length)
        launched, inside = reporter.caller(self._thread)
        what, name, kernel = f"{about['function']}: {about['name']}", about["name"], about["function"]
        site = reporter.site(what, (about["file"], about["line"]), inside, kernel=kernel, name=name, launched=launched)
        reporter.add_late(Kind.WRITE if about["writes"] else Kind.READ, box, site, self._thread)


_kept: dict[int, _Kept] = {}
"""What each thread has kept, by its identifier."""


def _give(text: int, length: int, item: int, first: int, count: int, stride: int) -> None:
    """Take a run of the calling thread from compiled code, which calls this with the GIL."""
    _kept[threading.get_ident()].give(text, length, item, first, count, stride)


def _enter() -> int:
    """Give the calling thread its table, and return the address. Called by compiled code, with the GIL."""
    thread = threading.get_ident()
    kept = _kept.get(thread) or _kept.setdefault(thread, _Kept(thread))  # another thread may have had this identifier
    address = kept.table.ctypes.data
    _libc.pthread_setspecific(_watch[WATCH.key // _WORD], ctypes.c_void_p(address))
    return address


@functools.cache
def _described(text: int, length: int) -> dict[str, Any]:
    """The description of a place in the program, which machine code has at an address."""
    about: dict[str, Any] = json.loads(ctypes.string_at(text, length))
    return about


GIVE = externs.provide("touch", ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(_give))
ENTER = externs.provide("enter", ctypes.CFUNCTYPE(ctypes.c_int64)(_enter))
"""The names by which machine code calls `_give` and `_enter`."""


def flush(thread: int | None = None) -> None:
    """Report the runs of a thread. Local; only this thread, or one that does nothing meanwhile.

    Args:
        thread: its identifier; None: the calling one.
    """
    kept = _kept.get(threading.get_ident() if thread is None else thread)
    if kept is not None:
        kept.flush()


if reporter is not None:
    reporter.before = flush
    _libc = ctypes.CDLL(None)
    _libc.pthread_key_create(ctypes.byref(_watch, WATCH.key), None)


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
