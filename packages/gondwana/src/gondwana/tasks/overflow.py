"""Items that do not fit a slot of a ring: their bytes lie in a sparse file of the producer, in memory.

Each item begins on a page of its own that was never used before. Whoever takes it frees its pages, so the file grows
in size, but its memory is that of the items under way, and the producer keeps no account of them.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from typing import Any

from gondwana.runtime.shared_file import SharedFile

_PAGE = 4096
_WHERE = struct.Struct("=5q")
_PUNCH_HOLE_KEEP_SIZE = 3
_MOST_OPEN = 256
"""Files of other processes that a process keeps open."""

NBYTES = _WHERE.size
"""Bytes of what stands in the slot instead of the item."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


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


def write(data: Any) -> bytes:
    """Write an item; return what stands for it. Local.

    Args:
        data: its bytes.

    Raises:
        OSError: there is no memory.
    """
    return _own.write(data)


def read(where: Any) -> bytearray:
    """Return the bytes of an item. Local; if the item is freed meanwhile, they mean nothing."""
    process, descriptor, inode, offset, size = _WHERE.unpack_from(where)
    here = _opened(process, descriptor, inode)
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size and (count := os.preadv(here, [view[done:]], offset + done)) > 0:
        done += count
    return data


def free(where: Any) -> None:
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
