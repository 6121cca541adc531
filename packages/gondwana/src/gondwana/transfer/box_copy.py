"""Copies between two boxes: runs of bytes along axes that both have, and how to cut and to order them. Pure values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gondwana.transfer.box import StridedBox

_PITCHED_RUN = 512
"""Bytes in a run from which a copy engine moves many of them at full speed; shorter ones are for threads."""

_ROW = 1e-8
"""Time that a copy engine takes for a row, however short [s]; estimated: `_PITCHED_RUN` bytes at the 50 GB/s of a PCI
Express 5 link, with which it keeps up."""

_LAUNCH = 5e-6
"""Time by which a kernel starts later than a command to a copy engine [s]; estimated."""

_MEMORY = 1e12
"""Bytes that kernels and engines copy from one place in a device's memory to another in a second; estimated: reads and
writes of two thirds of an H100's 3.35 TB/s."""

_MOST_PITCH = 1 << 31
"""Bytes from row to row that a copy engine takes."""

_MOST_COMMANDS = 64
"""So many commands to a copy engine cost less than a kernel with all that belongs to it."""

SOURCE, TARGET = 1, 2
"""Where an axis has the stride of an end."""

Axis: TypeAlias = tuple[int, int, int]
"""An axis that two boxes share: count, stride in the source, stride in the target, in bytes."""


