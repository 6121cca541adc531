"""Runs of elements at any places, of one length or of any lengths, as ends of copies.

A copy between runs of any lengths is made of copies of single runs and of runs of one length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.box import StridedBox, contiguous_strides, moved
from gondwana.transfer.host_copies import CopyTable, table_of_runs

_LONG = 1024
"""Bytes from which a piece is copied by itself where several ways lead: so that it goes through an MPI window."""

Indices = npt.NDArray[np.int64]


class Runs(StridedBox):
    """Runs of elements somewhere, one after the other: one end of a copy. Local; never changes.

    With runs of one length it is a box of two axes, runs and elements of a run. With a length for each run it is a box
    of one axis.

    Args:
        pointer: Pointer to the element with the index 0; None for private memory.
        memory: Memory that the indices count in, if loads and stores of this rank reach it.
        dtype: Type of an element.
        starts: Index of the first element of each run.
        lengths: Elements of every run, or of each.
        step: Bytes from one index to the next.
    """

    __slots__ = ("_step", "lengths", "starts")

    def __init__(
        self,
        pointer: GlobalPtr | None,
        memory: npt.NDArray[Any] | None,
        dtype: np.dtype[Any],
        starts: Indices,
        lengths: int | Indices,
        step: int,
    ) -> None:
        shape = (len(starts), lengths) if isinstance(lengths, int) else (int(lengths.sum()),)
        super().__init__(pointer, memory, dtype, shape, ())
        self.starts = starts
        self.lengths = lengths
        self._step = step

    @classmethod
    def within(cls, end: GlobalPtr | npt.NDArray[Any], indices: npt.ArrayLike, lengths: int | npt.ArrayLike) -> Runs:
        """Return runs of what a pointer or an ndarray of one axis leads to. Local.

        Raises:
            UsageError: the indices or the lengths are not lists of integers of one size, a length is too small, or some
                run lies outside.
        """
        starts, counts = as_indices(indices, "indices"), _legal_lengths(lengths)
        if not isinstance(counts, int):
            if starts.size != counts.size:
                raise UsageError(f"{starts.size} indices and {counts.size} lengths: give one length for each index")
            starts, counts = starts[counts > 0], counts[counts > 0]
        low, high = (int(starts.min()), int((starts + counts).max())) if starts.size else (0, 0)
        pointer, memory, first = reached(end, low, high)
        return cls(pointer, memory, end.dtype, starts - first, counts, step_in(memory, end.dtype))

    @classmethod
    def along(cls, pointer: GlobalPtr, starts: Indices, lengths: int | Indices, step: int) -> Runs:
        """Return runs of elements at a distance of `step` bytes from each other. Local.

        Raises:
            UsageError: some run lies outside the segment.
        """
        count = int((starts + lengths).max()) if starts.size else 0
        return cls(pointer, StridedBox.at(pointer, (count,), (step,)).memory, pointer.dtype, starts, lengths, step)

    def of_lengths(self, lengths: int | Indices, starts: Indices) -> Runs:
        """Return other runs of the same elements. Local, unchecked."""
        return Runs(self.pointer, self.memory, self.dtype, starts, lengths, self._step)

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """Strides of the same elements without gaps."""
        return contiguous_strides(self.shape, self.dtype.itemsize)

    @property
    def item_stride(self) -> int:
        """Bytes from one element to the next in a run."""
        return self._step

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie without gaps: never to be relied on."""
        return False

    def part(self, starts: tuple[int, ...], shape: tuple[int, ...]) -> Runs:
        """Return some of the elements. Local, unchecked. Arguments as for `StridedBox.part`."""
        if isinstance(self.lengths, int):
            first, inside = starts
            return self.of_lengths(shape[1], self.starts[first : first + shape[0]] + inside)
        ends = np.cumsum(self.lengths)
        low = np.clip(starts[0] - (ends - self.lengths), 0, self.lengths)
        high = np.clip(starts[0] + shape[0] - (ends - self.lengths), 0, self.lengths)
        kept = high > low
        return self.of_lengths((high - low)[kept], (self.starts + low)[kept])

    def in_chunks_of(self, other: StridedBox) -> StridedBox:
        """Return the same elements as a box of one axis, if the other end has as many in runs of any lengths. Local."""
        if is_irregular(self, other) and isinstance(self.lengths, int) and self.size == other.size:
            return self.of_lengths(np.full(len(self.starts), self.lengths), self.starts)
        return self

    def load(self) -> npt.NDArray[Any]:
        """Return the elements, of runs of one length, from memory in reach. Local."""
        assert self.memory is not None
        return self.memory[self._each()]

    def store(self, data: npt.NDArray[Any]) -> None:
        """Set the elements, of runs of one length, in memory in reach. Local."""
        assert self.memory is not None
        self.memory[self._each()] = data

    def offsets(self) -> Indices:
        """Return the bytes from the pointer to each run. Local."""
        return self.starts * self._step

    def of_bytes(self) -> NoReturn:
        """Refuse: runs of such large elements are not cut. Local."""
        raise UsageError(f"an indexed copy of elements of {self.dtype.itemsize} bytes that must be cut into pieces")

    def _each(self) -> Indices:
        return self.starts[:, None] + np.arange(self.shape[1])

    def __repr__(self) -> str:
        where = "private memory" if self.pointer is None else repr(self.pointer)
        if isinstance(self.lengths, int):
            return f"{self.shape[0]} chunks of {self.lengths} elements of {where}"
        return f"{len(self.starts)} pieces of {self.shape[0]} elements of {where}"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.pointer is None:
            raise TypeError("private memory cannot be named to another rank")
        return Runs.along, (self.pointer, self.starts, self.lengths, self._step)


