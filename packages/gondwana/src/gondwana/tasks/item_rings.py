"""Rings of items in memory that the ranks of a node share, and the packing of items into bytes.

Many put, many take, and each sees a producer's order. A ring has a slot for each item. The first word of a slot counts
its steps, four for each position that it has had: free, published, withdrawn, taken. So a producer claims a position by
one compare-and-swap of `tail`, a consumer by one of `head`, and neither waits for slower others. Closing is a bit of
`tail`: no item is published after it. A ring without capacity has a few slots all the same; there a producer waits
until its item is taken, or withdraws it. Addresses are integers; nothing here needs Numba.

Any object becomes bytes by pickling; values of a dtype are stored as in memory. The bytes of an item that does not fit
a slot lie in a sparse file of the producer, in memory. There it begins on its own page, never used before. Its consumer
frees the pages, so the file grows in size, but its memory is that of the items under way, and the producer keeps no
account of them.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import pickle
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gondwana.calls import mailbox, wire
from gondwana.compiler.native import BYTES_AT, Native
from gondwana.compiler.reports import orders
from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime import ordering, progress
from gondwana.runtime.races import reporter
from gondwana.runtime.shared_file import ForeignFileError, SharedFile
from gondwana.teams import world


class Ring(NamedTuple):
    """Places of the words of a ring [bytes]; words that different ranks write are on different lines.

    Attributes:
        capacity: number of slots.
        stride: bytes from a slot to the next.
        name: number by which a log of events knows the channel.
        unbuffered: 1 if a put ends when its item is taken, else 0.
        head: position of the next item to take.
        tail: twice the position of the next item to put; odd once the ring is closed.
        takers: bits of the ranks that may sleep until an item comes.
        putters: bits of the ranks that may sleep until a slot is free.
        slots: the first slot.
    """

    capacity: int = 0
    stride: int = 8
    unbuffered: int = 16
    name: int = 24
    head: int = 128
    tail: int = 256
    takers: int = 384
    putters: int = 448
    slots: int = 512


class Slot(NamedTuple):
    """Places in a slot [bytes]: the count of steps, the size and the tag of the item, its bytes.

    For the race detector, `room` has the name by which who puts comes behind who has taken the last item there.
    """

    step: int = 0
    length: int = 8
    bytes: int = 16 if reporter is None else 24
    room: int = 16


class Step(NamedTuple):
    """Steps of a position, and their number."""

    free: int = 0
    published: int = 1
    withdrawn: int = 2
    taken: int = 3
    all: int = 4


class View(NamedTuple):
    """Places in a process's view of a ring [bytes]: few arguments make a call from Python cheap."""

    ring: int = 0
    bells: int = 8
    order: int = 16
    out: int = 24


RING, SLOT, STEP, VIEW = Ring(), Slot(), Step(), View()
SIZE_BITS = 32

# Results of a function that has no position.
NOT_NOW, CLOSED = -1, -2

_LINE = 64
_HANDOVERS = 64
"""Slots of a ring without capacity: the most items that wait for a taker at the same time."""

_MODULE = "gondwana.tasks.item_rings_native"
_native = functools.partial(Native, _MODULE, reports=True)

PLAIN, PARTS, SIMPLE, OUTSIDE = wire.PLAIN, wire.PARTS, 2, 4
"""Tags: as for `wire`; a pickle of a builtin value; a bit: the bytes are elsewhere."""

_SIMPLE_TYPES = frozenset((int, float, bool, str, bytes, complex, type(None)))
_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip

_PAGE = mmap.PAGESIZE
_WHERE = struct.Struct("=5q")
_NAME = struct.Struct("=q")
_PUNCH_HOLE_KEEP_SIZE = 3
_MOST_OPEN = 256
"""The most files of other processes that a process keeps open."""

