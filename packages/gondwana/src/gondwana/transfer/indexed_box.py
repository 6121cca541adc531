"""Indexed boxes: chunks of equal length at the places that a list of indices gives."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.box import StridedBox, contiguous_strides

Indices = npt.NDArray[np.int64]


class IndexedBox(StridedBox):
    """Chunks of elements somewhere: as a box of two axes, chunks and elements of a chunk. Local; never changes.

    Args:
        pointer: to the element with the index 0; None for private memory.
        memory: what the indices count in, all of it, if loads and stores of this rank reach it.
        dtype: type of an element.
        starts: index of the first element of each chunk.
        length: elements of a chunk.
        step: bytes from one index to the next; default: elements without gaps.
    """

    __slots__ = ("_step", "starts")

    def __init__(
        self,
        pointer: GlobalPtr | None,
        memory: npt.NDArray[Any] | None,
        dtype: np.dtype[Any],
        starts: Indices,
        length: int,
        step: int | None = None,
    ) -> None:
        super().__init__(pointer, memory, dtype, (len(starts), length), ())
        self.starts = starts
        self._step = dtype.itemsize if step is None else step

    @classmethod
    def within(cls, end: GlobalPtr | npt.NDArray[Any], indices: npt.ArrayLike, length: int) -> IndexedBox:
        """Return chunks of what a pointer or an ndarray of one axis leads to. Local.

        Raises:
            UsageError: the indices are not a list of integers, or some chunk lies outside.
        """
        starts = as_indices(indices, "indices")
        if length < 1:
            raise UsageError(f"chunks of {length} elements: give 1 or more")
        low, high = (int(starts.min()), int(starts.max()) + length) if starts.size else (0, 0)
        pointer, memory, first = reached(end, low, high)
        return cls(pointer, memory, end.dtype, starts - first, length, step_in(memory, end.dtype))

    @classmethod
    def along(cls, pointer: GlobalPtr, starts: Indices, length: int, step: int) -> IndexedBox:
        """Return chunks of elements at a distance of `step` bytes from each other. Local.

        Raises:
            UsageError: some chunk lies outside the segment.
        """
        count = int(starts.max()) + length if starts.size else 0
        return cls(pointer, StridedBox.at(pointer, (count,), (step,)).memory, pointer.dtype, starts, length, step)

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """Strides of the same elements without gaps."""
        return contiguous_strides(self.shape, self.dtype.itemsize)

    @property
    def item_stride(self) -> int:
        """Bytes from one element to the next in a chunk."""
        return self._step

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie without gaps: never to be relied on."""
        return False

    def part(self, starts: tuple[int, ...], shape: tuple[int, ...]) -> StridedBox:
        """Return some chunks, or part of one. Local, unchecked. Arguments as for `StridedBox.part`."""
        first, inside = starts
        chunks = self.starts[first : first + shape[0]] + inside
        return IndexedBox(self.pointer, self.memory, self.dtype, chunks, shape[1], self._step)

    def load(self) -> npt.NDArray[Any]:
        """Return the elements in a row, from memory in reach. Local."""
        assert self.memory is not None
        return self.memory[self._each()]

    def store(self, data: npt.NDArray[Any]) -> None:
        """Set the elements, in memory in reach. Local."""
        assert self.memory is not None
        self.memory[self._each()] = data

    def offsets(self) -> Indices:
        """Return the bytes from the pointer to each chunk. Local."""
        return self.starts * self.item_stride

    def of_bytes(self) -> NoReturn:
        """Refuse: chunks of such large elements are not cut. Local."""
        raise UsageError(f"an indexed copy of elements of {self.dtype.itemsize} bytes that must be cut into pieces")

    def _each(self) -> Indices:
        return self.starts[:, None] + np.arange(self.shape[1])

    def __repr__(self) -> str:
        where = "private memory" if self.pointer is None else repr(self.pointer)
        return f"{self.shape[0]} chunks of {self.shape[1]} elements of {where}"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.pointer is None:
            raise TypeError("private memory cannot be named to another rank")
        return IndexedBox.along, (self.pointer, self.starts, self.shape[1], self._step)


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
