"""Shadow memory: for each word of a rank's part of a segment, who wrote it last and who has read it since.

The algorithm is FastTrack (C. Flanagan and S. Freund, FastTrack: efficient and precise dynamic race detection, PLDI
2009). An epoch is a stream, its clock at the time and a site. A word has the epoch of its last write and, as long as
they are ordered, the epoch of its last read; if reads are concurrent, the number of a set of epochs. Accesses are
boxes, so words are many and their histories few: a word is the number of its history, four bytes, and machine code
replaces numbers by those of what the access makes of them, which Python says once for each history in a box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native

STREAM_BITS, CLOCK_BITS, SITE_BITS = 14, 31, 17
CLOCK_SHIFT = 1 + SITE_BITS
STREAM_SHIFT = CLOCK_SHIFT + CLOCK_BITS
"""Places in an epoch: whether the access was atomic, the site, the clock, the stream."""
MOST_STREAMS, MOST_SITES = 1 << STREAM_BITS, 1 << SITE_BITS

BLOCK = (0, 1, 2, 3, 6, 9, 10, 11, 12)
"""Places of the arguments of the machine code: the address of the numbers of the words' histories, the first word,
words of an element, counts of three axes, their strides, the number of entries in the table and its address; then the
word whose history was not known, and that."""
_COUNTS, _STRIDES, _KNOWN, _TABLE, _AT, _OLD = 3, 6, 9, 10, 11, 12
_ENTRIES = 256
_GRANULE = 8
_MANY = 100_000
"""Histories beyond those in use at which unused ones are forgotten."""

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
    """The histories of the words of one rank's part of a segment. Local.

    Args:
        nbytes: bytes of the part.
        histories: those of all shadows.

    Attributes:
        numbers: number of the history of each word.
    """

    def __init__(self, nbytes: int, histories: Histories) -> None:
        self._nbytes, self._histories = nbytes, histories
        self._granule = _GRANULE
        self._table, self._block = np.zeros((_ENTRIES, 2), np.int64), np.zeros(16, np.int64)
        self.numbers = self._allocated(_GRANULE)

    def _allocated(self, granule: int) -> npt.NDArray[np.int32]:
        return np.zeros(-(-self._nbytes // granule), np.int32)  # pages that are never touched take no memory

    def _refine(self, granule: int) -> None:
        """Divide the words, so that elements which lie in one of them are told apart."""
        times, before = self._granule // granule, self.numbers
        self._granule, self.numbers = granule, self._allocated(granule)
        if before.any():
            self.numbers[:] = np.repeat(before, times)[: len(self.numbers)]

    def reset(self, offset: int, nbytes: int) -> None:
        """Forget all accesses to a range of bytes. Local."""
        part = slice(offset // self._granule, -(-(offset + nbytes) // self._granule))
        self.numbers[part] = 0

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
        granule, histories = self._granule, self._histories
        table, block = self._table, self._block
        block[:_COUNTS] = self.numbers.ctypes.data, offset // granule, item // granule
        block[_COUNTS:_STRIDES] = [1] * (3 - len(axes)) + [count for count, _ in axes]
        block[_STRIDES:_KNOWN] = [0] * (3 - len(axes)) + [stride // granule for _, stride in axes]
        block[_KNOWN:] = 0
        block[_TABLE] = table.ctypes.data
        while _sweep.call(block.ctypes.data):
            known, old = int(block[_KNOWN]) % _ENTRIES, int(block[_OLD])
            new, conflicts = histories.after(old, epoch, clock, write=write)
            table[known] = old, new
            block[_KNOWN] = known + 1
            found += [Conflict(before, wrote, int(block[_AT]) * granule) for before, wrote in conflicts]


class Histories:
    """The histories of words, by number: the epoch of the last write, and that of reads since. 0 is none. Local."""

    def __init__(self) -> None:
        self._sets = ReadSets()
        self._pairs: dict[int, tuple[int, int]] = {0: (0, 0)}
        self._numbers: dict[tuple[int, int], int] = {(0, 0): 0}
        self._next, self._most = 1, _MANY

    def after(self, number: int, epoch: int, clock: Clock, *, write: bool) -> tuple[int, list[tuple[Access, bool]]]:
        """Return the history of a word after an access, and what that conflicts with: see `ReadSets.after`. Local."""
        pair, conflicts = self._sets.after(*self._pairs[number], epoch, clock, write=write)
        found = self._numbers.get(pair)
        if found is None:
            found = self._numbers[pair] = self._next
            self._pairs[found] = pair
            self._next += 1
        return found, conflicts

    @property
    def are_many(self) -> bool:
        """Whether it is time to forget those that no word has."""
        return len(self._pairs) > self._most

    def keep(self, used: set[int]) -> None:
        """Forget the histories but those whose numbers are in use. Local."""
        self._pairs = {number: pair for number, pair in self._pairs.items() if number in used or number == 0}
        self._numbers = {pair: number for number, pair in self._pairs.items()}
        self._most = len(self._pairs) + _MANY
        self._sets.keep({reads for _, reads in self._pairs.values()})


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

    def keep(self, used: set[int]) -> None:
        """Forget the sets but those whose numbers are in use. Local."""
        self._sets = {number: epochs for number, epochs in self._sets.items() if number in used}
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