class Fragments(NamedTuple):
    """The longest runs of elements that are one piece at both ends.

    Attributes:
        sources: Index of the first element of each in the source.
        targets: The same in the target.
        lengths: Elements of each.
    """

    sources: Indices
    targets: Indices
    lengths: Indices

    @classmethod
    def of(cls, source: StridedBox, target: StridedBox) -> Fragments:
        """Return those of two ends with as many elements, of which one is irregular. Local."""
        (from_starts, from_lengths), (to_starts, to_lengths) = _pieces(source), _pieces(target)
        from_ends, to_ends = np.cumsum(from_lengths), np.cumsum(to_lengths)
        ends = np.union1d(from_ends, to_ends)
        lengths = np.diff(ends, prepend=0)
        first = ends - lengths
        sources = _at(from_starts, from_lengths, from_ends, first)
        return cls(sources, _at(to_starts, to_lengths, to_ends, first), lengths)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Fragments:
        """Return some of them. Local."""
        return Fragments(*(numbers[which] for numbers in self))


def table_between(source: StridedBox, target: StridedBox) -> CopyTable | None:
    """Return the copy between memory in reach as a table, None if one end has gaps between elements. Local."""
    for box in (source, target):
        if box.memory is None or (box.memory.ndim != 1 or box.memory.strides != (box.dtype.itemsize,)):
            return None
    item, fragments = source.dtype.itemsize, Fragments.of(source, target)
    sources, targets = source.address + fragments.sources * item, target.address + fragments.targets * item
    return table_of_runs(sources, targets, fragments.lengths * item)


def parts(source: StridedBox, target: StridedBox) -> Iterator[tuple[StridedBox, StridedBox]]:
    """Return copies of other boxes that together are one with an irregular end. Local; an empty one has none.

    Long pieces are boxes of their own. All short ones together are chunks of one length.
    """
    if source.size == 0:
        return
    fragments = Fragments.of(source, target)
    long = fragments.lengths * source.dtype.itemsize >= _LONG
    for first, second, count in zip(*(numbers.tolist() for numbers in fragments.chosen(long)), strict=True):
        yield _row(source, first, count), _row(target, second, count)
    short = fragments.chosen(~long)
    if short.lengths.size:
        length = int(np.gcd.reduce(short.lengths))
        counts = short.lengths // length
        yield (
            _chunks(source, _each(short.sources, counts, length), length),
            _chunks(target, _each(short.targets, counts, length), length),
        )


def _pieces(box: StridedBox) -> tuple[Indices, Indices]:
    """Starts and lengths of the pieces of an end of one axis."""
    if isinstance(box, Runs):
        return box.starts, np.broadcast_to(box.lengths, box.starts.shape)
    return np.zeros(1, np.int64), np.array(box.shape, np.int64)


def _at(starts: Indices, lengths: Indices, ends: Indices, first: Indices) -> Indices:
    """The places of elements that have the numbers `first` in a list of pieces."""
    piece = np.searchsorted(ends, first, "right")
    return starts[piece] + first - (ends - lengths)[piece]


def _row(box: StridedBox, start: int, count: int) -> StridedBox:
    """Elements at equal distances of what the places of an end count in."""
    step = box.item_stride
    memory = None if box.memory is None else box.memory[start : start + count]
    pointer = None if box.pointer is None else moved(box.pointer, start * step)
    return StridedBox(pointer, memory, box.dtype, (count,), (step,))


