"""Loads and stores of compiled code that the race detector sees: runs of elements, kept until something is reported.

For each thread and each access in the program, compiled code keeps the rows of elements at regular distances that were
accessed last. The next element of a row moves on one word; other elements are noted by `touching_native.touch`, which
gives rows to Python when others follow. A thread reports its runs before its next record, and alone uses its table.
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
PLACES = 65536
"""Runs that a thread can keep: so many that those of two functions rarely have the same place."""
MOST = 10_000
"""The most runs of a place that are reported: each takes some microseconds, and code may access scattered elements."""


class Watch(NamedTuple):
    """Bytes from the start of what all threads share to its words.

    Attributes:
        low: lowest address of memory that is watched.
        high: end of the highest.
        key: key by which the system keeps the address of each thread's table.
        empty: address of a table that stays empty.
    """

    low: int = 0
    high: int = 8
    key: int = 16
    empty: int = 24


class Table(NamedTuple):
    """Bytes from the start of the table of a thread to its words.

    Attributes:
        used: number of runs that are kept.
        places: their numbers.
        runs: the runs.
    """

    used: int = 0
    places: int = 8
    runs: int = 8 + 8 * PLACES


class Run(NamedTuple):
    """Bytes from the start of a run to its words: rows of elements, all of one length but for the last.

    Attributes:
        text: address of the description of the access, 0 without a run.
        length: its bytes.
        item: bytes of an element.
        first: address of the first element.
        following: address of the element that would continue the last row; 0: this access is not followed any more.
        stride: bytes from an element of a row to the next.
        span: bytes from the first element of a row to behind its last one; 0: there is one row.
        rows: number of rows before the last.
        distance: bytes from a row to the next.
        at: address of the first element of the last row.
    """

    text: int = 0
    length: int = 8
    item: int = 16
    first: int = 24
    following: int = 32
    stride: int = 40
    span: int = 48
    rows: int = 56
    distance: int = 64
    at: int = 72


WATCH, TABLE, RUN = Watch(), Table(), Run()
RUN_BYTES = _WORD * len(RUN)

_watch = (ctypes.c_int64 * len(WATCH))()
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


def _new_table() -> np.ndarray[Any, Any]:
    return np.zeros((TABLE.runs + PLACES * RUN_BYTES) // _WORD, np.int64)


class _Kept:
    """The runs of one thread, which it reports before all else, or who has launched it.

    Args:
        thread: its identifier.

    Attributes:
        table: words of what machine code keeps.
        boxes: equal rows at regular distances, by the place in the program and that of the memory in `_starts`: the
            bytes of the description, those of an element, number and distance of the elements of a row, those of
            rows, address of the first element, number of such groups of rows, and their distance.
    """

    def __init__(self, thread: int) -> None:
        self.table = _new_table()
        self.boxes: dict[tuple[int, int], list[int]] = {}
        self._thread = thread
        self._places = self.table[TABLE.places // _WORD : TABLE.runs // _WORD]
        self._runs = self.table[TABLE.runs // _WORD :].reshape(PLACES, -1)

    def give(self, text: int, length: int, item: int, first: int, following: int, stride: int, *more: int) -> None:
        """Keep a run with those before it of the same access, or report these: see `Run`. Local."""
        span, rows, distance, at = more
        count, number = span // stride, (following - at) // stride
        if count:
            self._keep(text, [length, item, count, stride, rows + (number == count), distance], first)
            first = at
        if number != count:
            self._keep(text, [length, item, number, stride, 1, 0], first)

    def _keep(self, text: int, rows: list[int], first: int) -> None:
        _given[text] += 1
        if _given[text] > MOST:
            about = _described(text, rows[0])
            if _given[text] == MOST + 1 and reporter is not None:
                reporter.tell(left=f"{os.path.basename(about['file'])}:{about['line']}")
            self._leave(text, about["place"])
            return
        key = text, bisect.bisect(_starts, first)
        box = self.boxes.get(key)
        if box is not None and box[:6] == rows:
            *_, start, number, distance = box
            if number == 1:
                box[7:] = 2, first - start
                return
            if first == start + number * distance:
                box[7] = number + 1
                return
        if box is not None:
            self._report(text, box)
        self.boxes[key] = [*rows, first, 1, 0]

    def _leave(self, text: int, place: int) -> None:
        """Have compiled code not follow an access any more."""
        run = self._runs[place]
        if run[RUN.text // _WORD] == 0:
            self._places[self.table[0]] = place
            self.table[0] += 1
        run[RUN.text // _WORD], run[RUN.following // _WORD] = text, 0

    def flush(self) -> None:
        """Report all runs. Local."""
        if not self.table[0]:
            return
        places = self._places[: self.table[0]]
        followed = self._runs[places, RUN.following // _WORD] != 0
        taken, left = places[followed], places[~followed]
        runs = self._runs[taken].tolist()
        self._runs[taken, RUN.text // _WORD] = 0
        self._places[: len(left)], self.table[0] = left, len(left)
        for run in runs:
            self.give(*run)
        boxes = list(self.boxes.items())
        self.boxes.clear()
        for (text, _), box in boxes:
            self._report(text, box)

    def _report(self, text: int, kept: list[int]) -> None:
        length, item, count, stride, rows, distance, first, number, apart = kept
        axes = [(count, stride), (rows, distance), (number, apart)]
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


def _give(*run: int) -> None:
    """Take a run of the calling thread from compiled code, which calls this with the GIL."""
    _kept[threading.get_ident()].give(*run)


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


GIVE = externs.provide("touch", ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(RUN))(_give))
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
    _empty = _new_table()
    _watch[WATCH.empty // _WORD] = _empty.ctypes.data
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
