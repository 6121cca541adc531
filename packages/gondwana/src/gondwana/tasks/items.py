"""How items of remote channels become bytes, and where those lie that do not fit a slot of a ring.

Any object becomes bytes by pickling; values of a dtype are as they are in memory. The bytes of a large item lie in a
sparse file of the producer, in memory. There it begins on a page of its own that was never used before. Whoever takes
it frees its pages, so the file grows in size, but its memory is that of the items under way, and the producer keeps no
account of them.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import struct
import threading
from typing import Any

import numpy as np

from gondwana.calls import endpoints, wire
from gondwana.errors import UsageError
from gondwana.runtime import progress
from gondwana.runtime.shared_file import SharedFile

PLAIN, PARTS, SIMPLE, OUTSIDE = wire.PLAIN, wire.PARTS, 2, 4
"""Tags: as for `wire`; a pickle of a builtin value; a bit: the bytes are elsewhere."""

_SIMPLE_TYPES = frozenset((int, float, bool, str, bytes, complex, type(None)))
_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip

_PAGE = 4096
_WHERE = struct.Struct("=5q")
_PUNCH_HOLE_KEEP_SIZE = 3
_MOST_OPEN = 256
"""Files of other processes that a process keeps open."""

NBYTES = _WHERE.size
"""Bytes of what stands in the slot instead of the item."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Objects:
    """Items of any type that can be pickled. Local.

    Attributes:
        largest: bytes of an item that a slot holds.
    """

    dtype = None
    largest = 496

    def pack(self, item: Any) -> tuple[int, bytes]:
        """Return the tag and the bytes of an item.

        Raises:
            TypeError: it cannot be pickled.
        """
        if type(item) in _SIMPLE_TYPES:
            return SIMPLE, pickle.dumps(item, 5)
        tag, parts = wire.encode(item)
        return tag, parts[0] if len(parts) == 1 else b"".join(parts)

    def unpack(self, tag: int, data: Any) -> Any:
        """Return the item; wait for an object of this rank that it names."""
        if tag == SIMPLE:
            return pickle.loads(data)
        try:
            return wire.decode(tag, data)
        except endpoints.AwaitedError:
            return self._unpack_later(tag, data)

    @staticmethod
    def _unpack_later(tag: int, data: Any) -> Any:
        found: list[Any] = []

        def ready() -> bool:
            try:
                found.append(wire.decode(tag, data))
            except endpoints.AwaitedError:
                return False
            return True

        progress.wait_until(ready, "an object that an item of a channel names to exist on this rank")
        return found[0]


class Values:
    """Items of a dtype. Local.

    Args:
        dtype: without Python objects.

    Raises:
        UsageError: it has such.
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
            TypeError: it is no value of the dtype.
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
        """Return the item: a number of Python's where it has such, else a scalar or an array of NumPy's."""
        if self._struct is not None:
            return self._struct.unpack_from(data)[0]
        return np.frombuffer(bytes(data[: self.largest]), self.dtype, 1)[0]


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
    """Write an item; return what stands for it. Local.

    Args:
        data: its bytes.

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
