"""The storage of emulated devices: one file in memory for each process, which others map too."""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
import weakref

import numpy as np

from gondwana.runtime.shared_file import SharedFile

RUBBISH = 0xDB
"""The byte of uninitialised memory."""

_MOST_RUBBISH = 64 << 20
"""The most bytes of an allocation that are filled; more would only take time."""
_KEPT = 1 << 20
"""Bytes of freed memory that are overwritten with garbage; the rest is returned to the system."""


class View:
    """A file that is mapped in this process at `base`."""

    def __init__(self, descriptor: int, nbytes: int) -> None:
        self.mapping = mmap.mmap(descriptor, nbytes)
        self.base: int = np.frombuffer(self.mapping, np.uint8).ctypes.data


class Arena:
    """A file of this process that is allocated in pieces."""

    def __init__(self, nbytes: int) -> None:
        self.file = SharedFile.create("gondwana-emulated-gpu", nbytes)
        weakref.finalize(self, os.close, self.file.descriptor)
        self.view = View(self.file.descriptor, nbytes)
        self.nbytes = nbytes
        self._holes = [(0, nbytes)]

    def take(self, nbytes: int) -> int:
        """Return the offset of a piece, filled with garbage.

        Raises:
            MemoryError: no piece is large enough.
        """
        nbytes = _whole_pages(nbytes)
        for place, (start, size) in enumerate(self._holes):
            if size >= nbytes:
                self._holes[place : place + 1] = [(start + nbytes, size - nbytes)] if size > nbytes else []
                ctypes.memset(self.view.base + start, RUBBISH, min(nbytes, _MOST_RUBBISH))
                return start
        raise MemoryError(f"the emulated GPU has no {nbytes} bytes of memory in one piece")

    def give(self, start: int, nbytes: int) -> None:
        """Free a piece; later reads of it give garbage."""
        nbytes = _whole_pages(nbytes)
        kept = min(nbytes, _KEPT)
        ctypes.memset(self.view.base + start, RUBBISH, kept)
        if nbytes > kept:
            self.view.mapping.madvise(mmap.MADV_REMOVE, start + kept, nbytes - kept)
        place = bisect.bisect(self._holes, (start, 0))
        self._holes.insert(place, (start, nbytes))
        for left in (place, place - 1):
            if 0 <= left < len(self._holes) - 1 and sum(self._holes[left]) == self._holes[left + 1][0]:
                self._holes[left : left + 2] = [(self._holes[left][0], self._holes[left][1] + self._holes[left + 1][1])]


def _whole_pages(nbytes: int) -> int:
    return -(-max(nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
