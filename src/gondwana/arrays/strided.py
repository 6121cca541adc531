"""`Strided`: elements at regular distances somewhere in a segment, to be named but not touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gondwana.arrays.array import MemoryOrder
from gondwana.arrays.base import Position
from gondwana.memory.pointer import GlobalPtr


@dataclass(frozen=True, slots=True)
class Strided:
    """What is left of an ndarray when its memory is out of reach: where it starts, its shape and its strides. Local.

    Attributes:
        pointer: to the first element.
        shape: elements along each axis.
        strides: bytes from an element to the next along each axis.
    """

    pointer: GlobalPtr
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return self.pointer.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, gaps not counted."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, position: Position) -> Strided:
        """The part that NumPy would give for slices and integers of 0 or more, one an axis."""
        offset, shape, strides = 0, [], []
        for part, count, stride in zip(position, self.shape, self.strides, strict=True):
            if isinstance(part, int):
                offset += part * stride
                continue
            kept = range(count)[part]
            offset += kept.start * stride if kept else 0
            shape.append(len(kept))
            strides.append(stride * kept.step)
        return Strided(moved(self.pointer, offset), tuple(shape), tuple(strides))

    def transpose(self, axes: Sequence[int]) -> Strided:
        """The same elements with the axes in another order."""
        return Strided(self.pointer, tuple(self.shape[i] for i in axes), tuple(self.strides[i] for i in axes))


def contiguous(shape: tuple[int, ...], itemsize: int, order: MemoryOrder) -> tuple[int, ...]:
    """Return the strides, in bytes, of elements without gaps. Local."""
    strides, step = [], itemsize
    for count in shape if order == "F" else reversed(shape):
        strides.append(step)
        step *= count
    return tuple(strides if order == "F" else reversed(strides))


def moved(pointer: GlobalPtr, nbytes: int) -> GlobalPtr:
    """Return the pointer so many bytes farther on. Local."""
    return GlobalPtr(pointer.segment, pointer.rank, pointer.offset + nbytes, pointer.dtype)
