"""Unions of boxes: examples that a reader can check by eye, normal form and messages."""

from __future__ import annotations

import pickle

import pytest

from gondwana.domains import Domain, Point, RectDomain, X, Y

square = RectDomain.from_shape((4, 4))
EMPTY = RectDomain(0, (0, 0))


def test_rim_and_inner_make_the_box_again() -> None:
    inner = square.shrink(1)
    rim = square - inner
    assert rim.size == 12
    assert rim | inner == square == inner | rim
    assert (rim | inner).rects == (square,)
    assert hash(rim | inner) == hash(square)
    assert rim.isdisjoint(inner)
    assert rim < square
    assert square > rim
    assert square - rim == inner


def test_overlaps_count_once() -> None:
    cross = Domain.of(RectDomain((0, 1), (3, 2)), RectDomain((1, 0), (2, 3)))
    assert cross.size == len(list(cross)) == len(set(cross)) == 5
    assert str(cross) == "[0:2, 1:1] | [1:1, 0:0] | [1:1, 2:2]"


def test_red_and_black_points() -> None:
    red = Domain.of(*[RectDomain((0, 0), (8, 8), 2) + shift for shift in ((0, 0), (1, 1))])
    black = RectDomain.from_shape((8, 8)) - red
    assert red.size == black.size == 32
    assert all(sum(p) % 2 == 1 for p in black)
    assert (red | black).is_rectangular
    assert (red | black) == RectDomain.from_shape((8, 8))


def test_is_rectangular_finds_strided_boxes() -> None:
    evens = Domain.from_points([0, 2, 4, 6])
    assert evens.is_rectangular
    assert evens == RectDomain(0, 8, 2)
    assert evens.rects == (RectDomain(0, 8, 2),)
    assert not Domain.from_points([0, 2, 3]).is_rectangular
    assert Domain.of(EMPTY).is_rectangular


def test_points_merge_into_few_boxes() -> None:
    box = RectDomain.from_shape((5, 6, 7))
    assert Domain.from_points(box).rects == (box,)
    assert len(Domain.from_points([*box, (50, 50, 50)]).rects) == 2


def test_the_empty_domain_has_a_dimension() -> None:
    empty = Domain.of(EMPTY)
    assert empty == EMPTY == Domain.from_points([], ndim=2) == square - square
    assert hash(empty) == hash(EMPTY)
    assert empty != Domain.from_points([], ndim=3)
    assert (empty.ndim, empty.size, list(empty), bool(empty)) == (2, 0, [], False)
    assert empty.bounding_box == EMPTY
    assert eval(repr(empty)) == empty
    assert str(empty) == "[empty, 2-D]"


def test_result_does_not_depend_on_the_order_of_operands() -> None:
    boxes = [RectDomain((0, 0), (2, 9)), RectDomain((5, 5), (6, 6)), RectDomain((1, 3), (8, 4), (2, 1))]
    assert Domain.of(*boxes) == Domain.of(*reversed(boxes))
    assert (boxes[0] | boxes[1]).rects == (boxes[1] | boxes[0]).rects


def test_domains_mix_with_boxes_and_points() -> None:
    rim = square - square.shrink(1)
    assert type(rim & square) is type(square & rim) is Domain
    assert (rim + 10).bounding_box == square + 10
    assert rim + X - X == rim
    assert (0, 3) in rim
    assert Point(1, 1) not in rim
    assert (rim + Y).permute((1, 0)) == rim + X


def test_domains_survive_pickle() -> None:
    rim = square - square.shrink(1)
    assert pickle.loads(pickle.dumps(rim)).rects == rim.rects


def test_errors_say_how_domains_are_made() -> None:
    with pytest.raises(TypeError, match=r"made by Domain\.of"):
        Domain()
    with pytest.raises(ValueError, match="an empty one for the empty set"):
        Domain.of()
    with pytest.raises(ValueError, match="both need the same"):
        Domain.of(square, RectDomain(0, 3))
    with pytest.raises(ValueError, match="give ndim"):
        Domain.from_points([])
    with pytest.raises(ValueError, match="dimension 1 where 2 is needed"):
        Domain.from_points([(1, 2), (3,)])
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = Domain.of(square) | {(1, 2)}  # type: ignore[operator]