class BoxCopy(NamedTuple):
    """A copy of runs of bytes without gaps at both ends, repeated along axes.

    Attributes:
        source: Address of the first byte, or its offset from any base.
        target: The same of the target.
        axes: Axes along which the runs are repeated, from the slowest on.
        run: Bytes of a run.
    """

    source: int
    target: int
    axes: tuple[Axis, ...]
    run: int

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        item: int,
        source_strides: Sequence[int],
        target_strides: Sequence[int],
        *,
        source: int = 0,
        target: int = 0,
        by_target: bool = False,
    ) -> BoxCopy:
        """Return the copy of all elements of a box to another, its axes merged as far as both allow. Local.

        Args:
            shape: Elements along each axis.
            item: Bytes of an element.
            source_strides: Bytes from one element to the next along each axis.
            target_strides: The same in the target.
            source: Address of the first element, or its offset from any base.
            target: The same of the target.
            by_target: Whether the strides of the target decide which axes are slow, rather than those of the source.
        """
        if 0 in shape:
            return cls(source, target, ((0, 0, 0),), item)
        if by_target:
            swapped = cls.of(shape, item, target_strides, source_strides)
            return cls(source, target, tuple((count, s, t) for count, t, s in swapped.axes), swapped.run)
        axes = merged_axes(zip(shape, source_strides, target_strides, strict=True))
        run = item * axes.pop()[0] if axes and axes[-1][1:] == (item, item) else item
        return cls(source, target, tuple(axes), run)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return math.prod(count for count, _, _ in self.axes)

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return self.run * self.runs

    @property
    def suits_threads(self) -> bool:
        """Whether a kernel copies between places in device memory faster than an engine would, by the estimates."""
        engine = self.runs * max(self.run / _MEMORY, _ROW)
        return engine > _LAUNCH + self.nbytes / _MEMORY

    def is_dense(self, end: int) -> bool:
        """Return whether one end has no gaps at all, its axes being in order. Local.

        Args:
            end: SOURCE or TARGET.
        """
        extent = self.run
        for axis in reversed(self.axes):
            if axis[end] != extent:
                return False
            extent *= axis[0]
        return True

    def starts(self) -> Iterator[tuple[int, int]]:
        """Return the start of every run, in the source and in the target. Local."""
        for indices in itertools.product(*(range(count) for count, _, _ in self.axes)):
            yield (
                self.source + sum(index * axis[1] for index, axis in zip(indices, self.axes, strict=True)),
                self.target + sum(index * axis[2] for index, axis in zip(indices, self.axes, strict=True)),
            )

    def inner(self, axes: int) -> Iterator[BoxCopy]:
        """Return copies of the given number of axes at most that together are this one. Local."""
        outer, inner = self.axes[:-axes], self.axes[-axes:]
        for source, target in self._replace(axes=outer).starts():
            yield BoxCopy(source, target, inner, self.run)

    def pieces(self, limit: int) -> Iterator[BoxCopy]:
        """Return copies of at most `limit` bytes, or of a single run, cut along the slowest axes. Local."""
        inner, size = len(self.axes), self.run
        while inner and size * self.axes[inner - 1][0] <= limit:
            inner -= 1
            size *= self.axes[inner][0]
        if not inner:
            yield self
            return
        count, s, t = self.axes[inner - 1]
        step = max(1, limit // size)
        for a, b in self._replace(axes=self.axes[: inner - 1]).starts():
            for first in range(0, count, step):
                axes = (min(step, count - first), s, t), *self.axes[inner:]
                yield BoxCopy(a + first * s, b + first * t, tuple(axis for axis in axes if axis[0] > 1), self.run)

    def pitched(self) -> list[BoxCopy] | None:
        """Return the commands by which a copy engine makes the copy; None if it is not worth it, or not possible.

        Each is one run, or has two axes: planes, and rows of a plane. Local.
        """
        if not self.axes:
            return [self]
        outer, inner = self.axes[:-2], self.axes[-2:]
        many = math.prod(count for count, _, _ in outer)
        rows, row_source, row_target = inner[-1]
        if len(inner) == 1:
            inner = (1, rows * row_source, rows * row_target), inner[0]
        legal = all(_are_pitches(inner, end, self.run) for end in (SOURCE, TARGET))
        if self.run < _PITCHED_RUN or many > _MOST_COMMANDS or not legal:
            return None
        return [BoxCopy(a, b, inner, self.run) for a, b in self._replace(axes=outer).starts()]


class ChunkCopy(NamedTuple):
    """A copy of runs of bytes of one length at any places.

    Attributes:
        source: Address of what the offsets count from, or its offset from any base.
        target: The same of the target.
        run: Bytes of a run.
        source_offsets: Bytes from there to each run.
        target_offsets: The same in the target.
    """

    source: int
    target: int
    run: int
    source_offsets: npt.NDArray[np.int64]
    target_offsets: npt.NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return self.run * len(self.source_offsets)

    def starts(self) -> Iterator[tuple[int, int]]:
        """Return the start of every run, in the source and in the target. Local."""
        sources, targets = self.source + self.source_offsets, self.target + self.target_offsets
        return zip(sources.tolist(), targets.tolist(), strict=True)


Copy: TypeAlias = BoxCopy | ChunkCopy


def as_boxes(copy: Copy) -> Iterator[BoxCopy]:
    """Return copies of boxes that together are a copy: each chunk is one. Local."""
    if isinstance(copy, BoxCopy):
        yield copy
    else:
        yield from (BoxCopy(source, target, (), copy.run) for source, target in copy.starts())


def copy_between(
    source: StridedBox, target: StridedBox, start: int = 0, end: int = 0, *, by_target: bool = False
) -> Copy:
    """Return the copy of one box to another of the same shape and dtype. Local.

    Args:
        source: Place of the elements.
        target: Place that they go to.
        start: Address of the source, or its offset from any base.
        end: Address of the target, or its offset from any base.
        by_target: As for `BoxCopy.of`.
    """
    item = source.dtype.itemsize
    if source.offsets() is not None or target.offsets() is not None:
        return _chunk_copy(source, target, start, end)
    strides = source.strides, target.strides
    return BoxCopy.of(source.shape, item, *strides, source=start, target=end, by_target=by_target)


def merged_axes(axes: Iterable[Axis]) -> list[Axis]:
    """Return axes by stride, the largest first, without those of one element, neighbours that are one run merged."""
    merged: list[Axis] = []
    for count, s, d in sorted((axis for axis in axes if axis[0] != 1), key=lambda axis: (-abs(axis[1]), -abs(axis[2]))):
        if merged and merged[-1][1] == count * s and merged[-1][2] == count * d:
            merged[-1] = (merged[-1][0] * count, s, d)
        else:
            merged.append((count, s, d))
    return merged


def _are_pitches(axes: Sequence[Axis], end: int, run: int) -> bool:
    """Whether the strides of one end, from plane to plane and from row to row, are pitches that copy engines take."""
    plane, (rows, row) = axes[0][end], (axes[1][0], axes[1][end])
    return run <= row < _MOST_PITCH and plane % row == 0 and plane >= row * rows


def _chunk_copy(source: StridedBox, target: StridedBox, start: int, end: int) -> ChunkCopy:
    """The copy of chunks, of which each is a run if its elements lie without gaps at both ends."""
    item, length = source.dtype.itemsize, source.shape[1]
    (sources, from_step), (targets, to_step) = _chunks(source), _chunks(target)
    if length == 1 or from_step == to_step == item:
        return ChunkCopy(start, end, length * item, sources, targets)
    inside = np.arange(length, dtype=np.int64)
    sources, targets = (
        (chunks[:, None] + step * inside).reshape(-1) for chunks, step in ((sources, from_step), (targets, to_step))
    )
    return ChunkCopy(start, end, item, sources, targets)


def _chunks(box: StridedBox) -> tuple[npt.NDArray[np.int64], int]:
    """Bytes to the chunks of a box, along its first axis if it is not made of chunks; and between their elements."""
    found = box.offsets()
    if found is None:
        found = np.arange(box.shape[0], dtype=np.int64) * box.strides[0]
    return found, box.item_stride
