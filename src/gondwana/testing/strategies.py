"""Hypothesis strategies for points, boxes and domains, small enough to be listed point by point.

Requires the package ``hypothesis``, which only this module imports.
"""

from __future__ import annotations

from hypothesis import strategies as st

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
