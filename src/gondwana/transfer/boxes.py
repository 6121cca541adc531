"""Boxes: what two ends of a copy have in common, as runs of bytes along strided axes, and how to cut them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gondwana.transfer.rows import Axis, joined_axes

_ROW = 512
"""Bytes in a run from which a copy engine moves many of them at full speed; shorter ones are for threads."""

_MOST_PITCH = 1 << 31
"""Bytes from row to row that a copy engine takes."""

_FEW = 64
"""So many orders to a copy engine cost less than a kernel with all that belongs to it."""

SOURCE, TARGET = 1, 2
"""Where an axis has the stride of an end."""

Grid3 = tuple[int, int, int]


class Box(NamedTuple):
    """Runs of bytes without gaps at both ends, and the axes along which they repeat, from the slowest on."""

    axes: tuple[Axis, ...]
    run: int

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return self.run * math.prod(count for count, _, _ in self.axes)


class Planes(NamedTuple):
    """What a copy engine moves by one order: planes of rows, see `Driver.copy_box`."""

    source: int
    target: int
    counts: Grid3
    source_strides: tuple[int, int]
    target_strides: tuple[int, int]


def box_of(
    shape: Sequence[int], item: int, source: Sequence[int], target: Sequence[int], *, by_target: bool = False
) -> Box:
    """Return what elements of two ends have in common. Local.

    Args:
        shape: elements along each axis, none of them 0.
        item: bytes of an element.
        source: bytes from one element to the next along each axis.
        target: the same.
        by_target: whether the strides of the target decide which axes are slow, rather than those of the source.
    """
    if by_target:
        swapped = box_of(shape, item, target, source)
        return Box(tuple((count, s, t) for count, t, s in swapped.axes), swapped.run)
    axes = joined_axes(zip(shape, source, target, strict=True))
    run = item * axes.pop()[0] if axes and axes[-1][1:] == (item, item) else item
    return Box(tuple(axes), run)


def is_dense(box: Box, end: int) -> bool:
    """Tell whether one end has no gaps at all, its axes being in order. Local.

    Args:
        box: what is copied.
        end: SOURCE or TARGET.
    """
    extent = box.run
    for axis in reversed(box.axes):
        if axis[end] != extent:
            return False
        extent *= axis[0]
    return True


def planes(box: Box) -> list[Planes] | None:
    """Return the orders by which a copy engine moves a box; None if it is not worth it, or not possible. Local."""
    if not box.axes:
        return [Planes(0, 0, (box.run, 1, 1), (box.run, box.run), (box.run, box.run))]
    outer, inner = box.axes[:-2], box.axes[-2:]
    many = math.prod(count for count, _, _ in outer)
    source, target = (_pitches(inner, end, box.run) for end in (SOURCE, TARGET))
    if box.run < _ROW or many > _FEW or source is None or target is None:
        return None
    counts = (box.run, inner[-1][0], inner[0][0] if len(inner) == 2 else 1)
    return [Planes(a, b, counts, source, target) for a, b in _offsets(outer)]


def _pitches(axes: Sequence[Axis], end: int, run: int) -> tuple[int, int] | None:
    """Bytes from row to row and from plane to plane at one end, if these are pitches that copy engines take."""
    rows, row = axes[-1][0], axes[-1][end]
    plane = axes[0][end] if len(axes) == 2 else row * rows
    fits = run <= row < _MOST_PITCH and plane % row == 0 and plane >= row * rows
    return (row, plane) if fits else None


def cut(box: Box, limit: int) -> Iterator[tuple[int, int, Box]]:
    """Cut a box into boxes of at most `limit` bytes, or of a single run; along the slowest axes. Local.

    Yields:
        Offset in bytes of the first run of a piece from that of the whole, in the source and in the target; the piece.
    """
    inner, size = len(box.axes), box.run
    while inner and size * box.axes[inner - 1][0] <= limit:
        inner -= 1
        size *= box.axes[inner][0]
    if not inner:
        yield 0, 0, box
        return
    count, s, t = box.axes[inner - 1]
    step = max(1, limit // size)
    for a, b in _offsets(box.axes[: inner - 1]):
        for first in range(0, count, step):
            axes = (min(step, count - first), s, t), *box.axes[inner:]
            yield a + first * s, b + first * t, Box(tuple(axis for axis in axes if axis[0] > 1), box.run)


def runs(box: Box) -> Iterator[tuple[int, int]]:
    """Return the offsets in bytes of every run from the first, in the source and in the target. Local."""
    return _offsets(box.axes)


def _offsets(axes: Sequence[Axis]) -> Iterator[tuple[int, int]]:
    for indices in itertools.product(*(range(count) for count, _, _ in axes)):
        yield (
            sum(index * axis[1] for index, axis in zip(indices, axes, strict=True)),
            sum(index * axis[2] for index, axis in zip(indices, axes, strict=True)),
        )
