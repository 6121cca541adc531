"""The division of a block for two steps in one sweep, for any grid of ranks."""

from __future__ import annotations

import math

from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.arrays.layout import Layout
from gondwana_apps.grayscott.sweeps import between_size, parts

GHOST = 2


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    side = draw(st.integers(1, 14))
    grid = tuple(draw(st.integers(1, min(side, 6))) for _ in range(3))
    box = gw.RectDomain.from_shape((side,) * 3)
    return Layout(box, grid, (GHOST,) * 3, (True,) * 3, "F")


@given(layouts(), st.integers(0, 10**6))
def test_each_cell_is_computed_once_and_the_inner_ones_need_no_other_rank(layout: Layout, number: int) -> None:
    rank = number % math.prod(layout.grid)
    owned = layout.owned(rank)
    inner, rim = parts(layout, rank)
    assert sum(box.size for box in (inner, *rim)) == owned.size
    assert sum((box & owned).size for box in (inner, *rim)) == owned.size
    assert all((a & b).is_empty for a in (inner, *rim) for b in (inner, *rim) if a is not b)
    if inner.is_empty:
        return
    assert min(inner.shape[:2]) >= 2
    foreign = [piece.target for piece in layout.pieces(rank, corners=True) if piece.owner != rank]
    # Two steps reach two points along the axes, or one along each of two.
    for axis in range(3):
        reached = inner.accrete([GHOST if a == axis else 0 for a in range(3)])
        assert all((reached & ghosts).is_empty for ghosts in foreign)


@given(layouts(), st.integers(0, 10**6), st.sampled_from([4, 8]))
def test_what_is_left_between_the_steps_fits_its_memory(layout: Layout, number: int, itemsize: int) -> None:
    rank = number % math.prod(layout.grid)
    size = between_size(layout, rank, itemsize)
    for box in parts(layout, rank)[1]:
        assert 2 * box.accrete(1).size * itemsize <= size
