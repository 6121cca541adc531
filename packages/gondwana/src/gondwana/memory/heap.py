"""A heap in a segment: blocks of this rank's part, allocated and freed one by one."""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

from gondwana.errors import GondwanaError, UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.memory.segment import Segment

ALIGNMENT = 64
"""Bytes to which blocks are aligned: each starts on its own cache line."""


class HeapFullError(GondwanaError, MemoryError):
    """The heap has no free block that is large enough."""


class Heap:
    """Allocates blocks of this rank's part of a segment. Local; only the owner allocates and frees.

    Other ranks receive the pointers by messages and use them as any other pointer. A reused block is not zeroed. First
    fit; adjacent free blocks are merged.

    Args:
        segment: Segment whose part of this rank is the heap; nothing else should use that part.

    Example:
        >>> import gondwana as gw
        >>> heap = gw.Heap(gw.Segment(gw.world, 1 << 20))
        >>> numbers = heap.allocate(1000, float)
        >>> numbers.room >= 1000, heap.used
        (True, 8000)
        >>> heap.free(numbers)
        >>> heap.used
        0
    """

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._taken: dict[int, int] = {}
        self._free = [(0, segment.nbytes)] if segment.nbytes else []

    def allocate(self, count: int, dtype: npt.DTypeLike = np.uint8) -> GlobalPtr:
        """Return a pointer to newly allocated memory for `count` elements. Local.

        Args:
            count: Number of elements, 0 or more.
            dtype: Type of an element.

        Raises:
            HeapFullError: no free block is large enough; the message has the sizes.
            UsageError: `count` is negative.
        """
        if count < 0:
            raise UsageError(f"allocate({count}): give 0 or more elements")
        kind = np.dtype(dtype)
        needed = max(1, -(-count * kind.itemsize // ALIGNMENT)) * ALIGNMENT
        for index, (start, length) in enumerate(self._free):
            # The last block may be shorter than its aligned size.
            if length >= max(1, count * kind.itemsize):
                taken = min(needed, length)
                self._free[index : index + 1] = [(start + taken, length - taken)] if length > taken else []
                self._taken[start] = taken
                return self.segment.pointer(None, kind, start)
        raise HeapFullError(
            f"no room for {count} elements of {kind} ({count * kind.itemsize} bytes): of {self.segment.nbytes} bytes "
            f"{self.used} are used, the largest free block has {self.largest}; make another segment, or a larger one"
        )

    def free(self, pointer: GlobalPtr) -> None:
        """Free a block. Local.

        Args:
            pointer: Result of `allocate`, of any dtype.

        Raises:
            UsageError: the pointer is not at the start of an allocated block of this heap.
        """
        mine = pointer.segment is self.segment and pointer.rank == self.segment.team.rank
        if not mine or pointer.offset not in self._taken:
            raise UsageError(
                f"{pointer!r} is not the start of an allocated block of this heap: give what allocate gave"
            )
        block = pointer.offset, self._taken.pop(pointer.offset)
        place = bisect.bisect(self._free, block)
        self._free.insert(place, block)
        for left in (place, place - 1):
            self._join(left)

    @property
    def used(self) -> int:
        """Bytes of the allocated blocks, with the padding to whole cache lines."""
        return sum(self._taken.values())

    @property
    def largest(self) -> int:
        """Bytes of the largest free block."""
        return max((length for _, length in self._free), default=0)

    def _join(self, left: int) -> None:
        """Merge the free block with index `left` and the next one, if they are adjacent."""
        if not 0 <= left < len(self._free) - 1:
            return
        (start, length), (following, more) = self._free[left : left + 2]
        if start + length == following:
            self._free[left : left + 2] = [(start, length + more)]

    def __repr__(self) -> str:
        return f"Heap({self.used} of {self.segment.nbytes} bytes used)"
