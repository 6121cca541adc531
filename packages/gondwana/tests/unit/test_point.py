"""Points and offsets: what they accept, what they refuse, and how they look."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from gondwana.domains import Offset, Point, X, Y, Z, as_point


def test_points_are_made_of_integers_or_of_one_iterable() -> None:
    assert Point(1, 2) == Point((1, 2)) == Point([1, 2]) == Point(iter((1, 2))) == Point(np.array([1, 2])) == (1, 2)
    assert Point(7) == Point([7]) == (7,)
    assert Point(2**80)[0] == 2**80
    assert all(type(c) is int for c in Point(np.int32(1), np.uint8(2)))


@pytest.mark.parametrize(
    "coords", [(1.5,), (1, 2.0), (True, 1), ("12",), (None,), ([1.0],), (np.float64(1), 2), (np.True_,)]
)
def test_points_refuse_what_is_not_an_integer(coords: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match=r"a coordinate must be an integer"):
        Point(*coords)


def test_points_need_a_coordinate() -> None:
    with pytest.raises(ValueError, match="at least one coordinate"):
        Point()
    with pytest.raises(ValueError, match="0 dimensions"):
        Point.all(1, 0)


def test_points_are_tuples_of_one_hash() -> None:
    p = Point(1, 2, 3)
    assert isinstance(p, tuple)
    assert (p.ndim, len(p), p[0], p[-1], p[:2], list(p)) == (3, 3, 1, 3, (1, 2), [1, 2, 3])
    assert {p: "value"}[1, 2, 3] == "value"
    assert np.arange(24).reshape(2, 3, 4)[Point(1, 2, 3)] == 23
    assert repr(p) == str(p) == "Point(1, 2, 3)"
    assert not hasattr(p, "__dict__")


def test_values_survive_pickle_and_copy() -> None:
    for value in (Point(1, -2), X - 2 * Z, Offset()):
        for twin in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
            assert twin == value
            assert type(twin) is type(value)


def test_both_orders_may_be_false() -> None:
    p, q = Point(0, 5), Point(1, 4)
    assert not p < q
    assert not p >= q
    assert sorted([q, p], key=tuple) == [p, q]


def test_helpers_of_points() -> None:
    p = Point(3, -4, 5)
    assert abs(p) == (3, 4, 5)
    assert -p == (-3, 4, -5)
    assert +p is p
    assert p.dot(2) == 8
    assert p.replace(-1, 0) == (3, -4, 0)
    assert [Point.direction(d, 2) for d in (1, -1, 2, -2)] == [(1, 0), (-1, 0), (0, 1), (0, -1)]


def test_numpy_integers_do_not_turn_points_into_arrays() -> None:
    for result in (np.int64(2) * Point(1, 2), Point(1, 2) * np.int64(2), np.int8(1) + Point(1, 3)):
        assert type(result) is Point
        assert result == (2, 4)
    assert type(np.int64(2) * X) is Offset


@pytest.mark.parametrize("other", [1.5, True, "ab", None, [1, 2], np.array([1, 2])])
def test_operators_refuse_other_types(other: object) -> None:
    with pytest.raises(TypeError):
        _ = Point(1, 2) + other  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = Point(1, 2) <= other  # type: ignore[operator]


def test_dimensions_must_agree() -> None:
    with pytest.raises(ValueError, match=r"Point\(1, 2\) has dimension 2 where 3 is needed"):
        _ = Point(1, 2, 3) + Point(1, 2)
    with pytest.raises(ValueError, match="direction 3 does not exist in 2 dimensions: legal are ±1 to ±2"):
        Point.direction(3, 2)
    with pytest.raises(ValueError, match="direction 0"):
        Point.direction(0, 2)
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        Point(1, 2).replace(2, 0)
    with pytest.raises(ValueError, match="not a permutation"):
        Point(1, 2).permute((0, 0))


def test_offsets_work_in_any_dimension_that_has_their_axes() -> None:
    assert (Point(5) + X, Point(5, 5) + X, Point(5, 5, 5, 5) - 2 * Y) == ((6,), (6, 5), (5, 3, 5, 5))
    assert Point(1, 1) + (X - Y) == (2, 0)
    assert (1, 1) - X == (0, 1)
    assert X - Point(1, 1) == (0, -1)
    with pytest.raises(ValueError, match=r"offset Z needs axis 2, but the point has 2 dimension"):
        _ = Point(1, 2) + Z


def test_offsets_have_one_form() -> None:
    assert (X.terms, Y.terms, Z.terms) == ((1,), (0, 1), (0, 0, 1))
    assert Offset((1, 0, 0)).terms == (1,)
    assert (X - X).terms == ()
    assert Offset.unit(4, 2) == 2 * Offset.unit(4)
    assert -X == X * -1 == Offset.unit(0, -1)
    assert X != (1,)
    assert [str(o) for o in (X, -X, X + 2 * Y - Z, Offset(), Offset.unit(3))] == ["X", "-X", "X + 2Y - Z", "0", "[3]"]


@pytest.mark.parametrize("other", [1, 1.5, True, "x"])
def test_offsets_add_to_points_and_offsets_only(other: object) -> None:
    with pytest.raises(TypeError):
        _ = X + other  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = X - other  # type: ignore[operator]


def test_offsets_refuse_what_is_not_an_integer() -> None:
    for wrong in (1.5, True):
        with pytest.raises(TypeError):
            _ = X * wrong
        with pytest.raises(TypeError):
            Offset((wrong,))
    with pytest.raises(TypeError):
        _ = X * X
    with pytest.raises(TypeError):
        _ = Point(1, 2) * X
    with pytest.raises(ValueError, match="axes count from 0"):
        Offset.unit(-1)


def test_as_point() -> None:
    assert as_point(3) == (3,)
    assert as_point(3, 2) == (3, 3)
    assert as_point(Y, 3) == (0, 1, 0)
    assert as_point(Y) == (0, 1)
    with pytest.raises(ValueError, match="dimension 2 where 3 is needed"):
        as_point((1, 2), 3)
