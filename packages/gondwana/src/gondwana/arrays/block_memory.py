"""How the block of a rank lies in its part of the segment. Pure values: every rank knows them for all ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gondwana.arrays.layout import Layout
from gondwana.transfer.box import contiguous_strides

LINE = 128
"""Bytes that a device moves at once: rows of cells start on a multiple of them."""

_SECTOR = 32
"""The least that a device moves. Rows of a few lines start on a multiple of it, or padding would waste much memory."""

_FEW = 4


@dataclass(frozen=True, slots=True)
class BlockMemory:
    """Where the cells and ghosts of a block are.

    Attributes:
        offset: bytes from the start of the rank's part to the first of them.
        strides: bytes from one to the next along each axis.
        nbytes: of the whole part.
    """

    offset: int
    strides: tuple[int, ...]
    nbytes: int

    @classmethod
    def without_gaps(cls, layout: Layout, rank: int, item: int) -> BlockMemory:
        """Return how a block lies in host memory. Local.

        Args:
            layout: of the array.
            rank: whose block.
            item: bytes of an element.
        """
        shape = layout.held(rank).shape
        return cls(0, contiguous_strides(shape, item, layout.order), math.prod(shape) * item)

    @classmethod
    def on_lines(cls, layout: Layout, rank: int, item: int) -> BlockMemory:
        """Return how a block lies in the memory of a device. Local; arguments as for `without_gaps`.

        The first owned cell of each row along the contiguous axis starts a line, with the ghosts before it; rows are
        whole lines. So threads that write one row fill whole lines, and rows on both sides of a face are copied in the
        widest units.
        """
        shape = list(layout.held(rank).shape)
        if not math.prod(shape):
            return cls.without_gaps(layout, rank, item)
        axis = len(shape) - 1 if layout.order == "C" else 0
        line = LINE if shape[axis] * item >= _FEW * LINE else _SECTOR
        shape[axis] = _up(shape[axis] * item, line) // item
        offset = -layout.ghost[axis] * item % line
        return cls(offset, contiguous_strides(tuple(shape), item, layout.order), offset + math.prod(shape) * item)


def _up(nbytes: int, line: int) -> int:
    """The next multiple of a line."""
    return -(-nbytes // line) * line
