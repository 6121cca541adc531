"""The division of a domain and the origin of every ghost, against sets of points."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gondwana.arrays.layout import Layout, best_grid
from gondwana.domains.point import Point
from gondwana.domains.rect import RectDomain
from gondwana.errors import UsageError
from gondwana.testing import strategies as gs


@given(gs.layouts(ranks=6), gs.dtypes())
def test_layouts_of_a_number_of_ranks(layout: Layout, dtype: Any) -> None:
    assert math.prod(layout.grid) == 6
    assert np.zeros(layout.owned(5).shape, dtype).dtype == dtype


def ranks(layout: Layout) -> range:
    return range(math.prod(layout.grid))


def home(layout: Layout, p: Point) -> Point | None:
    """The cell that a ghost cell copies: around the periodic axes, None where there is none."""
    cell = []
    for axis, x in enumerate(p):
        low, n = layout.domain.lo[axis], layout.domain.shape[axis]
        if layout.periodic[axis]:
            cell.append((x - low) % n + low)
        elif low <= x < low + n:
            cell.append(x)
        else:
            return None
    return Point(cell)


def owner(layout: Layout, p: Point) -> int:
    (rank,) = [rank for rank in ranks(layout) if p in layout.owned(rank)]
    return rank


def outside(layout: Layout, rank: int, p: Point) -> int:
    """Along how many axes a point lies outside of a rank's block."""
    block = layout.owned(rank)
    return sum(not low <= x < high for low, x, high in zip(block.lo, p, block.hi, strict=True))


@given(gs.layouts())
def test_blocks_partition_the_domain(layout: Layout) -> None:
    blocks = [layout.owned(rank) for rank in ranks(layout)]
    assert sum(block.size for block in blocks) == layout.domain.size
    assert all(block <= layout.domain for block in blocks)
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(blocks, 2))
    for rank in ranks(layout):
        assert layout.rank(layout.place(rank)) == rank
        held = layout.held(rank)
        assert held == (layout.owned(rank) if layout.owned(rank).is_empty else layout.owned(rank).accrete(layout.ghost))
    sizes = {n for block in blocks for n in block.shape[:1]} if layout.domain.ndim == 1 else set()
    if sizes and layout.cuts is not None:
        assert (tuple(block.shape[0] for block in blocks),) == layout.cuts
        sizes = set()
    if sizes and layout.division == "balanced":
        assert max(sizes) - min(sizes) <= 1
    if sizes and layout.division == "ceil":
        whole = -(-layout.domain.shape[0] // len(blocks))
        assert [block.shape[0] for block in blocks if not block.is_empty][:-1] == [whole] * (
            math.ceil(layout.domain.size / whole) - 1
        )


@given(gs.layouts(), st.booleans())
def test_every_ghost_is_filled_once_from_the_cell_it_copies(layout: Layout, corners: bool) -> None:
    for rank in ranks(layout):
        held, owned = layout.held(rank), layout.owned(rank)
        expected = {}
        for p in held:
            distance = outside(layout, rank, p) if not owned.is_empty else 0
            if distance == 0 or (distance > 1 and not corners):
                continue
            cell = home(layout, p)
            if cell is not None:
                expected[p] = (owner(layout, cell), cell)
        found: dict[Any, Any] = {}
        for piece in layout.pieces(rank, corners=corners):
            assert not piece.target.is_empty
            assert piece.target + piece.shift <= layout.owned(piece.owner)
            for p in piece.target:
                assert p not in found
                found[p] = (piece.owner, p + piece.shift)
        assert found == expected


@given(gs.layouts(), st.booleans())
def test_neighbours_are_mutual(layout: Layout, corners: bool) -> None:
    """Who has ghosts of a rank lends it some: handshakes rely on it."""
    lenders = {rank: {piece.owner for piece in layout.pieces(rank, corners=corners)} for rank in ranks(layout)}
    assert all(rank in lenders[other] for rank in lenders for other in lenders[rank])


@given(gs.layouts())
def test_inner_cells_need_no_ghost_of_another_rank(layout: Layout) -> None:
    for rank in ranks(layout):
        owned, inner, rim = layout.owned(rank), layout.inner(rank), layout.rim(rank)
        assert inner <= owned
        assert (inner | rim) == owned
        assert inner.isdisjoint(rim)
        foreign = {p for piece in layout.pieces(rank, corners=True) if piece.owner != rank for p in piece.target}
        reach = [range(-width, width + 1) for width in layout.ghost]
        for p in inner:
            assert not any(p + step in foreign for step in itertools.product(*reach))


@given(gs.layouts())
def test_the_rim_is_no_larger_than_needed(layout: Layout) -> None:
    """A cell is in the rim only if a whole layer of it needs another rank's ghosts."""
    for rank in ranks(layout):
        owned, inner = layout.owned(rank), layout.inner(rank)
        if owned.is_empty:
            assert inner.is_empty
            continue
        axes = [
            {
                sign
                for piece in layout.pieces(rank, corners=False)
                if piece.owner != rank
                for sign in side(piece, owned, axis)
            }
            for axis in range(owned.ndim)
        ]
        low = [layout.ghost[axis] if -1 in axes[axis] else 0 for axis in range(owned.ndim)]
        high = [layout.ghost[axis] if 1 in axes[axis] else 0 for axis in range(owned.ndim)]
        kept = zip(owned.lo, owned.hi, low, high, strict=True)
        assert inner == RectDomain(*zip(*[(a + lower, b - upper) for a, b, lower, upper in kept], strict=True))


def side(piece: Any, owned: RectDomain, axis: int) -> set[int]:
    low, high = piece.target.lo[axis], piece.target.hi[axis]
    return ({-1} if high <= owned.lo[axis] else set()) | ({1} if low >= owned.hi[axis] else set())


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 24), st.integers(0, 2), st.sampled_from("CF")
)
def test_the_best_grid_uses_all_ranks_and_leaves_few_idle(shape: list[int], count: int, ghost: int, order: Any) -> None:
    grid = best_grid(tuple(shape), count, (ghost,) * len(shape), order)
    assert math.prod(grid) == count
    busy = math.prod(min(parts, n) for parts, n in zip(grid, shape, strict=True))
    others = [g for g in itertools.product(range(1, count + 1), repeat=len(shape)) if math.prod(g) == count]
    assert busy == max(math.prod(min(parts, n) for parts, n in zip(g, shape, strict=True)) for g in others)


