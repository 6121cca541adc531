"""Hypothesis strategies: points, boxes and domains, small enough to be listed point by point; layouts of global arrays.

Requires the package ``hypothesis``, which only this module imports.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from hypothesis import strategies as st

from gondwana.arrays.layout import Division, Layout
from gondwana.compiler.types.records import DTYPES
from gondwana.domains.domain import Domain
from gondwana.domains.point import Offset, Point
from gondwana.domains.rect import RectDomain

COORDINATE = 6
"""Corners lie within ±COORDINATE, so that boxes often touch, overlap and miss each other."""


def dimensions() -> st.SearchStrategy[int]:
    """Give a dimension of 1, 2 or 3. Local."""
    return st.integers(1, 3)


def coordinates() -> st.SearchStrategy[int]:
    """Give one small integer of either sign. Local."""
    return st.integers(-COORDINATE, COORDINATE)


def points(ndim: int, values: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[Point]:
    """Give points of a dimension, near the origin or of the given coordinates. Local."""
    return st.tuples(*[coordinates() if values is None else values] * ndim).map(Point)


def offsets(max_axes: int = 3) -> st.SearchStrategy[Offset]:
    """Give offsets along the first axes, often of few terms or none. Local."""
    return st.lists(st.integers(-3, 3), max_size=max_axes).map(Offset)


def corners(ndim: int, max_stride: int = 4) -> st.SearchStrategy[tuple[Point, Point, Point]]:
    """Give arguments ``(lo, hi, stride)`` of a RectDomain, those of empty boxes included. Local."""
    strides = points(ndim, st.integers(1, max_stride))
    extents = points(ndim, st.one_of(st.integers(1, 7), st.integers(-1, 7)))
    return st.builds(lambda lo, extent, stride: (lo, lo + extent, stride), points(ndim), extents, strides)


def rect_domains(ndim: int, max_stride: int = 4) -> st.SearchStrategy[RectDomain]:
    """Give boxes of a dimension: dense and strided, of any base, empty ones included. Local."""
    return corners(ndim, max_stride).map(lambda arguments: RectDomain(*arguments))


def domains(ndim: int, max_stride: int = 3, max_boxes: int = 3) -> st.SearchStrategy[Domain]:
    """Give unions of boxes of a dimension, empty ones included. Local."""
    return st.lists(rect_domains(ndim, max_stride), min_size=1, max_size=max_boxes).map(lambda r: Domain.of(*r))


def boxes(ndim: int) -> st.SearchStrategy[RectDomain]:
    """Give dense boxes of a dimension, of any base, with at least one point: domains of global arrays. Local."""
    bases = st.tuples(*[st.integers(-5, 5)] * ndim)
    return st.builds(lambda low, shape: RectDomain(low, Point(low) + Point(shape)), bases, shapes(ndim))


def shapes(ndim: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Give shapes of a dimension, 1 to 3, without an extent of 0. Local."""
    return st.tuples(*[st.integers(1, _of_dimension(ndim, 12, 7, 4))] * ndim)


def grids(ndim: int, ranks: int | None = None) -> st.SearchStrategy[tuple[int, ...]]:
    """Give grids of ranks of a dimension. Local.

    Args:
        ndim: number of axes, 1 to 3 unless the number of ranks is given.
        ranks: product of their extents; None: any.
    """
    if ranks is None:
        return st.tuples(*[st.integers(1, _of_dimension(ndim, 6, 4, 3))] * ndim)
    divisors = [number for number in range(1, ranks + 1) if ranks % number == 0]
    return st.sampled_from([grid for grid in _choices(divisors, ndim) if math.prod(grid) == ranks])


def ghosts(ndim: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Give widths of ghosts for each axis, often wider than small blocks, and 0. Local."""
    return st.tuples(*[st.integers(0, _of_dimension(ndim, 9, 4, 2))] * ndim)


def orders() -> st.SearchStrategy[Literal["C", "F"]]:
    """Give orders of elements in memory. Local."""
    return st.sampled_from(["C", "F"])


def dtypes() -> st.SearchStrategy[np.dtype[Any]]:
    """Give types of elements that compiled code takes. Local."""
    return st.sampled_from([np.dtype(name) for name in sorted(DTYPES)])


@st.composite
def layouts(draw: st.DrawFn, ndim: int | None = None, ranks: int | None = None) -> Layout:
    """Give divisions of small boxes: with empty blocks, ghosts wider than blocks and several turns around. Local.

    Args:
        draw: given by Hypothesis.
        ndim: number of axes; None: 1 to 3.
        ranks: number of ranks that the boxes are divided over; None: any number.
    """
    ndim = draw(dimensions()) if ndim is None else ndim
    domain, grid, ghost = draw(boxes(ndim)), draw(grids(ndim, ranks)), draw(ghosts(ndim))
    periodic, division = draw(st.tuples(*[st.booleans()] * ndim)), draw(st.sampled_from(get_args(Division)))
    cuts = tuple(draw(_widths(length, parts)) for length, parts in zip(domain.shape, grid, strict=True))
    return Layout(domain, grid, ghost, periodic, draw(orders()), division, cuts if any(cuts) else None)


def _widths(length: int, parts: int) -> st.SearchStrategy[tuple[int, ...] | None]:
    """Widths of so many blocks along an axis, often 0; None most of the time."""
    bounds = st.lists(st.integers(0, length), min_size=parts - 1, max_size=parts - 1).map(sorted)
    given = bounds.map(lambda cut: tuple(end - begin for begin, end in zip([0, *cut], [*cut, length], strict=True)))
    return st.one_of(st.none(), st.none(), given)


def _of_dimension(ndim: int, *values: int) -> int:
    """The value for 1, 2 or 3 axes: sets of points stay small."""
    return values[ndim - 1]


def _choices(values: list[int], count: int) -> list[tuple[int, ...]]:
    return [()] if count == 0 else [(value, *rest) for value in values for rest in _choices(values, count - 1)]
