"""Boxes: examples that a reader can check by eye, normal form, limits and messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from gondwana.domains import Point, RectDomain, X, Z

square = RectDomain.inclusive((0, 0), (9, 9))


def test_the_ghosted_grid_of_multigrid() -> None:
    ghosted = RectDomain.inclusive((-1, -1, -1), (256, 256, 256))
    assert ghosted.shape == (258, 258, 258)
    assert ghosted.shrink(1) == RectDomain((0, 0, 0), (256, 256, 256)) == RectDomain.from_shape((256,) * 3)
    assert ghosted.shrink(1).accrete(1) == ghosted


def test_ghost_update_is_an_intersection() -> None:
    mine, neighbour = RectDomain((0, 0), (4, 8)), RectDomain((4, 0), (8, 8))
    assert neighbour.accrete(1) & mine == RectDomain((3, 0), (4, 8)) == mine.border(1, 0, side=1, shift=-1)
    periodic_image = neighbour.translate((-8, 0))
    assert mine.accrete(1) & periodic_image == mine.border(1, 0, side=-1)


def test_one_dimension_needs_no_tuples() -> None:
    row = RectDomain(3, 10)
    assert (row.lo, row.hi, row.shape, row.size) == ((3,), (10,), (7,), 7)
    assert 3 in row
    assert np.int64(9) in row
    assert 10 not in row
    assert list(RectDomain(0, 3)) == [(0,), (1,), (2,)]
    assert RectDomain.from_shape(4) == RectDomain(0, 4)


def test_an_integer_corner_takes_the_dimension_of_the_other() -> None:
    assert RectDomain(0, (4, 5)) == RectDomain((0, 0), (4, 5))
    assert RectDomain((0, 1), 4) == RectDomain((0, 1), (4, 4))
    assert RectDomain([0, 0], np.array([4, 5])) == RectDomain(0, (4, 5))


def test_normal_form() -> None:
    assert RectDomain(0, 10, 3).hi == (10,)
    assert RectDomain(0, 12, 3) == RectDomain(0, 10, 3)
    assert RectDomain(0, 3, 3) == RectDomain(0, 1)
    assert RectDomain(0, 3, 3).is_dense
    empty = RectDomain((5, 5), (5, 9))
    assert empty == RectDomain((0, 0), (-3, 4), 7) == square - (1, 1) & square + 50
    assert (empty.lo, empty.hi, empty.stride, empty.shape) == ((0, 0), (0, 0), (1, 1), (0, 0))
    assert hash(empty) == hash(RectDomain((1, 1), (1, 1)))
    assert empty != RectDomain(0, 0)


def test_the_empty_box_stays_empty() -> None:
    empty = RectDomain((0, 0), (0, 0))
    for same in (empty.accrete(3), empty + 5, empty * 2, empty // 2, empty.border(2, 1, side=1), empty.with_stride(2)):
        assert same == empty
    assert list(empty) == []
    assert empty.rects == ()
    assert not empty
    assert empty.blocks((2, 2)) == (empty,) * 4
    assert empty <= square
    for name in ("first", "last"):
        with pytest.raises(ValueError, match=f"an empty RectDomain has no {name} point"):
            getattr(empty, name)


def test_one_sided_shrink_and_accrete() -> None:
    assert square.shrink(2, +1) == RectDomain((0, 0), (8, 10))
    assert square.shrink(2, -2) == RectDomain((0, 2), (10, 10))
    assert square.accrete(2, -1) == RectDomain((-2, 0), (10, 10))
    assert square.shrink((1, 0)) == RectDomain((1, 0), (9, 10))
    assert square.shrink(X) == square.shrink((1, 0))


def test_layers_of_a_strided_box_are_strides() -> None:
    red = RectDomain(0, 10, 2)
    assert red.shrink(1) == RectDomain(2, 7, 2)
    assert red.accrete(1) == RectDomain(-2, 11, 2)
    assert red.border(2, 0, side=1) == RectDomain(10, 13, 2)


def test_intersection_of_different_strides_is_exact() -> None:
    assert RectDomain(0, 100, 6) & RectDomain(3, 100, 9) == RectDomain(12, 100, 18)
    assert (RectDomain(0, 100, 6) & RectDomain(1, 100, 4)).is_empty
    huge = RectDomain(0, 10**30, 10**9 + 7) & RectDomain(0, 10**30, 998244353)
    assert huge.stride == ((10**9 + 7) * 998244353,)


def test_huge_boxes_cost_nothing() -> None:
    huge = RectDomain((0, 0), (10**15, 10**15))
    assert huge.size == 10**30
    assert huge
    assert next(iter(huge)) == (0, 0)
    assert (huge - huge.shrink(1)).size == 4 * 10**15 - 4
    with pytest.raises(OverflowError, match=r"use \.size"):
        len(huge)


def test_difference_takes_slabs_off_the_first_axis_first() -> None:
    rim = square - square.shrink(1)
    assert rim.rects == (
        RectDomain((0, 0), (1, 10)),
        RectDomain((1, 0), (9, 1)),
        RectDomain((1, 9), (9, 10)),
        RectDomain((9, 0), (10, 10)),
    )


def test_what_lies_between_strides_is_cut_in_the_fewer_pieces() -> None:
    row = RectDomain(0, 101)
    assert len((row - row.with_stride(2)).rects) == 1
    assert len((row - row.with_stride(50)).rects) == 2
    assert (row - row.with_stride(50)).size == 98


def test_balanced_blocks() -> None:
    assert [block.shape for block in RectDomain(0, 10).blocks(4)] == [(3,), (3,), (2,), (2,)]
    assert [block.size for block in RectDomain(0, 2).blocks(3)] == [1, 1, 0]
    assert RectDomain((5, 5), (9, 8)).subblock((2, 3), (1, 2)) == RectDomain((7, 7), (9, 8))


def test_scaling_between_levels_of_a_multigrid() -> None:
    coarse = RectDomain.from_shape((4, 4))
    assert coarse * 2 == RectDomain(0, (7, 7), 2)
    assert coarse * 2 // 2 == coarse
    assert RectDomain.from_shape((8, 8)) // 2 == coarse
    assert RectDomain(1, 4) * -1 == RectDomain(-3, 0)
    assert square * 0 == RectDomain(0, (1, 1))
    assert np.int64(2) * coarse == coarse * 2


def test_text_of_boxes() -> None:
    strided = RectDomain((0, 0), (10, 10), (1, 3))
    assert repr(square) == "RectDomain((0, 0), (10, 10))"
    assert repr(strided) == "RectDomain((0, 0), (10, 10), (1, 3))"
    assert repr(RectDomain(1, 5)) == "RectDomain(1, 5)"
    assert str(strided) == "[0:9, 0:9:3]"
    assert str(RectDomain(0, (0, 0))) == "[empty, 2-D]"


def test_values_survive_pickle_and_hold_no_dict() -> None:
    for box in (square, RectDomain(0, 10, 3)):
        assert pickle.loads(pickle.dumps(box)) == box
        assert not hasattr(box, "__dict__")


def test_boxes_are_keys_and_compare_with_other_types() -> None:
    assert {square: 1}[RectDomain((0, 0), (10, 10))] == 1
    assert square != 3
    assert square != ((0, 0), (10, 10))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RectDomain((0, 0), (1, 1, 1)), ValueError, "dimension 3 where 2 is needed"),
        (lambda: RectDomain(0, 5, 0), ValueError, "at least 1 in every axis"),
        (lambda: RectDomain(0, 5.0), TypeError, "must be an integer, not 5.0"),
        (lambda: RectDomain(0, True), TypeError, "must be an integer, not True"),
        (lambda: RectDomain.from_shape((2, -1)), ValueError, r"shape \(2, -1\) has a negative extent"),
        (lambda: RectDomain.from_axes([range(5, 0, -1)]), ValueError, "at least 1 in every axis"),
        (lambda: square.shrink(1, 3), ValueError, "direction 3 does not exist"),
        (lambda: square.shrink((1, 1), 1), TypeError, "must be an integer"),
        (lambda: square.border(-1, 1, side=1), ValueError, "a border of width -1"),
        (lambda: square.border(1, 2, side=1), ValueError, "axis 2 does not exist"),
        (lambda: square.border(1, 1, side=2), ValueError, "side 2 does not exist"),
        (lambda: square.border(1, -2), TypeError, r"is border\(1, 1, side=-1\)"),
        (lambda: square.slice(2), ValueError, "axis 2 does not exist"),
        (lambda: RectDomain(0, 5).slice(0), ValueError, "cannot be sliced"),
        (lambda: square.permute((0, 2)), ValueError, "not a permutation"),
        (lambda: square.blocks((0, 2)), ValueError, "at least one block"),
        (lambda: square.subblock((2, 2), (0, 2)), ValueError, r"block \(0, 2\) does not exist"),
        (lambda: square & RectDomain(0, 3), ValueError, "both need the same"),
        (lambda: square | RectDomain(0, 3), ValueError, "both need the same"),
        (lambda: square - RectDomain(0, 3), ValueError, "both need the same"),
        (lambda: square <= RectDomain(0, 3), ValueError, "both need the same"),
        (lambda: square + Z, ValueError, "needs axis 2"),
        (lambda: square + 1.5, TypeError, "unsupported operand"),
        (lambda: square + True, TypeError, "unsupported operand"),
        (lambda: square | Point(1, 2), TypeError, "unsupported operand"),
        (lambda: 3 in square, TypeError, "points or tuples of 2 integers"),
        (lambda: (1, 2, 3) in square, ValueError, "dimension 3 where 2 is needed"),
        (lambda: RectDomain(0, 10, 5) // 3, ValueError, "legal are multiples of 3 and up to 3"),
        (lambda: square // 0, ZeroDivisionError, "by zero"),
    ],
)
def test_errors_say_what_is_legal(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
