"""Atomic operations on device memory: by kernels of a CUDA device, or by the rank that owns the words.

All operations on words of a CUDA device are kernels (`gpu.atomic_kernels_ptx`). A rank launches them on a device of its
own that reaches the words, if what that does is atomic for the device that has them: it is the same device, or the link
between the two sees to it. Otherwise, as between nodes, the rank asks the owner of the words, which launches the
kernel. So all ranks change a word by the same instructions, which the memory of its device performs one by one.

On devices without kernels (`gw.fake_device`) the owner takes turns: it copies the words that it has been asked for to
the host, performs the operations there, and copies the words back. What it is asked for meanwhile waits.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from gondwana.futures import DONE, Future, Promise, ready, when_all
from gondwana.gpu import atomic_kernels_ptx
from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import EventFuture, allocate
from gondwana.memory.ipc import OnDevice
from gondwana.memory.kinds import DeviceKind
from gondwana.memory.pinned import SMALL, Ring
from gondwana.memory.pointer import GlobalPtr
from gondwana.memory.segment import Segment, find
from gondwana.runtime import later
from gondwana.sync.atomic_paths import NUMBERS, OPERATIONS, Number, Processor
from gondwana.teams import world

_Array = npt.NDArray[Any]
_Words = npt.NDArray[np.int64]

_MOST = SMALL // 16
"""Words of a launch: for each there is an index and an operand in pinned memory."""

_LOAD = NUMBERS["load"]
_COMPARE_EXCHANGE = NUMBERS["compare_exchange"]

_WORD = 8
_ALL = 2**64 - 1

_CALL = "gondwana.calls.remote_calls:rpc"


class Owners:
    """Performs operations on words in device memory: a `Path`. Local.

    Args:
        dtype: of the words.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._processor = Processor(dtype)

    def perform(self, operation: str, target: GlobalPtr, operand: Number, expected: Number, fetch: bool) -> Future[Any]:
        """Start the operation: it is complete when it was performed and this rank has made progress."""
        encode, decode = self._processor.to_bits, self._processor.from_bits
        bits = (operand, expected) if encode is None else (encode(operand), encode(expected))
        near = _near(target)
        if near is not None:
            place = near.address + target.offset
            read = (decode or int) if fetch else None
            return _kernels(near.device).perform(near, operation, self._dtype, place, *bits, read)
        asked = self._ask(target, perform_here, NUMBERS[operation], target.offset // self._dtype.itemsize, *bits)
        if not fetch:
            return asked.then(lambda _: None)
        return asked if decode is None else asked.then(decode)

    def batch(self, operation: str, target: GlobalPtr, indices: _Words, operands: _Array, fetch: bool) -> Future[Any]:
        """Start the operations: they are performed in any order, also with those of others."""
        if not indices.size:
            return ready(np.empty(0, self._dtype) if fetch else None)
        bits = np.dtype(f"i{self._dtype.itemsize}")
        operands = operands.view(bits).astype(np.int64)
        near = _near(target)
        if near is not None:
            place = near.address + target.offset
            asked = _kernels(near.device).batch(near, operation, self._dtype, place, indices, operands, fetch=fetch)
        else:
            words = indices + target.offset // self._dtype.itemsize
            asked = self._ask(target, batch_here, NUMBERS[operation], words, operands)
        return asked.then(lambda olds: olds.astype(bits).view(self._dtype) if fetch else None)

    def _ask(self, target: GlobalPtr, function: Callable[..., Future[Any]], *arguments: Any) -> Future[Any]:
        segment, owner = target.segment, target.team.world_ranks[target.rank]
        if owner == world.rank:
            return function(segment, self._dtype.name, *arguments)
        asked: Future[Any] = later.find(_CALL)(owner, function, segment.key, self._dtype.name, *arguments)
        return asked


def _near(target: GlobalPtr) -> OnDevice | None:
    """The memory of a word as a device of this rank performs operations on it; None: its owner has to."""
    target.segment.check_open()
    found = target.segment.on_device(target.rank)
    return found if found is not None and found.atomic else None


class _Kernels:
    """Performs operations on words that a device reaches, after the kernels that this rank launched before. Local."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.Lock()  # while something is put on the stream, which takes several commands
        self._ring = Ring(device)
        self._scratch = allocate(device, SMALL)  # for one after the other in the order of the stream
        self._entries: dict[str, int] = {}

    def perform(
        self, near: OnDevice, operation: str, dtype: np.dtype[Any], address: int, operand: Number, expected: Number,
        decode: Callable[[int], Number] | None,
    ) -> EventFuture:  # fmt: skip
        """Start one operation; the result is what `decode` makes of the bits of the old value, None without it."""
        one = self._device
        with self._lock:
            stream, olds = one.after_kernels(), 0 if decode is None else self._scratch
            self._launch(operation, dtype, 1, stream, address, 1, 0, operand, expected, olds)
            if decode is None:
                return EventFuture(one, near)
            place, room = self._ring.take(_WORD)
            one.driver.copy(place, olds, _WORD, stream)
            done = EventFuture(one, near, lambda: decode(int(room.view(np.int64)[0])))
            self._ring.hold(done)
        return done

    def batch(
        self, near: OnDevice, operation: str, dtype: np.dtype[Any], base: int, indices: _Words, operands: _Words, *,
        fetch: bool,
    ) -> Future[_Words]:  # fmt: skip
        """Start operations on words counted from an address; the result are the old values, as bits, if `fetch`."""
        one, pieces = self._device, []
        results = np.empty(indices.size if fetch else 0, np.int64)
        for first in range(0, indices.size, _MOST):
            part = slice(first, min(first + _MOST, indices.size))
            count = part.stop - first
            with self._lock:
                place, room = self._ring.take(2 * _WORD * count)
                table, behind = room.view(np.int64), _WORD * count
                table[:count], table[count:] = indices[part], operands[part]
                stream, olds = one.after_kernels(), self._scratch + behind if fetch else 0
                one.driver.copy(self._scratch, place, 2 * behind, stream)
                self._launch(operation, dtype, count, stream, base, count, self._scratch, 0, 0, olds)
                if fetch:
                    one.driver.copy(place + behind, olds, behind, stream)
                finish = functools.partial(np.copyto, results[part], table[count:]) if fetch else None
                pieces.append(EventFuture(one, near, finish))
                self._ring.hold(pieces[-1])
        return when_all(*pieces).then(lambda _: results)

    def _launch(self, operation: str, dtype: np.dtype[Any], count: int, stream: int, *words: Number) -> None:
        one, name = self._device, atomic_kernels_ptx.name(operation, dtype.name)
        if name not in self._entries:
            module = one.driver.load(atomic_kernels_ptx.text(operation, dtype.name))
            self._entries[name] = one.driver.entry(module, name)
        threads = atomic_kernels_ptx.THREADS
        packed = b"".join((int(word) & _ALL).to_bytes(_WORD, "little") for word in words)
        one.driver.launch(self._entries[name], (-(-count // threads), 1, 1), (threads, 1, 1), 0, stream, packed)


_kernels = functools.cache(_Kernels)


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
    one = find(segment) if isinstance(segment, int) else segment
    here, kind = one.on_device(one.team.rank), np.dtype(dtype)
    if here is not None:
        place = here.address + word * kind.itemsize
        return _kernels(here.device).perform(here, OPERATIONS[number], kind, place, operand, expected, int)
    asked = _Asked(number, np.array([word]), np.array([operand]), expected)
    return _take_turn(one, kind, asked).then(lambda olds: int(olds[0]))


def batch_here(segment: Segment | int, dtype: str, number: int, words: _Words, operands: _Words) -> Future[_Words]:
    """Start an operation on each of several words of this rank's device; see `perform_here`. Local."""
    one = find(segment) if isinstance(segment, int) else segment
    here, kind = one.on_device(one.team.rank), np.dtype(dtype)
    if here is not None:
        return _kernels(here.device).batch(here, OPERATIONS[number], kind, here.address, words, operands, fetch=True)
    return _take_turn(one, kind, _Asked(number, words, operands, 0))


class _Asked(NamedTuple):
    """Operations that this rank was asked for."""

    number: int
    words: _Words
    operands: _Words
    expected: int


_last: weakref.WeakKeyDictionary[Segment, Future[Any]] = weakref.WeakKeyDictionary()
"""The last turn on this rank's part of a segment."""
_queueing = threading.Lock()  # threads of the program, and a progress thread
_processor = functools.cache(Processor)


def _take_turn(segment: Segment, dtype: np.dtype[Any], asked: _Asked) -> Future[_Words]:
    """Perform operations on words of this rank's part of a segment after those that it was asked for before."""
    promise: Promise[_Words] = Promise()
    with _queueing:
        before, _last[segment] = _last.get(segment, DONE), promise.future
    before.add_done_callback(lambda _: promise.set_result(DONE.then(lambda _: _turn(segment, dtype, asked))))
    return promise.future


def _turn(segment: Segment, dtype: np.dtype[Any], asked: _Asked) -> Future[_Words]:
    """Copy words and all between them to the host, perform operations, and copy back the words alone."""
    segment.check_open()
    kind, item = cast(DeviceKind, segment.kind), dtype.itemsize
    words = np.unique(asked.words)
    first = int(words[0])
    copy = np.empty(int(words[-1]) - first + 1, dtype)

    def perform(_: None) -> Future[_Words]:
        olds, base = np.empty(asked.words.size, np.int64), copy.ctypes.data
        places = np.ascontiguousarray(asked.words - first, np.int64)
        if asked.number == _COMPARE_EXCHANGE:
            address = base + int(places[0]) * item
            olds[0] = _processor(dtype).call(asked.number, address, int(asked.operands[0]), asked.expected)
        else:
            arrays = (array.ctypes.data for array in (places, asked.operands, olds))
            _processor(dtype).call_batch(asked.number, base, places.size, *arrays)
        rows = [] if asked.number == _LOAD else np.split(words, np.flatnonzero(np.diff(words) > 1) + 1)
        parts = ((row[0], copy[row[0] - first : row[-1] - first + 1].view(np.uint8)) for row in rows)
        return when_all(*(kind.write(part, segment.address + int(word) * item) for word, part in parts)).then(
            lambda _: olds
        )

    return kind.read(segment.address + first * item, copy.view(np.uint8)).then(perform)
