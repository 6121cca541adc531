"""Shadow memory: for each word of a rank's part of a segment, who wrote it last and who has read it since.

The algorithm is FastTrack (C. Flanagan and S. Freund, FastTrack: efficient and precise dynamic race detection, PLDI
2009). An epoch is a stream, its clock at the time and a site. A word has the epoch of its last write and, as long as
they are ordered, the epoch of its last read; if reads are concurrent, the number of a set of epochs, which words with
the same history share. Accesses are boxes, so words are many and their histories few: machine code replaces epochs that
the accessing stream has seen, and asks Python once for each other pair of epochs in a box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native

STREAM_BITS, CLOCK_BITS, SITE_BITS = 14, 31, 17
CLOCK_SHIFT = 1 + SITE_BITS
STREAM_SHIFT = CLOCK_SHIFT + CLOCK_BITS
"""Places in an epoch: whether the access was atomic, the site, the clock, the stream."""
MOST_STREAMS, MOST_SITES = 1 << STREAM_BITS, 1 << SITE_BITS

BLOCK = (0, 1, 2, 3, 4, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18)
"""Places of the arguments of the machine code: the addresses of the epochs of writes and reads, the first word, words
of an element, counts of three axes, their strides, the address of the clock, the new epoch, whether it writes, the
number of entries in the table and its address; then the word, and its epochs, that were not known, and the row."""
_COUNTS, _STRIDES, _KNOWN, _TABLE, _AT, _OLD_W, _OLD_R, _ROW = 4, 7, 13, 14, 15, 16, 17, 18
_ENTRIES = 256
_GRANULE = 8
_MANY_SETS = 100_000

_sweep = Native("gondwana.races.shadow_native", "sweep", 1)

Clock = npt.NDArray[np.int64]


def epoch_of(stream: int, clock: int, site: int, *, atomic: bool) -> int:
    """Return an epoch. Pure."""
    return stream << STREAM_SHIFT | clock << CLOCK_SHIFT | site << 1 | atomic


class Access(NamedTuple):
    """An access as an epoch tells it.

    Attributes:
        stream: number of the stream.
        clock: its clock.
        site: number of the site.
        atomic: whether it is an atomic operation.
    """

    stream: int
    clock: int
    site: int
    atomic: bool

    @classmethod
    def of(cls, epoch: int) -> Access:
        """Return the access of an epoch. Pure."""
        return cls(
            epoch >> STREAM_SHIFT,
            epoch >> CLOCK_SHIFT & (1 << CLOCK_BITS) - 1,
            epoch >> 1 & MOST_SITES - 1,
            bool(epoch & 1),
        )


class Conflict(NamedTuple):
    """An access that a later one is not ordered behind.

    Attributes:
        before: the access that was processed first.
        wrote: whether that one wrote.
        offset: byte of the first element concerned.
    """

    before: Access
    wrote: bool
    offset: int


class Shadow:
    """The epochs of one rank's part of a segment. Local.

    Args:
        nbytes: bytes of the part.
        sets: sets of concurrent reads, of all shadows.
    """

    def __init__(self, nbytes: int, sets: ReadSets) -> None:
        self._nbytes, self._sets = nbytes, sets
        self._granule = _GRANULE
        self._table, self._block = np.zeros((_ENTRIES, 4), np.int64), np.zeros(19, np.int64)
        self._allocate(_GRANULE)

    def _allocate(self, granule: int) -> None:
        words = -(-self._nbytes // granule)
        # Pages of zeros that are never touched take no memory.
        self.writes, self.reads = np.zeros(words, np.int64), np.zeros(words, np.int64)

    def _refine(self, granule: int) -> None:
        """Divide the words, so that elements which lie in one of them are told apart."""
        times, before = self._granule // granule, (self.writes, self.reads)
        self._granule = granule
        self._allocate(granule)
        for new, old in zip((self.writes, self.reads), before, strict=True):
            if old.any():
                new[:] = np.repeat(old, times)[: len(new)]

    def reset(self, offset: int, nbytes: int) -> None:
        """Forget all accesses to a range of bytes. Local."""
        part = slice(offset // self._granule, -(-(offset + nbytes) // self._granule))
        self.writes[part] = self.reads[part] = 0

    def access(
        self, offset: int, item: int, axes: Sequence[tuple[int, int]], clock: Clock, epoch: int, *, write: bool
    ) -> list[Conflict]:
        """Note an access to elements at regular distances, and return what it conflicts with. Local.

        Args:
            offset: byte of the first element.
            item: bytes of an element.
            axes: number of elements and bytes from one to the next, for each axis.
            clock: clock of the stream.
            epoch: epoch of the access.
            write: whether it writes.
        """
        axes = _merged(item, axes)
        if axes and axes[-1][1] == item:
            item *= axes[-1][0]
            axes = axes[:-1]
        granule = math.gcd(self._granule, offset, item, *(stride for _, stride in axes))
        if granule < self._granule:
            self._refine(granule)
        found: list[Conflict] = []
        outer, inner = axes[:-3], axes[-3:]
        for index in np.ndindex(*(count for count, _ in outer)):
            start = offset + sum(i * stride for i, (_, stride) in zip(index, outer, strict=True))
            self._sweep(start, item, inner, clock, epoch, write, found)
        return found

    def _sweep(
        self,
        offset: int,
        item: int,
        axes: Sequence[tuple[int, int]],
        clock: Clock,
        epoch: int,
        write: bool,
        found: list[Conflict],
    ) -> None:
        granule = self._granule
        table, block = self._table, self._block
        block[_ROW] = 0
        block[:4] = self.writes.ctypes.data, self.reads.ctypes.data, offset // granule, item // granule
        block[_COUNTS:_STRIDES] = [1] * (3 - len(axes)) + [count for count, _ in axes]
        block[_STRIDES:10] = [0] * (3 - len(axes)) + [stride // granule for _, stride in axes]
        block[10:_AT] = clock.ctypes.data, epoch, write, 0, table.ctypes.data
        while _sweep.call(block.ctypes.data):
            known = int(block[_KNOWN]) % _ENTRIES
            pair = int(block[_OLD_W]), int(block[_OLD_R])
            new, conflicts = self._sets.after(*pair, epoch, clock, write=write)
            table[known] = *pair, *new
            block[_KNOWN] = known + 1
            found += [Conflict(before, wrote, int(block[_AT]) * granule) for before, wrote in conflicts]


class ReadSets:
    """Sets of epochs of reads that are concurrent, by negative numbers in the place of an epoch. Local."""

    def __init__(self) -> None:
        self._numbers: dict[frozenset[int], int] = {}
        self._sets: dict[int, frozenset[int]] = {}
        self._next = 0

    def after(
        self, write_epoch: int, read_epoch: int, epoch: int, clock: Clock, *, write: bool
    ) -> tuple[tuple[int, int], list[tuple[Access, bool]]]:
        """Return the new epochs of a word, and the accesses that a new one conflicts with, which wrote or read. Local.

        Args:
            write_epoch: epoch of its last write, 0 without one.
            read_epoch: epoch, or number of the set, of its reads since, 0 without any.
            epoch: epoch of the new access.
            clock: clock of the accessing stream.
            write: whether it writes.
        """
        atomic = epoch & 1
        reads = self._sets[read_epoch] if read_epoch < 0 else frozenset([read_epoch] if read_epoch else ())

        def conflicts(before: int) -> bool:
            return not (atomic and before & 1) and not is_seen(before, clock)

        found = [(Access.of(write_epoch), True)] if write_epoch and conflicts(write_epoch) else []
        if write:
            return (epoch, 0), found + [(Access.of(before), False) for before in sorted(reads) if conflicts(before)]
        kept = frozenset(before for before in reads if not is_seen(before, clock)) | {epoch}
        return (write_epoch, self._number(kept) if len(kept) > 1 else epoch), found

    def _number(self, epochs: frozenset[int]) -> int:
        found = self._numbers.get(epochs)
        if found is None:
            self._next -= 1
            found = self._numbers[epochs] = self._next
            self._sets[found] = epochs
        return found

    @property
    def are_many(self) -> bool:
        """Whether it is time to forget those that no word has."""
        return len(self._sets) > _MANY_SETS

    def keep(self, used: Callable[[], set[int]]) -> None:
        """Forget the sets but those whose numbers are in use. Local."""
        numbers = used()
        self._sets = {number: epochs for number, epochs in self._sets.items() if number in numbers}
        self._numbers = {epochs: number for number, epochs in self._sets.items()}


def is_seen(epoch: int, clock: Clock) -> bool:
    """Return whether a stream of this clock comes behind an epoch. Pure."""
    access = Access.of(epoch)
    return bool(access.clock <= clock[access.stream])


def _merged(item: int, axes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The axes of the same elements, the largest distance first, those without gaps between them as one."""
    merged: list[tuple[int, int]] = []
    for count, stride in sorted((axis for axis in axes if axis[0] != 1), key=lambda axis: -abs(axis[1])):
        if merged and merged[-1][1] == count * stride:
            merged[-1] = merged[-1][0] * count, stride
        else:
            merged.append((count, stride))
    return merged
