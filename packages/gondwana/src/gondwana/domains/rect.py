"""Rectangular index sets: boxes of points with any base, any stride and any dimension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import SupportsIndex, final, overload

from gondwana.domains.index_set import IndexSet, is_point_like
from gondwana.domains.point import (
    Point,
    PointLike,
    as_integer,
    as_point,
    check_axis,
    check_permutation,
    is_integer,
    make_point,
    split_direction,
)
from gondwana.domains.progression import EMPTY, extent, floor_divide, intersect, normal, scale


@final
class RectDomain(IndexSet):
    """The points ``lo <= p < hi`` of an integer lattice, every ``stride``-th of them in each axis. Local.

    Like Python's ``range``, in any number of dimensions: half-open, with any base, immutable, and without memory for
    the points. Equal sets are equal and hash alike, because every box is kept in one normal form: ``hi`` is one past
    the last point, the stride of an axis with one point is one, and the empty box has ``lo == hi == 0``.

    Args:
        lo: the first point. An integer means the same value in every axis.
        hi: the point after the last in every axis; the box is empty if ``hi <= lo`` in one of them.
        stride: the distance of points in each axis, positive.

    Raises:
        TypeError: a coordinate is not an integer.
        ValueError: the dimensions differ, or a stride is not positive.

    Example:
        >>> box = RectDomain((0, 0), (4, 6))
        >>> box.shape, box.size, (3, 5) in box, (4, 0) in box
        ((4, 6), 24, True, False)
        >>> print(box.shrink(1), box + (10, 0), box & box.translate((2, 2)))
        [1:2, 1:4] [10:13, 0:5] [2:3, 2:5]
        >>> RectDomain(0, 10, 3)
        RectDomain(0, 10, 3)
    """

    __slots__ = ("_axes",)
    _axes: tuple[range, ...]

    def __init__(self, lo: PointLike, hi: PointLike, stride: PointLike = 1) -> None:
        lo, hi = _same_dimension(lo, hi)
        steps = as_point(stride, len(lo))
        if min(steps) < 1:
            raise ValueError(f"stride {steps!r} must be at least 1 in every axis")
        self._axes = _normal_axes([normal(*bounds) for bounds in zip(lo, hi, steps, strict=True)])

    @classmethod
    def from_shape(cls, shape: PointLike) -> RectDomain:
        """Return the dense box of a shape, based at the origin. Local.

        Raises:
            ValueError: an extent is negative.

        Example:
            >>> RectDomain.from_shape((2, 3))
            RectDomain((0, 0), (2, 3))
        """
        extents = as_point(shape)
        if min(extents) < 0:
            raise ValueError(f"shape {tuple(extents)} has a negative extent: use 0 for an empty axis")
        return cls(0, extents)

    @classmethod
    def inclusive(cls, first: PointLike, last: PointLike, stride: PointLike = 1) -> RectDomain:
        """Return the box from ``first`` to ``last``, both ends included, as Titanium's ``[first:last]``. Local.

        Example:
            >>> RectDomain.inclusive((-1, -1), (256, 256))
            RectDomain((-1, -1), (257, 257))
        """
        first, last = _same_dimension(first, last)
        return cls(first, last + 1, stride)

    @classmethod
    def from_axes(cls, axes: Iterable[range]) -> RectDomain:
        """Return the product of one range for each axis, with positive steps: the inverse of ``axes``. Local.

        Raises:
            ValueError: no axis is given, or a step is negative.

        Example:
            >>> RectDomain.from_axes([range(3), range(1, 9, 2)])
            RectDomain((0, 1), (3, 8), (1, 2))
        """
        ranges = list(axes)
        return cls([r.start for r in ranges], [r.stop for r in ranges], [r.step for r in ranges])

    @property
    def axes(self) -> tuple[range, ...]:
        """The coordinates along each axis, as ranges in normal form."""
        return self._axes

    @property
    def rects(self) -> tuple[RectDomain, ...]:
        """This box if it has points, else nothing: the boxes of the same set as a Domain."""
        return (self,) if self._axes[0] else ()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._axes)

    @property
    def lo(self) -> Point:
        """The lower corner; the origin if the box is empty."""
        return make_point([r.start for r in self._axes])

    @property
    def hi(self) -> Point:
        """The upper corner, one past the last point in each axis; the origin if the box is empty."""
        return make_point([r.stop for r in self._axes])

    @property
    def stride(self) -> Point:
        """The distance of neighbouring points in each axis; one for an axis of one point."""
        return make_point([r.step for r in self._axes])

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points along each axis; all zero if the box is empty."""
        return tuple([(r.stop - r.start + r.step - 1) // r.step for r in self._axes])

    @property
    def size(self) -> int:
        """The number of points, exact however large."""
        return prod(self.shape)

    @property
    def first(self) -> Point:
        """The first point. Raises ValueError if the box is empty."""
        if self.is_empty:
            raise ValueError("an empty RectDomain has no first point: ask is_empty before")
        return self.lo

    @property
    def last(self) -> Point:
        """The last point: the inclusive upper corner. Raises ValueError if the box is empty."""
        if self.is_empty:
            raise ValueError("an empty RectDomain has no last point: ask is_empty before")
        return make_point([r.stop - 1 for r in self._axes])

    @property
    def is_empty(self) -> bool:
        """Whether the box has no points."""
        return not self._axes[0]

    @property
    def is_dense(self) -> bool:
        """Whether every stride is one."""
        return all(r.step == 1 for r in self._axes)

    @property
    def bounding_box(self) -> RectDomain:
        """The smallest dense box that contains this one."""
        return self if self.is_dense else self.with_stride(1)

    def with_stride(self, stride: PointLike) -> RectDomain:
        """Return every ``stride``-th point from ``lo`` on, up to ``hi``, regardless of the present stride. Local.

        Example:
            >>> RectDomain(0, 10).with_stride(4)
            RectDomain(0, 9, 4)
        """
        return RectDomain(self.lo, self.hi, stride)

    def shrink(self, width: PointLike, direction: int | None = None) -> RectDomain:
        """Return the box without its outer layers. Local.

        Widths count layers of points, that is, units of the stride; an axis of one point has stride one. The box is
        empty if nothing remains. A negative width adds layers; an empty box stays empty.

        Args:
            width: the number of layers, for every axis or for each.
            direction: None for both sides of all axes; one of ±1 ... ±ndim for one side of one axis, and then ``width``
                is an integer.

        Raises:
            ValueError: ``direction`` does not exist.

        Example:
            >>> box = RectDomain.inclusive((0, 0), (9, 9))
            >>> print(box.shrink(1), box.shrink((0, 2)), box.shrink(3, -1), box.shrink(5))
            [1:8, 1:8] [0:9, 2:7] [3:9, 0:9] [empty, 2-D]
        """
        low, high = self._widths(width, direction)
        return _grow(self, -low, -high)

    def accrete(self, width: PointLike, direction: int | None = None) -> RectDomain:
        """Return the box with layers added outside: ``shrink`` of the negative width. Local.

        Args:
            width: the number of layers in units of the stride, for every axis or for each.
            direction: None for both sides of all axes; one of ±1 ... ±ndim for one side of one axis, and then ``width``
                is an integer.

        Raises:
            ValueError: ``direction`` does not exist.

        Example:
            >>> box = RectDomain.inclusive((0, 0), (9, 9))
            >>> print(box.accrete(1), box.accrete(2, +2))
            [-1:10, -1:10] [0:9, 0:11]
        """
        return _grow(self, *self._widths(width, direction))

    def border(
        self,
        width: SupportsIndex,
        axis: SupportsIndex,
        *,
        side: int | None = None,
        shift: SupportsIndex = 0,
        corners: bool = False,
    ) -> RectDomain:
        """Return the ``width`` layers that adjoin one face outside, moved outward by ``shift`` layers. Local.

        Layers are counted in units of the stride. With ``shift=-width`` they are the last layers inside. For a box
        [0:9] and width 2:

        ========== ============ ============
        shift      side=+1      side=-1
        ========== ============ ============
        0          [10:11]      [-2:-1]
        1          [11:12]      [-3:-2]
        -2         [8:9]        [0:1]
        ========== ============ ============

        Args:
            width: the number of layers.
            axis: the axis that the face is across, from 0.
            side: -1 for the lower face, 1 for the upper one.
            shift: the layers to move outward by.
            corners: whether the layers reach as far beyond the box along the other axes, too.

        Raises:
            TypeError: ``side`` is missing.
            ValueError: ``width`` is negative, or ``axis`` or ``side`` do not exist.

        Example:
            >>> box = RectDomain.inclusive((0, 0), (9, 9))
            >>> print(box.border(1, 1, side=-1), box.border(2, 0, side=1, shift=-2))
            [0:9, -1:-1] [8:9, 0:9]
            >>> print(box.border(1, 0, side=1, corners=True))
            [10:10, -1:10]
        """
        layers, outward = as_integer(width), as_integer(shift)
        if layers < 0:
            raise ValueError(f"a border of width {layers} does not exist: use 0 or more, and shift to move it")
        if side is None:
            raise TypeError(
                "border(width, axis, side=-1 or 1) counts axes from 0; border(1, -2) of earlier versions is "
                "border(1, 1, side=-1)"
            )
        if side not in (-1, 1):
            raise ValueError(f"side {side} does not exist: legal are -1 and 1")
        index = check_axis(axis, self.ndim)
        if self.is_empty:
            return self
        r = self._axes[index]
        start = r[-1] + r.step * (1 + outward) if side > 0 else r.start - r.step * (layers + outward)
        box = self.accrete(layers) if corners else self
        return box._with_axis(index, normal(start, start + r.step * layers, r.step))

    def faces(self, width: PointLike, shift: PointLike = 0) -> dict[tuple[int, int], RectDomain]:
        """Return the border of every face by its axis and side, (0, -1), (0, 1), (1, -1), ...: face neighbours. Local.

        Args:
            width: the number of layers, for every axis or for each.
            shift: as for ``border``, for every axis or for each; ``-width`` gives the layers just inside.

        Example:
            >>> for (axis, side), face in RectDomain.from_shape((4, 6)).faces(1).items():
            ...     print(axis, side, face)
            0 -1 [-1:-1, 0:5]
            0 1 [4:4, 0:5]
            1 -1 [0:3, -1:-1]
            1 1 [0:3, 6:6]
        """
        widths, shifts = as_point(width, self.ndim), as_point(shift, self.ndim)
        found = [(axis, side) for axis in range(self.ndim) for side in (-1, 1)]
        return {(axis, side): self.border(widths[axis], axis, side=side, shift=shifts[axis]) for axis, side in found}

    def slice(self, axis: SupportsIndex, at: SupportsIndex | None = None) -> RectDomain:
        """Return the box of one dimension less: its shadow along an axis, or the points with one coordinate. Local.

        Args:
            axis: the axis that vanishes, from 0.
            at: None for all points, else only those whose coordinate in ``axis`` is ``at``; without any, the result is
                empty.

        Raises:
            ValueError: ``axis`` does not exist, or the box has one dimension only.

        Example:
            >>> box = RectDomain((0, 0, 0), (2, 4, 8))
            >>> print(box.slice(1), box.slice(0, at=1), box.slice(0, at=5))
            [0:1, 0:7] [0:3, 0:7] [empty, 2-D]
        """
        index = check_axis(axis, self.ndim)
        if self.ndim == 1:
            raise ValueError("a one-dimensional box cannot be sliced: no axis would remain")
        axes = self._axes[:index] + self._axes[index + 1 :]
        if at is not None and as_integer(at) not in self._axes[index]:
            axes = (EMPTY,) * len(axes)
        return make_rect(axes)

    def translate(self, offset: PointLike) -> RectDomain:
        """Return the box moved by ``offset``; ``box + offset`` is the same. Local.

        Example:
            >>> print(RectDomain.from_shape((4, 4)).translate((10, -1)))
            [10:13, -1:2]
        """
        steps = as_point(offset, self.ndim)
        if self.is_empty:
            return self
        return make_rect([range(r.start + by, r.stop + by, r.step) for r, by in zip(self._axes, steps, strict=True)])

    def permute(self, axes: Sequence[SupportsIndex]) -> RectDomain:
        """Return the box whose axis ``i`` is axis ``axes[i]`` of this one, as ``numpy.transpose`` does. Local.

        Example:
            >>> RectDomain.from_shape((2, 3, 4)).permute((2, 0, 1)).shape
            (4, 2, 3)
        """
        order = check_permutation(axes, self.ndim)
        return make_rect([self._axes[axis] for axis in order])

    def blocks(self, grid: PointLike) -> tuple[RectDomain, ...]:
        """Return the box cut into a grid of blocks as equal as can be, in row-major order of the grid. Local.

        Along an axis of n points and p blocks, the first n % p blocks have one point more than the others: block c
        begins at point ``n // p * c + min(n % p, c)``. Blocks are empty if points run out.

        Args:
            grid: the number of blocks along each axis, positive.

        Raises:
            ValueError: ``grid`` has another dimension or is not positive.

        Example:
            >>> [str(block) for block in RectDomain(0, 10).blocks(3)]
            ['[0:3]', '[4:6]', '[7:9]']
        """
        counts = _check_grid(grid, self.ndim)
        pieces = [[_part(r, n, c) for c in range(n)] for r, n in zip(self._axes, counts, strict=True)]
        return tuple([make_rect(axes) for axes in product(*pieces)])

    def subblock(self, grid: PointLike, coords: PointLike) -> RectDomain:
        """Return one of the ``blocks(grid)``, by its place in the grid. Local.

        Args:
            grid: the number of blocks along each axis, positive.
            coords: the block's place, from 0 to grid - 1 in each axis.

        Raises:
            ValueError: ``grid`` or ``coords`` have another dimension or are out of range.

        Example:
            >>> print(RectDomain.from_shape((10, 10)).subblock((3, 1), (1, 0)))
            [4:6, 0:9]
        """
        counts, place = _check_grid(grid, self.ndim), as_point(coords, self.ndim)
        if not (place >= 0 and place < counts):
            raise ValueError(f"block {tuple(place)} does not exist in a grid of {tuple(counts)} blocks")
        return make_rect([_part(r, n, c) for r, n, c in zip(self._axes, counts, place, strict=True)])

    @overload
    def __and__(self, other: RectDomain) -> RectDomain: ...
    @overload
    def __and__(self, other: IndexSet) -> IndexSet: ...
    def __and__(self, other: IndexSet) -> IndexSet:
        if not isinstance(other, RectDomain):
            return super().__and__(other)
        self._same_ndim(other)
        return make_rect([intersect(a, b) for a, b in zip(self._axes, other._axes, strict=True)])

    def __mul__(self, factor: PointLike) -> RectDomain:
        """Return the box of all ``p * factor``: it has as many points, unless a factor is zero."""
        if not is_point_like(factor):
            return NotImplemented
        factors = as_point(factor, self.ndim)
        if self.is_empty:
            return self
        return make_rect([scale(r, by) for r, by in zip(self._axes, factors, strict=True)])

    __rmul__ = __mul__

    def __floordiv__(self, divisor: PointLike) -> RectDomain:
        """Return the box of all ``p // divisor``; each stride must be at most the divisor or a multiple of it."""
        if not is_point_like(divisor):
            return NotImplemented
        divisors = as_point(divisor, self.ndim)
        if self.is_empty:
            return self
        return make_rect([floor_divide(r, by) for r, by in zip(self._axes, divisors, strict=True)])

    def __iter__(self) -> Iterator[Point]:
        """Give the points in row-major order: the last axis runs fastest."""
        return map(make_point, _row_major(self._axes))

    def __eq__(self, other: object) -> bool:
        return self._axes == other._axes if isinstance(other, RectDomain) else super().__eq__(other)

    __hash__ = IndexSet.__hash__

    def __repr__(self) -> str:
        lo, hi, stride = (tuple(p) if self.ndim > 1 else p[0] for p in (self.lo, self.hi, self.stride))
        return f"RectDomain({lo}, {hi})" if self.is_dense else f"RectDomain({lo}, {hi}, {stride})"

    def __str__(self) -> str:
        """Say both ends of each axis, the last included, as Titanium writes them: ``[0:9, 0:8:2]``."""
        if self.is_empty:
            return f"[empty, {self.ndim}-D]"
        steps = [f":{r.step}" if r.step > 1 else "" for r in self._axes]
        return f"[{', '.join(f'{r.start}:{r.stop - 1}{step}' for r, step in zip(self._axes, steps, strict=True))}]"

    def _with_axis(self, axis: int, r: range) -> RectDomain:
        return make_rect((*self._axes[:axis], r, *self._axes[axis + 1 :]))

    def _widths(self, width: PointLike, direction: int | None) -> tuple[Point, Point]:
        """Return the layers below and above in each axis."""
        if direction is None:
            widths = as_point(width, self.ndim)
            return widths, widths
        axis, sign = split_direction(direction, self.ndim)
        nothing = Point.all(0, self.ndim)
        one_side = nothing.replace(axis, as_integer(width))
        return (nothing, one_side) if sign > 0 else (one_side, nothing)


def make_rect(axes: Iterable[range]) -> RectDomain:
    """Return the box of one range in normal form for each axis: no check, for inner loops. Local."""
    rect = object.__new__(RectDomain)
    rect._axes = _normal_axes(axes)
    return rect


def _normal_axes(axes: Iterable[range]) -> tuple[range, ...]:
    axes = tuple(axes)
    return axes if all(axes) else (EMPTY,) * len(axes)


def _same_dimension(a: PointLike, b: PointLike) -> tuple[Point, Point]:
    """Return both as points; an integer takes the dimension of the other one."""
    if is_integer(a):
        upper = as_point(b)
        return as_point(a, len(upper)), upper
    lower = as_point(a)
    return lower, as_point(b, len(lower))


def _grow(rect: RectDomain, low: Point, high: Point) -> RectDomain:
    """Return the box with further layers below and above in each axis."""
    if rect.is_empty:
        return rect
    sides = zip(rect.axes, low, high, strict=True)
    return make_rect([normal(r.start - r.step * below, r.stop + r.step * above, r.step) for r, below, above in sides])


def _check_grid(grid: PointLike, ndim: int) -> Point:
    counts = as_point(grid, ndim)
    if min(counts) < 1:
        raise ValueError(f"grid {tuple(counts)} must have at least one block along every axis")
    return counts


def _part(r: range, parts: int, index: int) -> range:
    """Return one of ``parts`` consecutive parts as equal as can be."""
    share, extra = divmod(extent(r), parts)
    begin = share * index + min(extra, index)
    end = begin + share + (index < extra)
    return normal(r.start + r.step * begin, r.start + r.step * (end - 1) + 1, r.step) if end > begin else EMPTY


def _row_major(axes: tuple[range, ...], head: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    # itertools.product would first store all coordinates of every axis.
    if len(axes) == 1:
        for last in axes[0]:
            yield (*head, last)
    else:
        for first in axes[0]:
            yield from _row_major(axes[1:], (*head, first))