NBYTES = _WHERE.size
"""Bytes of the description in the slot of an item that is elsewhere."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class ItemRing:
    """A ring of items as this process sees it. Local.

    Args:
        capacity: number of items that it holds; 0: a put ends when its item is taken.
        largest: bytes of the largest item.
        file: file with its memory, made by another process; None: make it.
        name: number by which a log of events knows the channel.

    Attributes:
        address: address of the ring in this process.
        file: file by which others of the node open it; None without others.
        room: bytes for the word before an item and the item.
    """

    def __init__(self, capacity: int, largest: int, file: SharedFile | None = None, name: int = 0) -> None:
        slots = capacity or _HANDOVERS
        stride = -(-(SLOT.bytes + largest) // _LINE) * _LINE
        nbytes = RING.slots + slots * stride
        self.room = SLOT.length + largest
        self.file = file
        try:
            self._memory = self._create(nbytes) if file is None else file.map(nbytes)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise GondwanaError(
                f"no memory for a channel of {capacity} items, {nbytes} bytes: {error}; use a smaller capacity, or "
                "fewer channels at a time"
            ) from None
        words = np.frombuffer(self._memory, np.int64)
        self.address: int = words.ctypes.data
        if file is None:
            words[np.array(RING[:4]) // 8] = slots, stride, capacity == 0, name
            words[RING.slots // 8 :: stride // 8] = STEP.all * np.arange(slots)

    def _create(self, nbytes: int) -> mmap.mmap:
        if mailbox.own().rings.near == 1:
            return mmap.mmap(-1, nbytes)
        self.file = SharedFile.create("gondwana channel", nbytes)
        self._closing = weakref.finalize(self, os.close, self.file.descriptor)
        self._closing.atexit = False  # until all ranks leave, a late peer may want to map it
        return mmap.mmap(self.file.descriptor, nbytes)


GONE = (ForeignFileError, FileNotFoundError)
"""Errors of opening a ring that its home has dropped."""


class Operations:
    """The machine code that works on rings, loaded at first use. Local."""

    def __init__(self) -> None:
        self.push = _native("push", 3, brief=True).call
        self.pull = _native("pull", 1, brief=True).call
        self.peek = _native("peek", 4, brief=True).call
        self.pull_spinning = _native("pull_spinning", 2).call
        self.push_soon = _native("push_soon", 6).call
        self.pull_soon = _native("pull_soon", 5).call
        self.taken_soon = _native("taken_soon", 4).call
        self.withdraw = _native("withdraw", 2, brief=True).call
        self.leave = Native(_MODULE, "leave", 4, brief=True).call
        self.close = Native(_MODULE, "close", 2, brief=True).call
        rings = mailbox.own().rings
        self.bells = rings.bells.ctypes.data
        self.order = 0  # address of the log of events, if there is one
        self.bit = 1 << rings.place[world.rank] % BITS


class OrderedOperations(Operations):
    """The same where events are recorded, or repeated: then an attempt waits for its turn. Local.

    Args:
        log: the log of events.
    """

    def __init__(self, log: ordering.Log) -> None:
        super().__init__()
        self._log, self.order = log, log.address
        if log.replaying:
            pull, push = self._of_view(ordering.TAKE, self.pull), self._of_view(ordering.PUT, self.push)
            self.pull, self.push = self._in_step(pull), self._in_step(push)
            self.pull_spinning = self._of_view(ordering.TAKE, self.pull_spinning)
        else:
            self.pull = _native("pull_in_step", 1, brief=True).call
            self.push = _native("push_in_step", 3, brief=True).call
            self.pull_spinning = _native("pull_spinning_noted", 2).call
        self._close_ring, self.close = self.close, self._close
        self.push_soon = self._of_ring(ordering.PUT, self.push_soon)
        self.pull_soon = self._of_ring(ordering.TAKE, self.pull_soon)
        self.peek = self._of_ring(ordering.PEEK, self.peek)

    def _in_step(self, attempt: Callable[..., int]) -> Callable[..., int]:
        """Return an attempt that begins a step, as the machine code does that records."""

        def begin(*arguments: int) -> int:
            self._log.words[ordering.STEP] += ordering.TURN
            return attempt(*arguments)

        return begin

    def _of_view(self, kind: int, attempt: Callable[..., int]) -> Callable[..., int]:
        return lambda view, *others: self._attempt(kind, word_at(view + VIEW.ring), lambda: attempt(view, *others))

    def _of_ring(self, kind: int, attempt: Callable[..., int]) -> Callable[..., int]:
        return lambda ring, *others: self._attempt(kind, ring, lambda: attempt(ring, *others))

    def _attempt(self, kind: int, ring: int, attempt: Callable[[], int]) -> int:
        """Make an attempt; in a replay at its recorded position once it is due, for which other ranks may be needed."""
        log, name = self._log, word_at(ring + RING.name) & NAMES
        if not log.replaying or log.is_over():
            position = attempt()
            if position >= 0:
                log.happens(kind, name << NAME_SHIFT | position)
            return position
        while (due := log.next_of(kind)) is not None and due >> NAME_SHIFT == name:
            tail, head = word_at(ring + RING.tail), word_at(ring + RING.head)
            if due & _POSITIONS == (tail >> 1 if kind == ordering.PUT else head) and (position := attempt()) >= 0:
                log.happens(kind, due)
                return position
            _let_others_continue()
        tail, head = word_at(ring + RING.tail), word_at(ring + RING.head)
        return CLOSED if tail & 1 and (kind == ordering.PUT or tail == 2 * head + 1) else NOT_NOW

    def _close(self, ring: int, bells: int) -> int:
        """Close a ring; in a replay behind the same item."""
        log, first = self._log, word_at(ring + RING.name) & NAMES
        while log.replaying and not log.is_due(ordering.CLOSE, first << NAME_SHIFT | word_at(ring + RING.tail) >> 1):
            _let_others_continue()
        self._close_ring(ring, bells)
        log.happens(ordering.CLOSE, first << NAME_SHIFT | word_at(ring + RING.tail) >> 1)
        return 0


def _let_others_continue() -> None:
    progress.advance()
    os.sched_yield()


NAME_SHIFT = 40
NAMES, _POSITIONS = (1 << 16) - 1, (1 << NAME_SHIFT) - 1
"""The value of an event of a channel: the position in its ring, and the lowest bits of its name from the shift on."""


BITS = 62
"""Bits of the words of sleeping ranks; ranks of a node with the same remainder share one."""

_operations: Operations | None = None


def operations() -> Operations:
    """Return the machine code that works on rings. Local."""
    global _operations
    if _operations is None:
        _operations = Operations() if ordering.log is None else OrderedOperations(ordering.log)
    return _operations


def address_of(data: bytes) -> int:
    """Return the address of bytes, valid for as long as the object lives. Local."""
    return id(data) + BYTES_AT


def word_at(address: int) -> int:
    """Read a word of a ring. Local."""
    value: Any = ctypes.c_int64.from_address(address).value
    return int(value)


class Objects:
    """Items of any type that can be pickled. Local.

    Attributes:
        largest: bytes of the largest item that a slot holds.
    """

    dtype = None
    largest = 496

    def pack(self, item: Any) -> tuple[int, bytes]:
        """Return the tag and the bytes of an item.

        Raises:
            TypeError: the item cannot be pickled.
        """
        if type(item) in _SIMPLE_TYPES:
            return SIMPLE, pickle.dumps(item, 5)
        tag, parts = wire.encode(item)
        return tag, parts[0] if len(parts) == 1 else b"".join(parts)

    def unpack(self, tag: int, data: Any) -> Any:
        """Return the item; wait for an object of this rank that it refers to."""
        if tag == SIMPLE:
            return pickle.loads(data)
        try:
            return wire.decode(tag, data)
        except wire.AwaitedError:
            return self._unpack_later(tag, data)

    @staticmethod
    def _unpack_later(tag: int, data: Any) -> Any:
        found: list[Any] = []

        def ready() -> bool:
            try:
                found.append(wire.decode(tag, data))
            except wire.AwaitedError:
                return False
            return True

        progress.wait_until(ready, "an object that an item of a channel names to exist on this rank")
        return found[0]


class ReportedObjects(Objects):
    """The same where there is a race detector: an item carries the name by which its taker comes behind its putter."""

    def pack(self, item: Any) -> tuple[int, bytes]:
        """Return the tag and the bytes of an item; errors as for `Objects`."""
        return super().pack((orders.post(), item))

    def unpack(self, tag: int, data: Any) -> Any:
        """Return the item; wait for an object of this rank that it refers to."""
        name, item = super().unpack(tag, data)
        orders.take(name)
        return item


class Values:
    """Items of a dtype. Local.

    Args:
        dtype: dtype without Python objects.

    Raises:
        UsageError: the dtype contains Python objects.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        if dtype.hasobject or dtype.itemsize == 0:
            raise UsageError(f"a channel of dtype {dtype}: give one of fixed size without objects, or dtype=None")
        self.dtype = dtype
        self.largest = dtype.itemsize
        code = _CODES.get(dtype.name) if dtype.isnative and dtype.shape == () else None
        self._struct = None if code is None else struct.Struct(f"={code}")

    def pack(self, item: Any) -> tuple[int, bytes]:
        """Return the tag and the bytes of an item.

        Raises:
            TypeError: the item is not a value of the dtype.
        """
        try:
            if self._struct is not None:
                return SIMPLE, self._struct.pack(item)
            value = np.empty((), self.dtype)
            value[...] = item
            return SIMPLE, value.tobytes()
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{item!r} put into a channel of dtype {self.dtype}: {error}") from None

    def unpack(self, tag: int, data: Any) -> Any:
        """Return the item: a Python number if the dtype corresponds to one, else a scalar or an array of NumPy's."""
        if self._struct is not None:
            return self._struct.unpack_from(data)[0]
        return np.frombuffer(bytes(data[: self.dtype.itemsize]), self.dtype, 1)[0]


