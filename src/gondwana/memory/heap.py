"""A heap in a segment: pieces of this rank's part, allocated and freed one by one."""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

from gondwana.errors import GondwanaError, UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.memory.segment import Segment

ALIGNMENT = 64
"""Every piece starts on a cache line of its own, in bytes."""


class HeapFullError(GondwanaError, MemoryError):
    """The part of a segment has no free piece that is large enough."""


class Heap:
    """Hands out pieces of this rank's part of a segment. Local; the owner alone allocates and frees.

    Other ranks get the pointers by messages and use them as any other. A piece is not zeroed when it is handed out
    again. First fit; free neighbours are joined.

    Args:
        segment: whose part of this rank is the heap; nothing else should use that part.

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
        """Return a pointer to `count` elements that nobody else uses. Local.

        Args:
            count: elements, 0 or more.
            dtype: type of an element.

        Raises:
            HeapFullError: no free piece is large enough; the message says what there is.
            UsageError: `count` is negative.
        """
        if count < 0:
            raise UsageError(f"allocate({count}): give 0 or more elements")
        kind = np.dtype(dtype)
        needed = max(1, -(-count * kind.itemsize // ALIGNMENT)) * ALIGNMENT
        for index, (start, length) in enumerate(self._free):
            # The end of the part need not fill a line.
            if length >= max(1, count * kind.itemsize):
                taken = min(needed, length)
                self._free[index : index + 1] = [(start + taken, length - taken)] if length > taken else []
                self._taken[start] = taken
                return self.segment.pointer(None, kind, start)
        raise HeapFullError(
            f"no room for {count} elements of {kind} ({count * kind.itemsize} bytes): of {self.segment.nbytes} bytes "
            f"{self.used} are used, the largest free piece has {self.largest}; make another segment, or a larger one"
        )

    def free(self, pointer: GlobalPtr) -> None:
        """Give a piece back. Local.

        Args:
            pointer: what `allocate` returned, of any dtype.

        Raises:
            UsageError: it is not the start of a piece of this heap that is in use.
        """
        mine = pointer.segment is self.segment and pointer.rank == self.segment.team.rank
        if not mine or pointer.offset not in self._taken:
            raise UsageError(f"{pointer!r} is not the start of a piece of this heap that is in use")
        piece = pointer.offset, self._taken.pop(pointer.offset)
        place = bisect.bisect(self._free, piece)
        self._free.insert(place, piece)
        for left in (place, place - 1):
            self._join(left)

    @property
    def used(self) -> int:
        """Bytes of the pieces in use, with what fills up their last cache lines."""
        return sum(self._taken.values())

    @property
    def largest(self) -> int:
        """Bytes of the largest free piece."""
        return max((length for _, length in self._free), default=0)

    def _join(self, left: int) -> None:
        """Make one free piece of number `left` and the next, if they touch."""
        if not 0 <= left < len(self._free) - 1:
            return
        (start, length), (following, more) = self._free[left : left + 2]
        if start + length == following:
            self._free[left : left + 2] = [(start, length + more)]

    def __repr__(self) -> str:
        return f"Heap({self.used} of {self.segment.nbytes} bytes used)"