def _chunks(box: StridedBox, starts: Indices, length: int) -> Runs:
    """Chunks of what the places of an end count in."""
    return Runs(box.pointer, box.memory, box.dtype, starts, length, box.item_stride)


def _each(starts: Indices, counts: Indices, step: int) -> Indices:
    """The places of all chunks of pieces.

    Args:
        starts: Starts of the pieces.
        counts: Chunks of each piece.
        step: Elements of a chunk.
    """
    before = np.cumsum(counts) - counts
    return np.repeat(starts - step * before, counts) + step * np.arange(int(counts.sum()), dtype=np.int64)


def is_irregular(source: StridedBox, target: StridedBox) -> bool:
    """Return whether an end of a copy has a length for each run. Local."""
    one = isinstance(source, Runs) and not isinstance(source.lengths, int)
    return one or (isinstance(target, Runs) and not isinstance(target.lengths, int))


def indexed(end: GlobalPtr | npt.NDArray[Any], indices: npt.ArrayLike, length: npt.ArrayLike = 1) -> Runs:
    """Return pieces at any places, as an end of `gw.plan` and `gw.copy`. Local.

    The other end has as many elements, without gaps: they are gathered or scattered. Or it is indexed too, in pieces of
    the same lengths or of others: the elements of all its pieces, one after the other, correspond to those of this one.

    Args:
        end: Global pointer, or an ndarray of one axis.
        indices: Index of the first element of each piece, counted from `end`. Pieces of a destination must not
            overlap, or what they hold in common is undefined; those of a source may.
        length: Elements of every piece, 1 or more; or a list with the elements of each, 0 or more.

    Raises:
        UsageError: the indices or the lengths are not lists of integers of one size, or some piece lies outside.

    Example:
        >>> import gondwana as gw
        >>> import numpy as np
        >>> gathered = np.empty(3)
        >>> gw.copy(gw.indexed(np.arange(10.0), [7, 0, 2]), gathered).wait()
        >>> gathered.tolist()
        [7.0, 0.0, 2.0]
        >>> there = gw.Segment(gw.world, 80).pointer(dtype=float)
        >>> gw.copy(gw.indexed(np.arange(10.0), [5, 1], [2, 3]), gw.indexed(there, [6, 0], [1, 4])).wait()
        >>> there.local(7).tolist()
        [6.0, 1.0, 2.0, 3.0, 0.0, 0.0, 5.0]
    """
    return Runs.within(end, indices, length)


def reached(
    end: GlobalPtr | npt.NDArray[Any], low: int, high: int
) -> tuple[GlobalPtr | None, npt.NDArray[Any] | None, int]:
    """Return what indices from `low` to before `high` count in: pointer, memory in reach, and the lowest index. Local.

    Raises:
        UsageError: some element lies outside, or is a Python object.
    """
    if isinstance(end, GlobalPtr):
        first = min(low, 0)
        pointer = end + first
        pointer.check(high - first)
        if pointer.dtype.hasobject:
            raise UsageError(f"{pointer!r}: Python objects cannot lie in a segment")
        return pointer, pointer.local(high - first) if pointer.is_local else None, first
    whole = StridedBox.of(end)
    if end.ndim != 1 or low < 0 or high > end.size:
        raise UsageError(
            f"chunks between the indices {low} and {high} of an array of shape {end.shape}: give an array of one "
            "axis, and indices from 0 inside it"
        )
    return None, whole.memory, 0


def step_in(memory: npt.NDArray[Any] | None, dtype: np.dtype[Any]) -> int:
    """Return the bytes from one index to the next in memory of one axis, or behind a pointer. Local."""
    return dtype.itemsize if memory is None else memory.strides[0]


def _legal_lengths(given: npt.ArrayLike) -> int | Indices:
    """The length of every run, or that of each."""
    if np.ndim(given):
        lengths = as_indices(given, "lengths")
        if lengths.size and lengths.min() < 0:
            raise UsageError(f"a piece of {lengths.min()} elements: give 0 or more")
        return lengths
    length = int(as_indices(np.ravel(given), "length")[0])
    if length < 1:
        raise UsageError(f"chunks of {length} elements: give 1 or more")
    return length


def as_indices(given: npt.ArrayLike, what: str) -> Indices:
    """Return a list of integers as an array. Local.

    Raises:
        UsageError: it is none.
    """
    found = np.asarray(given)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(f"{what} of shape {found.shape} and dtype {found.dtype}: give a list of integers")
    return found.astype(np.int64)