class ReportedValues(Values):
    """The same where there is a race detector: behind the bytes of an item, its name in one word."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self.largest += _NAME.size

    def pack(self, item: Any) -> tuple[int, bytes]:
        """Return the tag and the bytes of an item; errors as for `Values`."""
        tag, data = super().pack(item)
        return tag, data + _NAME.pack(orders.post())

    def unpack(self, tag: int, data: Any) -> Any:
        """Return the item, as `Values`."""
        orders.take(_NAME.unpack_from(data, self.dtype.itemsize)[0])
        return super().unpack(tag, data)


def items_of(dtype: np.dtype[Any] | None) -> Objects | Values:
    """Return how items of a dtype, or any objects, are packed. Local."""
    if reporter is None:
        return Objects() if dtype is None else Values(dtype)
    return ReportedObjects() if dtype is None else ReportedValues(dtype)


class _File:
    """The file of this process."""

    def __init__(self) -> None:
        self._file: SharedFile | None = None
        self._end = 0
        self._growing = threading.Lock()

    def write(self, data: Any) -> bytes:
        with self._growing:
            if self._file is None:
                self._file = SharedFile.create("gondwana items", 0)
            file, offset = self._file, self._end
            self._end += -(-len(data) // _PAGE) * _PAGE
        view, done = memoryview(data), 0
        while done < len(view):
            done += os.pwrite(file.descriptor, view[done:], offset + done)
        return _WHERE.pack(file.process, file.descriptor, file.inode, offset, len(view))


_own = _File()


def write_outside(data: Any) -> bytes:
    """Write an item; return its description. Local.

    Args:
        data: bytes of the item.

    Raises:
        OSError: there is no memory.
    """
    return _own.write(data)


def read_outside(where: Any) -> bytearray:
    """Return the bytes of an item. Local; if the item is freed meanwhile, they mean nothing."""
    process, descriptor, inode, offset, size = _WHERE.unpack_from(where)
    here = _opened(process, descriptor, inode)
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size and (count := os.preadv(here, [view[done:]], offset + done)) > 0:
        done += count
    return data


def free_outside(where: Any) -> None:
    """Free the memory of an item. Local."""
    process, descriptor, inode, offset, size = _WHERE.unpack_from(where)
    _libc.fallocate(_opened(process, descriptor, inode), _PUNCH_HOLE_KEEP_SIZE, offset, size)


@functools.lru_cache(_MOST_OPEN)
def _kept_open(process: int, descriptor: int, inode: int) -> _Descriptor:
    return _Descriptor(SharedFile(process, descriptor, inode).open())


def _opened(process: int, descriptor: int, inode: int) -> int:
    return descriptor if process == os.getpid() else _kept_open(process, descriptor, inode).number


class _Descriptor:
    """An open file, closed when nobody refers to it any more."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)
