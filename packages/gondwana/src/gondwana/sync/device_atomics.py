"""Atomic operations on device memory: the rank that owns a word performs them, whoever asks for them.

Neither the processor nor MPI has atomic operations on the memory of every device, and devices of several ranks need not
have any with respect to each other. So the owner takes turns: it copies the words of all operations that it has been
asked for to the host, performs the operations there, one after the other, and copies the words back. What it is asked
for meanwhile waits for the next turn.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from gondwana.futures import DONE, Future, Promise, ready, when_all
from gondwana.memory.kinds import Bytes, DeviceKind
from gondwana.memory.pinned import pin
from gondwana.memory.pointer import GlobalPtr
from gondwana.memory.segment import Segment, find
from gondwana.runtime import later
from gondwana.sync.atomic_paths import NUMBERS, Number, Processor
from gondwana.teams import world

_Array = npt.NDArray[Any]
_Words = npt.NDArray[np.int64]

_NEAR = 4096
"""Bytes between two words up to which one copy reads them both: a copy costs more than the bytes."""

_PINNED = 8192
"""Bytes of pinned memory for the words of a turn. A copy from or to other memory may keep this rank until its kernels
are done."""

_LOAD = NUMBERS["load"]
_COMPARE_EXCHANGE = NUMBERS["compare_exchange"]

_CALL = "gondwana.calls.remote_calls:rpc"


class Owners:
    """Performs operations on words in device memory by asking their owners: a `Path`. Local.

    Args:
        dtype: of the words.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._processor = Processor(dtype)

    def perform(self, operation: str, target: GlobalPtr, operand: Number, expected: Number, fetch: bool) -> Future[Any]:
        """Start the operation: it is complete when its owner has performed it and this rank has made progress."""
        encode, decode = self._processor.to_bits, self._processor.from_bits
        bits = (operand, expected) if encode is None else (encode(operand), encode(expected))
        asked = self._ask(target, perform_here, NUMBERS[operation], target.offset // self._dtype.itemsize, *bits)
        if not fetch:
            return asked.then(lambda _: None)
        return asked if decode is None else asked.then(decode)

    def batch(self, operation: str, target: GlobalPtr, indices: _Words, operands: _Array, fetch: bool) -> Future[Any]:
        """Start the operations: the owner performs them in one turn, in any order with those of others."""
        if not indices.size:
            return ready(np.empty(0, self._dtype) if fetch else None)
        bits = np.dtype(f"i{self._dtype.itemsize}")
        words = indices + target.offset // self._dtype.itemsize
        asked = self._ask(target, batch_here, NUMBERS[operation], words, operands.view(bits).astype(np.int64))
        return asked.then(lambda olds: olds.astype(bits).view(self._dtype) if fetch else None)

    def _ask(self, target: GlobalPtr, function: Callable[..., Future[Any]], *arguments: Any) -> Future[Any]:
        segment, owner = target.segment, target.team.world_ranks[target.rank]
        segment.check_open()
        if owner == world.rank:
            return function(segment, self._dtype.name, *arguments)
        asked: Future[Any] = later.find(_CALL)(owner, function, segment.key, self._dtype.name, *arguments)
        return asked


def perform_here(
    segment: Segment | int, dtype: str, number: int, word: int, operand: int, expected: int
) -> Future[int]:
    """Start one operation on a word of this rank's device and return the future of its old value, as bits. Local.

    Args:
        segment: where the word lies, or the key of that segment.
        dtype: of the words.
        number: of the operation.
        word: which, counted from the start of this rank's part.
        operand: the bits of the operand.
        expected: the bits of the value with which the word is compared.
    """
    asked = _Asked(number, np.array([word]), np.array([operand]), expected)
    return _take_turn(segment, dtype, asked).then(lambda olds: int(olds[0]))


def batch_here(segment: Segment | int, dtype: str, number: int, words: _Words, operands: _Words) -> Future[_Words]:
    """Start an operation on each of several words of this rank's device; see `perform_here`. Local."""
    return _take_turn(segment, dtype, _Asked(number, words, operands, 0))


class _Asked(NamedTuple):
    """Operations that this rank was asked for."""

    number: int
    words: _Words
    operands: _Words
    expected: int


class _Turns:
    """The turns in which this rank performs operations on words of one dtype in its part of a segment."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._processor = Processor(dtype)
        self._waiting: list[tuple[_Asked, Promise[_Words]]] = []
        self._segment: Segment | None = None  # while there is something to do, so that it stays allocated
        self._pinned: Bytes | None = None
        self._lock = threading.Lock()  # threads of the program, and a progress thread

    def add(self, segment: Segment, asked: _Asked) -> Future[_Words]:
        """Have operations performed in the next turn; return the future of the old values, as bits. Local."""
        promise: Promise[_Words] = Promise()
        with self._lock:
            self._waiting.append((asked, promise))
            idle, self._segment = self._segment is None, segment
        if idle:
            self._begin()
        return promise.future

    def _begin(self) -> None:
        with self._lock:
            taken, self._waiting = self._waiting, []
            segment = self._segment
            if not taken:
                self._segment = None
        if not taken or segment is None:
            return
        turn: Future[list[_Words]] = DONE.then(lambda _: self._turn(segment, [asked for asked, _ in taken]))
        turn.add_done_callback(lambda done: self._end(taken, done))

    def _end(self, taken: list[tuple[_Asked, Promise[_Words]]], turn: Future[list[_Words]]) -> None:
        """Settle what a turn was for, and begin the next one."""
        error = turn.exception()
        for place, (_, promise) in enumerate(taken):
            if error is not None:
                promise.set_exception(error)
            else:
                promise.set_result(turn.result()[place])
        self._begin()

    def _turn(self, segment: Segment, operations: list[_Asked]) -> Future[list[_Words]]:
        """Start to perform operations; return the future of the old values of each."""
        segment.check_open()
        words = np.unique(np.concatenate([asked.words for asked in operations]))
        copy = _HostCopy(segment, self._dtype, words, lambda nbytes: self._room(segment, nbytes))

        def perform(_: Any) -> Future[list[_Words]]:
            results = [self._perform(asked, copy) for asked in operations]
            changed = [asked.words for asked in operations if asked.number != _LOAD]
            return copy.write(np.unique(np.concatenate(changed)) if changed else None).then(lambda _: results)

        return copy.read().then(perform)

    def _room(self, segment: Segment, nbytes: int) -> Bytes:
        """Return host memory for a turn, the same for all in which it suffices: one follows the other."""
        device = segment.kind.device
        if device is None or nbytes > _PINNED:
            return np.empty(nbytes, np.uint8)
        if self._pinned is None:
            mapping = mmap.mmap(-1, _PINNED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._pinned = np.frombuffer(mapping, np.uint8)
            pin(self._pinned, device)
        return self._pinned[:nbytes]

    def _perform(self, asked: _Asked, copy: _HostCopy) -> _Words:
        """Perform operations on the copy of their words; return the old values, as bits."""
        places, olds = copy.places(asked.words), np.empty(asked.words.size, np.int64)
        base = copy.memory.ctypes.data
        if asked.number == _COMPARE_EXCHANGE:
            address = base + int(places[0]) * self._dtype.itemsize
            olds[0] = self._processor.call(asked.number, address, int(asked.operands[0]), asked.expected)
        else:
            arrays = (array.ctypes.data for array in (places, asked.operands, olds))
            self._processor.call_batch(asked.number, base, places.size, *arrays)
        return olds


class _HostCopy:
    """Host memory for some words of this rank's device: those that are near each other, with what is between them.

    Args:
        segment: where they lie.
        dtype: of the words.
        words: which, counted from the start of this rank's part; sorted, each once.
        room: returns so many bytes of host memory.

    Attributes:
        memory: where their values are.
    """

    def __init__(self, segment: Segment, dtype: np.dtype[Any], words: _Words, room: Callable[[int], Bytes]) -> None:
        self._segment, self._item = segment, dtype.itemsize
        self._firsts, lasts = _rows(words, _NEAR // dtype.itemsize)
        counts = lasts - self._firsts + 1
        self._starts = np.cumsum(counts) - counts
        self._counts = counts
        self.memory = room(int(counts.sum()) * dtype.itemsize).view(dtype)

    def places(self, words: _Words) -> _Words:
        """Return where in `memory` words are."""
        row = np.searchsorted(self._firsts, words, "right") - 1
        return np.ascontiguousarray(self._starts[row] + words - self._firsts[row], np.int64)

    def read(self) -> Future[Any]:
        """Start to copy the words here."""
        kind = cast(DeviceKind, self._segment.kind)
        rows = self._parts(self._firsts, self._counts)
        return when_all(*(kind.read(address, part) for address, part in rows))

    def write(self, words: _Words | None) -> Future[Any]:
        """Start to copy some of the words back, and nothing else."""
        if words is None:
            return ready(None)
        kind = cast(DeviceKind, self._segment.kind)
        firsts, lasts = _rows(words, 1)
        return when_all(*(kind.write(part, address) for address, part in self._parts(firsts, lasts - firsts + 1)))

    def _parts(self, firsts: _Words, counts: _Words) -> Iterator[tuple[int, Bytes]]:
        """The address and the copy of each of some rows."""
        copy, item = self.memory.view(np.uint8), self._item
        for first, count, place in zip(firsts.tolist(), counts.tolist(), self.places(firsts).tolist(), strict=True):
            yield self._segment.address + first * item, copy[place * item : (place + count) * item]


def _rows(words: _Words, near: int) -> tuple[_Words, _Words]:
    """Return the first and the last word of each row in which successive words are at most so far from each other."""
    ends = np.flatnonzero(np.diff(words) > near)
    return words[np.concatenate([[0], ends + 1])], words[np.concatenate([ends, [words.size - 1]])]


_of_segments: weakref.WeakKeyDictionary[Segment, dict[str, _Turns]] = weakref.WeakKeyDictionary()
_finding = threading.Lock()


def _take_turn(segment: Segment | int, dtype: str, asked: _Asked) -> Future[_Words]:
    """Perform operations in the next turn of words of that dtype in this rank's part of a segment."""
    one = find(segment) if isinstance(segment, int) else segment
    with _finding:
        by_dtype = _of_segments.setdefault(one, {})
        turns = by_dtype.get(dtype) or by_dtype.setdefault(dtype, _Turns(np.dtype(dtype)))
    return turns.add(one, asked)