@pytest.mark.parametrize(
    ("shape", "count", "order", "expected"),
    [
        ((64, 64, 64), 1, "C", (1, 1, 1)),
        ((64, 64, 64), 2, "C", (2, 1, 1)),
        ((64, 64, 64), 2, "F", (1, 1, 2)),
        ((64, 64, 64), 4, "C", (4, 1, 1)),
        ((64, 64, 64), 8, "C", (4, 2, 1)),
        ((64, 64, 64), 8, "F", (1, 2, 4)),
        ((1000, 10), 4, "C", (4, 1)),
        ((3, 4, 200), 6, "C", (1, 1, 6)),
        ((100,), 7, "C", (7,)),
    ],
)
def test_grids_that_one_would_choose(shape: Any, count: int, order: Any, expected: Any) -> None:
    assert best_grid(shape, count, (1,) * len(shape), order) == expected


@given(gs.layouts())
def test_every_cell_has_the_owner_that_the_layout_names(layout: Layout) -> None:
    points = list(layout.domain)
    expected = [owner(layout, p) for p in points]
    assert [layout.owner(p) for p in points] == expected
    many = np.array(points)
    for form in (many, np.asfortranarray(many), many.reshape(1, *many.shape), tuple(many.T.astype(np.int16))):
        found = layout.owner(form)
        assert found.dtype == np.int32
        assert found.ravel().tolist() == expected


@given(gs.layouts(), st.data())
def test_points_outside_of_the_domain(layout: Layout, data: st.DataObject) -> None:
    """Around the periodic axes they are cells; along the others they are refused, the first one by its name."""
    lo, hi = layout.domain.lo, layout.domain.hi
    point = Point(data.draw(st.integers(a - 9, b + 9)) for a, b in zip(lo, hi, strict=True))
    cell, many = home(layout, point), np.array([lo, point, lo])
    if cell is not None:
        assert layout.owner(point) == owner(layout, cell) == layout.owner(many)[1]
    else:
        with pytest.raises(UsageError, match=re.escape(f"{point!r} is not in {layout.domain!r}")):
            layout.owner(point)
        with pytest.raises(UsageError, match=re.escape(f"{point!r}, point 1 of 3, is not in {layout.domain!r}")):
            layout.owner(many)


def test_owners_along_an_axis_that_is_too_long_for_a_table() -> None:
    layout = Layout.divide(10**12, 7)
    ends = np.array([layout.owned(rank).hi[0] for rank in range(7)])
    assert layout.owner(np.concatenate([ends - 1, ends[:-1]])[:, None]).tolist() == [*range(7), *range(1, 7)]


@pytest.mark.parametrize("points", [np.zeros((3, 2)), np.zeros((2, 3), int), (np.zeros(2, int), np.zeros(3, int))])
def test_what_are_no_points_is_refused(points: Any) -> None:
    with pytest.raises(UsageError, match="an ndarray whose last axis has 2 coordinates or a tuple of 2"):
        Layout.divide((4, 4), 2).owner(points)


@given(gs.layouts(), st.data())
def test_faces_belong_to_the_owners_of_the_cells_behind_them(layout: Layout, data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.integers(0, layout.domain.ndim - 1), unique=True))
    faces = layout.staggered(*axes)
    last = [axis for axis in axes if not layout.periodic[axis]]
    assert faces.domain.shape == tuple(n + (axis in last) for axis, n in enumerate(layout.domain.shape))
    for p in faces.domain:
        behind = Point(min(x, end - 1) for x, end in zip(p, layout.domain.hi, strict=True))
        assert owner(faces, p) == faces.owner(p) == owner(layout, behind)
    for name in ("grid", "ghost", "periodic", "order", "division"):
        assert getattr(faces, name) == getattr(layout, name)


