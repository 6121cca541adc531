"""Every operation of the domain calculus against Python's sets of tuples, in one, two and three dimensions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise, permutations, product

import pytest
from hypothesis import assume, given, strategies as st

from gondwana.domains import Domain, IndexSet, Offset, Point, RectDomain
from gondwana.testing.strategies import coordinates, corners, dimensions, domains, offsets, points, rect_domains

Coordinates = tuple[int, ...]


def listed(lo: Point, hi: Point, stride: Point) -> list[Coordinates]:
    """What RectDomain(lo, hi, stride) has to contain, in row-major order."""
    return list(product(*map(range, lo, hi, stride)))


def points_of(index_set: IndexSet) -> set[Coordinates]:
    return {tuple(p) for p in index_set}


def check(result: IndexSet, expected: set[Coordinates]) -> None:
    """The result has exactly the expected points, and its other answers agree with them."""
    assert points_of(result) == expected
    assert len(result) == result.size == len(expected)
    assert result.is_empty is (not expected)
    assert bool(result) is bool(expected)
    rects = result.rects
    assert all(rect.size > 0 for rect in rects)
    assert sum(rect.size for rect in rects) == len(expected), "boxes overlap"
    assert [tuple(rect.lo) for rect in rects] == sorted(tuple(rect.lo) for rect in rects)
    assert result == Domain.from_points(expected, result.ndim)
    assert hash(result) == hash(Domain.from_points(expected, result.ndim))
    if expected:
        box = result.bounding_box
        assert tuple(box.lo) == tuple(map(min, *expected, next(iter(expected))))
        assert tuple(box.hi - 1) == tuple(map(max, *expected, next(iter(expected))))
        assert box.is_dense


@st.composite
def samples(draw: st.DrawFn, *strategies: Callable[[int], st.SearchStrategy[object]]) -> tuple[object, ...]:
    """One draw from each strategy, all of one dimension."""
    ndim = draw(dimensions())
    return tuple(draw(strategy(ndim)) for strategy in strategies)


def index_sets(ndim: int) -> st.SearchStrategy[IndexSet]:
    return st.one_of(rect_domains(ndim), domains(ndim))


# ---------------------------------------------------------------------------------------------------------- points


@given(samples(points, points), st.sampled_from([operator.add, operator.sub, operator.mul]))
def test_point_arithmetic_is_component_wise(pair: tuple[Point, Point], operation: Callable[..., Point]) -> None:
    p, q = pair
    expected = tuple(map(operation, p, q))
    assert tuple(operation(p, q)) == tuple(operation(p, tuple(q))) == tuple(operation(tuple(p), q)) == expected
    assert tuple(operation(p, 3)) == tuple(operation(a, 3) for a in p)
    assert tuple(operation(3, p)) == tuple(operation(3, a) for a in p)
    assert type(operation(p, q)) is Point


@given(samples(points, points), st.sampled_from([operator.floordiv, operator.mod]))
def test_point_division_rounds_down_as_pythons(pair: tuple[Point, Point], operation: Callable[..., Point]) -> None:
    p, q = pair
    assume(0 not in q)
    assert tuple(operation(p, q)) == tuple(map(operation, p, q))
    assert p == p // q * q + p % q


@given(samples(points, points))
def test_point_order_holds_in_every_component(pair: tuple[Point, Point]) -> None:
    p, q = pair
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        assert compare(p, q) is all(map(compare, p, q))
        assert compare(tuple(p), q) is compare(p, tuple(q)) is compare(p, q)
        assert compare(p, 1) is all(compare(a, 1) for a in p)
    assert p.lower(q) <= p <= p.upper(q)
    assert p.lower(q) + p.upper(q) == p + q


@given(samples(points, points), offsets(1), offsets(1))
def test_offsets_are_points_of_any_dimension(pair: tuple[Point, Point], a: Offset, b: Offset) -> None:
    p, _ = pair
    assert p + a == a + p == p + a.as_point(p.ndim)
    assert p - a == p + -a == p - a.as_point(p.ndim)
    assert a - p == -(p - a)
    assert (a + b).as_point(p.ndim) == a.as_point(p.ndim) + b.as_point(p.ndim)
    assert (a - b).as_point(p.ndim) == a.as_point(p.ndim) - b.as_point(p.ndim)
    assert (3 * a).as_point(p.ndim) == 3 * a.as_point(p.ndim)


@given(offsets(), offsets())
def test_equal_offsets_hash_alike(a: Offset, b: Offset) -> None:
    assert a + b == b + a
    assert hash(a + b) == hash(b + a)
    assert a - a == Offset()
    assert (a == b) is (a.as_point(3) == b.as_point(3))
    assert eval(repr(a)) == a


# ----------------------------------------------------------------------------------------------------------- boxes


@given(samples(corners))
def test_box_is_the_product_of_ranges(arguments: tuple[tuple[Point, Point, Point]]) -> None:
    expected = listed(*arguments[0])
    box = RectDomain(*arguments[0])
    check(box, set(expected))
    assert [tuple(p) for p in box] == expected, "not in row-major order"
    assert RectDomain.from_axes(box.axes) == box
    assert eval(repr(box)) == box
    assert all(len(r) == n for r, n in zip(box.axes, box.shape, strict=True))
    if expected:
        assert (box.first, box.last, box.hi) == (expected[0], expected[-1], Point(expected[-1]) + 1)
        assert box.stride == tuple(s if n > 1 else 1 for s, n in zip(arguments[0][2], box.shape, strict=True))


@given(samples(corners, points))
def test_membership(sample: tuple[tuple[Point, Point, Point], Point]) -> None:
    arguments, p = sample
    assert (p in RectDomain(*arguments)) is (tuple(p) in set(listed(*arguments)))


@given(samples(rect_domains, rect_domains))
def test_equal_boxes_are_equal_in_every_way(pair: tuple[RectDomain, RectDomain]) -> None:
    a, b = pair
    same = points_of(a) == points_of(b)
    assert (a == b) is same
    if same:
        assert hash(a) == hash(b)
        assert (a.lo, a.hi, a.stride, a.shape, repr(a), str(a)) == (b.lo, b.hi, b.stride, b.shape, repr(b), str(b))


@given(samples(rect_domains, points, points), st.sampled_from([None, 1, -1, 2, -2, 3, -3]))
def test_shrink_and_accrete_count_layers(sample: tuple[RectDomain, Point, Point], direction: int | None) -> None:
    box, widths, _ = sample
    if direction is None:
        sides = {d: widths[abs(d) - 1] for axis in range(1, box.ndim + 1) for d in (axis, -axis)}
        width: Point | int = widths
    else:
        assume(abs(direction) <= box.ndim)
        sides, width = {direction: widths[0]}, widths[0]
    axes = []
    for axis, r in enumerate(box.axes, start=1):
        below, above = sides.get(-axis, 0), sides.get(axis, 0)
        axes.append(range(r.start - below * r.step, r.stop + above * r.step, r.step))
    expected = set() if box.is_empty else set(product(*axes))
    check(box.accrete(width, direction), expected)
    check(box.shrink(-widths if direction is None else -widths[0], direction), expected)


@given(samples(rect_domains, lambda ndim: points(ndim, st.integers(0, 3)), points))
def test_borders_are_what_accrete_adds(sample: tuple[RectDomain, Point, Point]) -> None:
    box, widths, shifts = sample
    faces = box.faces(widths, shifts)
    assert list(faces) == [(axis, side) for axis in range(box.ndim) for side in (-1, 1)]
    for (axis, side), face in faces.items():
        width, shift, direction = widths[axis], shifts[axis], side * (axis + 1)
        assert face == box.border(width, axis, side=side, shift=shift)
        adjoining = box.border(width, axis, side=side)
        check(adjoining, points_of(box.accrete(width, direction)) - points_of(box))
        others = box.accrete([0 if other == axis else width for other in range(box.ndim)])
        check(
            box.border(width, axis, side=side, corners=True),
            points_of(others.accrete([width if other == axis else 0 for other in range(box.ndim)]))
            - points_of(others.accrete(width, -direction)),
        )
        step = Point.direction(direction, box.ndim) * box.stride * shift
        check(face, {tuple(p + step) for p in adjoining})
        if not box.is_empty and width <= box.shape[axis]:
            inside = box.border(width, axis, side=side, shift=-width)
            check(inside, points_of(box) - points_of(box.shrink(width, direction)))


@given(samples(rect_domains, points, points))
def test_translate_and_scale(sample: tuple[RectDomain, Point, Point]) -> None:
    box, p, _ = sample
    every = points_of(box)
    check(box.translate(p), {tuple(Point(q) + p) for q in every})
    assert box + p == p + box == box + tuple(p) == box.translate(p)
    assert box - p == box + -p
    assert box + 2 == box.translate(2)
    assert box + Offset((1,)) == box.translate(Point.direction(1, box.ndim))
    check(box * p, {tuple(Point(q) * p) for q in every})
    assert p * box == box * p


@given(samples(rect_domains, points))
def test_floor_division_is_exact_or_refused(sample: tuple[RectDomain, Point]) -> None:
    box, divisor = sample
    if 0 in divisor:
        with pytest.raises(ZeroDivisionError):
            _ = RectDomain.from_shape((1,) * box.ndim) // divisor
        return
    legal = all(s <= abs(d) or s % d == 0 for s, d in zip(box.stride, divisor, strict=True))
    if legal or box.is_empty:
        check(box // divisor, {tuple(Point(p) // divisor) for p in points_of(box)})
    else:
        with pytest.raises(ValueError, match="is no stride"):
            _ = box // divisor


@given(samples(rect_domains, points), st.integers(0, 2), coordinates())
def test_slice_drops_an_axis(sample: tuple[RectDomain, Point], axis: int, at: int) -> None:
    box = sample[0]
    assume(axis < box.ndim and box.ndim > 1)
    check(box.slice(axis), {p[:axis] + p[axis + 1 :] for p in points_of(box)})
    check(box.slice(axis, at), {p[:axis] + p[axis + 1 :] for p in points_of(box) if p[axis] == at})


@given(samples(index_sets, points))
def test_permute_follows_numpy(sample: tuple[IndexSet, Point]) -> None:
    index_set, p = sample
    for order in permutations(range(index_set.ndim)):
        check(index_set.permute(order), {tuple(q[a] for a in order) for q in points_of(index_set)})
        assert p.permute(order) == tuple(p[a] for a in order)


@given(samples(rect_domains, lambda ndim: points(ndim, st.integers(1, 4))))
def test_blocks_are_a_balanced_partition(sample: tuple[RectDomain, Point]) -> None:
    box, grid = sample
    blocks = box.blocks(grid)
    places = list(product(*map(range, grid)))
    assert len(blocks) == len(places)
    assert sum(block.size for block in blocks) == box.size
    assert {p for block in blocks for p in points_of(block)} == points_of(box)
    for place, block in zip(places, blocks, strict=True):
        assert block == box.subblock(grid, place)
        cells = []
        for r, parts, index in zip(box.axes, grid, place, strict=True):
            share, extra = divmod(len(r), parts)
            begin = share * index + min(extra, index)
            cells.append(r[begin : begin + share + (1 if index < extra else 0)])
        assert points_of(block) == set(product(*cells))


@given(samples(rect_domains, lambda ndim: points(ndim, st.integers(1, 5))))
def test_with_stride_keeps_the_bounds(sample: tuple[RectDomain, Point]) -> None:
    box, stride = sample
    check(box.with_stride(stride), set(listed(box.lo, box.hi, stride)))


# ------------------------------------------------------------------------------------------------------------- sets


@given(samples(rect_domains, rect_domains, lambda ndim: points(ndim, st.integers(1, 3))))
def test_difference_of_boxes_has_few_boxes(sample: tuple[RectDomain, RectDomain, Point]) -> None:
    a, b, stride = sample[0].bounding_box, sample[1].bounding_box, sample[2]
    assert len((a - b).rects) <= 2 * a.ndim
    assert len((a * stride - b * stride).rects) <= 2 * a.ndim


@given(samples(index_sets, index_sets))
def test_set_algebra(pair: tuple[IndexSet, IndexSet]) -> None:
    a, b = pair
    p, q = points_of(a), points_of(b)
    check(a | b, p | q)
    check(a & b, p & q)
    check(a - b, p - q)
    assert type(a | b) is type(a - b) is Domain
    assert type(a & b) is (RectDomain if isinstance(a, RectDomain) and isinstance(b, RectDomain) else Domain)


@given(samples(index_sets, index_sets, index_sets))
def test_inclusion_and_equality(triple: tuple[IndexSet, IndexSet, IndexSet]) -> None:
    a, b, c = triple
    for x, y in ((a, b), (a & b, a), (a | c, c), ((a - b) | (a & b), a)):
        p, q = points_of(x), points_of(y)
        assert (x == y) is (p == q)
        assert (x != y) is (p != q)
        assert (x <= y) is x.issubset(y) is (p <= q)
        assert (x >= y) is x.issuperset(y) is (p >= q)
        assert (x < y) is (p < q)
        assert (x > y) is (p > q)
        assert x.isdisjoint(y) is p.isdisjoint(q)
        if x == y:
            assert hash(x) == hash(y)


@given(samples(domains, points))
def test_domain_values(sample: tuple[Domain, Point]) -> None:
    domain, p = sample
    every = points_of(domain)
    check(domain, every)
    check(domain + p, {tuple(Point(q) + p) for q in every})
    assert domain + p == p + domain == domain.translate(p)
    assert domain - p == domain + -p
    assert (p in domain) is (tuple(p) in every)
    assert eval(repr(domain)) == domain
    axes = [sorted({q[axis] for q in every}) for axis in range(domain.ndim)]
    evenly_spaced = all(len({after - before for before, after in pairwise(axis)}) <= 1 for axis in axes)
    assert domain.is_rectangular is (evenly_spaced and set(product(*axes)) == every)


@given(dimensions().flatmap(lambda ndim: st.tuples(st.just(ndim), st.lists(points(ndim), max_size=12))))
def test_from_points(sample: tuple[int, list[Point]]) -> None:
    ndim, several = sample
    domain = Domain.from_points(several, ndim)
    check(domain, {tuple(p) for p in several})
    assert Domain.from_points(reversed(several), ndim).rects == domain.rects
