"""Rings of items in memory that the ranks of a node share: many put, many take, and each sees a producer's order.

A ring has a slot for each item. The first word of a slot counts what has happened to it, four steps for each position
that it has had: free, published, withdrawn, taken. So a producer claims a position by one compare-and-swap of `TAIL`, a
consumer by one of `HEAD`, and neither waits for others that are slower. Closing is a bit of `TAIL`: no item is
published behind it. A ring without capacity has a few slots all the same; there a producer waits until its item is
taken, or withdraws it. Addresses are integers; nothing here needs Numba.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import Any

import numpy as np

from gondwana.calls import mailbox
from gondwana.compiler.native import BYTES_AT, Native
from gondwana.errors import GondwanaError
from gondwana.runtime.shared_file import ForeignFileError, SharedFile
from gondwana.teams import world

# Offsets in a ring, in bytes. What different ranks write is on different lines.
CAPACITY, STRIDE, UNBUFFERED, HEAD, TAIL, TAKERS, PUTTERS, SLOTS = 0, 8, 16, 128, 256, 384, 448, 512

# Offsets in a slot: the count of steps, the size and the tag of the item, its bytes.
STEP, LENGTH, BYTES = 0, 8, 16
SIZE_BITS = 32

# Steps of a position.
FREE, PUBLISHED, WITHDRAWN, TAKEN, STEPS = range(5)

# What a function returns instead of a position.
NOT_NOW, CLOSED = -1, -2

_LINE = 64
_HANDOVERS = 64
"""Slots of a ring without capacity: items that wait for a taker at the same time."""

_MODULE = "gondwana.tasks.item_rings_native"


class ItemRing:
    """A ring of items as this process sees it. Local.

    Args:
        capacity: items that it holds; 0: a put ends when its item is taken.
        largest: bytes of an item.
        file: where its memory is, made by another process; None: make it.

    Attributes:
        address: of the ring in this process.
        file: by which others of the node open it; None: no others are there.
        room: bytes for the word before an item and the item.
    """

    def __init__(self, capacity: int, largest: int, file: SharedFile | None = None) -> None:
        slots = capacity or _HANDOVERS
        stride = -(-(BYTES + largest) // _LINE) * _LINE
        nbytes = SLOTS + slots * stride
        self.room = LENGTH + largest
        self.file = file
        try:
            self._memory = self._create(nbytes) if file is None else _open(file, nbytes)
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
            words[[CAPACITY // 8, STRIDE // 8, UNBUFFERED // 8]] = slots, stride, capacity == 0
            words[SLOTS // 8 :: stride // 8] = STEPS * np.arange(slots)

    def _create(self, nbytes: int) -> mmap.mmap:
        if len(mailbox.own().rings.ranks) == 1:
            return mmap.mmap(-1, nbytes)
        self.file = SharedFile.create("gondwana channel", nbytes)
        self._closing = weakref.finalize(self, os.close, self.file.descriptor)
        self._closing.atexit = False  # until all ranks leave, a late peer may want to map it
        return mmap.mmap(self.file.descriptor, nbytes)


def _open(file: SharedFile, nbytes: int) -> mmap.mmap:
    descriptor = file.open()
    try:
        return mmap.mmap(descriptor, nbytes)
    finally:
        os.close(descriptor)


GONE = (ForeignFileError, FileNotFoundError)
"""What opening a ring raises whose home has let go of it."""


class Operations:
    """The machine code that works on rings, loaded at first use. Local."""

    def __init__(self) -> None:
        self.push = Native(_MODULE, "push", 3, brief=True).call
        self.pull = Native(_MODULE, "pull", 1, brief=True).call
        self.peek = Native(_MODULE, "peek", 4, brief=True).call
        self.pull_spinning = Native(_MODULE, "pull_spinning", 2).call
        self.push_soon = Native(_MODULE, "push_soon", 6).call
        self.pull_soon = Native(_MODULE, "pull_soon", 5).call
        self.taken_soon = Native(_MODULE, "taken_soon", 4).call
        self.withdraw = Native(_MODULE, "withdraw", 2, brief=True).call
        self.leave = Native(_MODULE, "leave", 4, brief=True).call
        self.close = Native(_MODULE, "close", 2, brief=True).call
        rings = mailbox.own().rings
        self.bells = rings.bells.ctypes.data
        self.bit = 1 << rings.place[world.rank] % BITS


# Offsets in the view that a process has of a ring: few arguments make a call from Python cheap.
RING, BELLS, OUT = 0, 8, 16

BITS = 62
"""Bits of the words of those who sleep; ranks of a node with the same remainder share one."""

_operations: Operations | None = None


def operations() -> Operations:
    """Return the machine code that works on rings. Local."""
    global _operations
    if _operations is None:
        _operations = Operations()
    return _operations


def address_of(data: bytes) -> int:
    """Return where bytes are, for as long as the object lives. Local."""
    return id(data) + BYTES_AT


def word_at(address: int) -> int:
    """Read a word of a ring. Local."""
    value: Any = ctypes.c_int64.from_address(address).value
    return int(value)