def test_staggering_one_axis_after_the_other() -> None:
    cells = Layout.divide((6, 4, 2), 6, cuts=((6, 0), None, None))
    assert cells.staggered(0).staggered(2) == cells.staggered(2, 0)
    assert cells.staggered(0).cuts == ((7, 0), None, None)
    for axes in ((0, 0), (3,), (-1,)):
        with pytest.raises(UsageError, match="give axes from 0 to 2, each once"):
            cells.staggered(*axes)


@given(
    st.lists(st.one_of(st.integers(0, 5), st.sampled_from([0.1, 0.3, 7.5])), min_size=1, max_size=8), st.integers(1, 5)
)
def test_the_heaviest_block_is_as_light_as_possible(weights: list[float], parts: int) -> None:
    (widths,) = Layout.divide(len(weights), parts).balanced([weights]).cuts or ()
    assert widths is not None
    assert sum(widths) == len(weights)

    def heaviest(cut: Sequence[int]) -> float:
        return max(sum(weights[a:b]) for a, b in itertools.pairwise(cut))

    inside = itertools.combinations_with_replacement(range(len(weights) + 1), parts - 1)
    least = min(heaviest([0, *cut, len(weights)]) for cut in inside)
    assert heaviest([0, *itertools.accumulate(widths)]) == pytest.approx(least, rel=1e-12)


def test_equal_weights_leave_no_block_empty() -> None:
    for n, parts in ((10, 4), (7, 7), (9, 2), (64, 6)):
        for weight in (0, 1):
            (widths,) = Layout.divide(n, parts).balanced([np.full(n, weight)]).cuts or ()
            assert sorted({*(widths or ()), n // parts})[-1] == -(-n // parts)
            assert min(widths or ()) > 0


def test_axes_without_weights_stay_as_they_are() -> None:
    layout = Layout.divide((6, 8), 4, cuts=((5, 1), None))
    assert layout.balanced([None, [1] * 4 + [0] * 4]).cuts == ((5, 1), (2, 6))
    assert Layout.divide((6, 8), 4).balanced([None, None]) == Layout.divide((6, 8), 4)


@pytest.mark.parametrize(
    "weights", [[], [1, 2], np.ones(3), [[1, 2]], [[1, -1, 1]], [[1, math.nan, 1]], [[1e308] * 3], [["a"] * 3]]
)
def test_what_are_no_weights_is_refused(weights: Any) -> None:
    with pytest.raises(UsageError, match=r"balanced got weights|weights of axis 0|weights of the coordinates"):
        Layout.divide(3, 2).balanced(weights)


@given(gs.layouts())
def test_dividing_with_all_options_gives_the_layout_again(layout: Layout) -> None:
    options = {name: getattr(layout, name) for name in ("ghost", "periodic", "grid", "cuts", "order", "division")}
    assert Layout.divide(layout.domain, len(ranks(layout)), **options) == layout


def test_dividing_takes_shapes_and_one_option_for_all_axes() -> None:
    layout = Layout.divide((20, 8, 8), 6, ghost=2, periodic=True)
    assert layout == Layout(RectDomain.from_shape((20, 8, 8)), (6, 1, 1), (2,) * 3, (True,) * 3, "C")
    assert Layout.divide(10, 3, order="F").grid == (3,)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"domain": RectDomain(0, 10, 2)}, "dense"),
        ({"domain": RectDomain(0, 0)}, "at least one cell"),
        ({"grid": (3,)}, "3 blocks for 4 ranks"),
        ({"ghost": -1}, "ghost=-1"),
        ({"ghost": (1, 1)}, "each of the 1 axes"),
        ({"periodic": 1}, "periodic=1"),
        ({"cuts": 4}, "cuts=4: give for each of the 1 axes"),
        ({"cuts": ((5, 5), (1,))}, "give for each of the 1 axes"),
        ({"cuts": ((),)}, "give for each of the 1 axes"),
        ({"cuts": ((5, 5, 0, 1),)}, "axis 0 add up to 11: give widths of 0 or more that add up to its extent, 10"),
        ({"cuts": ((-1, 11, 0, 0),)}, "widths of 0 or more"),
        ({"cuts": ((2.5, 2.5, 2.5, 2.5),)}, "give one int"),
        ({"cuts": ((4, 3, 3),)}, "cuts with 3 blocks for 4 ranks"),
        ({"domain": (10, 9), "cuts": ((4, 3, 3), None)}, "cuts with 3 x any blocks for 4 ranks"),
        ({"domain": (10, 9), "cuts": ((5, 5), None), "grid": (4, 1)}, "as many widths as blocks"),
        ({"order": "A"}, "order='A'"),
        ({"division": "even"}, "division='even': legal are"),
    ],
)
def test_what_cannot_be_divided_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Layout.divide(**{"domain": 10, "ranks": 4, **options})
