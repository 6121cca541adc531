"""Arrays on domains: views, indexing, copies and what other libraries see of them."""

from __future__ import annotations

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import GondwanaError, KernelError, UsageError

BOX = gw.RectDomain((-2, 3), (4, 8))


def numbered(domain: gw.RectDomain, dtype: str = "int64", order: str = "C") -> gw.Array:
    """An array whose elements say where they are: 1000 * x + y in two dimensions."""
    array = gw.Array.empty(domain, dtype, order=order)
    for p in domain:
        array[p] = tag(p)
    return array


def tag(p: gw.Point) -> int:
    return sum(x * 1000 ** (len(p) - 1 - axis) for axis, x in enumerate(p))


@pytest.mark.parametrize("order", ["C", "F"])
def test_elements_lie_at_their_coordinates(order: str) -> None:
    a = numbered(BOX, order=order)
    assert a.numpy().flags[f"{order}_CONTIGUOUS"]
    assert a[gw.Point(-2, 3)] == a[-2, 3] == a[(-2, 3)] == tag((-2, 3))
    assert a[np.int64(3), 7] == tag((3, 7))
    assert a.numpy()[0, 0] == tag((-2, 3))
    assert a[gw.Point(0, 3) + gw.X] == tag((1, 3))
    assert (a.shape, a.ndim, a.size, a.nbytes) == ((6, 5), 2, 30, 240)
    assert a.domain == BOX
    assert a.dtype == np.int64


def test_an_offset_is_an_index() -> None:
    a = numbered(gw.RectDomain((0, 0), (3, 3)))
    assert a[gw.X + gw.Y] == tag((1, 1))
    a[2 * gw.X] = 7
    assert a[2, 0] == 7


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "uint8", "uint64", "float32", "float64", "complex64", "complex128"]
)
def test_elements_of_every_dtype(dtype: str) -> None:
    a = gw.Array.zeros(gw.RectDomain(0, 3), dtype)
    a[1] = 1
    assert a.numpy().tolist() == [0, 1, 0]
    assert a.dtype == np.dtype(dtype)
    assert isinstance(a[1], np.float32 if dtype == "float32" else bool | int | float | complex)


def test_full_takes_the_dtype_of_the_value() -> None:
    assert gw.Array.full(BOX, 2).dtype == np.int64
    assert gw.Array.full(BOX, 2.5).dtype == np.float64
    assert gw.Array.full(BOX, 2.5, "float32")[-2, 3] == 2.5


@pytest.mark.parametrize(
    "index",
    [
        (-3, 3),
        (4, 3),
        (0, 8),
        gw.Point(0, 2),
        0,
        (0, 0, 0),
        (0,),
        gw.Point(1),
        gw.RectDomain((0, 0), (1, 4)),
        (0, slice(3, 8, -1)),
    ],
)
def test_what_is_outside_cannot_be_read_or_written(index: object) -> None:
    a = numbered(BOX)
    before = a.numpy().copy()
    with pytest.raises((IndexError, ValueError)):
        a[index]
    with pytest.raises((IndexError, ValueError)):
        a[index] = 99
    assert np.array_equal(a.numpy(), before)


@pytest.mark.parametrize("index", [1.0, (1.0, 3), "x", (None, 3)])
def test_what_is_no_coordinate_is_refused(index: object) -> None:
    with pytest.raises((IndexError, TypeError)):
        numbered(BOX)[index]


@pytest.mark.parametrize("data", [None, "text", {1: 2}, {1}, 3.0, 1j, True, object(), b"bytes", iter([1])])
def test_data_that_are_no_array_are_named(data: object) -> None:
    for make in gw.Array, gw.from_numpy:
        with pytest.raises(UsageError, match="give an ndarray or nested lists of numbers") as refusal:
            make(data)  # type: ignore[operator]
        assert type(data).__name__ in str(refusal.value)


def test_makers_say_which_argument_is_wrong() -> None:
    cells = np.zeros(4)
    for wrong, message in (
        (lambda: gw.zeros_like(cells), r"gw\.from_numpy\(array\) is one"),
        (lambda: gw.full_like(None, 1.0), "give a global array"),
        (lambda: gw.zeros(4, kind="cuda"), "kind='cuda': give a kind of memory"),
        (lambda: gw.zeros(4, kind=None), "kind=None: give a kind of memory"),
        (lambda: gw.zeros(4, team=None), "team=None: give a team"),
        (lambda: gw.from_function(None, 4), "from_function of None: give a function"),
        (lambda: gw.from_numpy(cells, "x"), "domain='x': give a RectDomain"),
        (lambda: gw.copy(cells, gw.zeros(4)), r"T\.block\(rank\) is an end for copies by one rank"),
        (lambda: gw.copy([1.0], gw.Array(cells)), r"np\.asarray of a list"),
    ):
        with pytest.raises(UsageError, match=message):
            wrong()


def test_slices_are_half_open_in_the_coordinates_of_the_domain() -> None:
    a = numbered(BOX)
    row = a[0, :]
    assert row.domain == gw.RectDomain(3, 8)
    assert row[5] == tag((0, 5))
    part = a[-1:2, 4:7:2]
    assert part.domain == gw.RectDomain((-1, 4), (2, 7), (1, 2))
    assert [part[p] for p in part.domain] == [tag(p) for p in part.domain]
    assert a[-100:100, 7:100].domain == gw.RectDomain((-2, 7), (4, 8))
    assert a[5:9, :].size == 0
    a[0, 3:5] = [1, 2]
    a[gw.RectDomain((1, 3), (3, 5))] = np.array([[3, 4], [5, 6]])
    a[2:4, 6:8] = 9
    assert (a[0, 3], a[0, 4], a[1, 4], a[2, 3], a[3, 7]) == (1, 2, 4, 5, 9)


def test_views_share_memory() -> None:
    a = numbered(BOX)
    for view in (
        a.restrict(BOX),
        a.shrink(1),
        a.translate((5, 5)),
        a.permute((1, 0)),
        a.slice(0, 1),
        a.inject(3),
        a[0:2, 4:6],
    ):
        assert np.shares_memory(view.numpy(), a.numpy())
        assert view.dtype == a.dtype
    a.shrink(1).fill(-1)
    assert a[-1, 4] == -1
    assert a[-2, 3] == tag((-2, 3))


def test_restrict() -> None:
    a = numbered(BOX)
    inside = gw.RectDomain((0, 4), (2, 6))
    assert [a.restrict(inside)[p] for p in inside] == [tag(p) for p in inside]
    assert a.restrict(gw.RectDomain((2, 6), (100, 100))).domain == gw.RectDomain((2, 6), (4, 8))
    assert a.restrict(gw.RectDomain((50, 50), (60, 60))).size == 0
    strided = gw.RectDomain((-2, 3), (4, 8), (2, 3))
    view = a.restrict(strided)
    assert view.domain == strided
    assert [view[p] for p in strided] == [tag(p) for p in strided]
    again = view.restrict(gw.RectDomain((-2, 3), (4, 8), (4, 3)))
    assert [again[p] for p in again.domain] == [tag(p) for p in again.domain]
    with pytest.raises(ValueError, match="dimension"):
        a.restrict(gw.RectDomain(0, 5))


def test_shrink_translate_permute_slice() -> None:
    a = numbered(BOX)
    assert a.shrink(1).domain == BOX.shrink(1)
    assert a.shrink((0, 2)).domain == BOX.shrink((0, 2))
    assert a.shrink(1, +2).domain == BOX.shrink(1, +2)
    assert a.shrink(9).size == 0
    moved = a.translate((10, -3))
    assert moved[8, 0] == tag((-2, 3))
    assert moved.translate(-gw.X)[7, 0] == tag((-2, 3))
    turned = a.permute((1, 0))
    assert turned.domain == BOX.permute((1, 0))
    assert turned[3, -2] == tag((-2, 3))
    assert a.slice(1, 4)[-2] == tag((-2, 4))
    assert a.slice(-2, 3)[5] == tag((3, 5))
    with pytest.raises(IndexError, match="no coordinate 9"):
        a.slice(1, 9)
    with pytest.raises(ValueError, match="permutation"):
        a.permute((0, 0))


def test_a_slice_of_one_axis_remains_an_error() -> None:
    with pytest.raises(ValueError, match="one-dimensional"):
        numbered(gw.RectDomain(0, 4)).slice(0, 1)


def test_inject_and_project() -> None:
    a = numbered(BOX)
    spread = a.inject((2, 3))
    assert spread.domain == BOX * (2, 3)
    assert spread[2, 9] == a[1, 3]
    assert spread.project((2, 3)).domain == BOX
    assert spread.project((2, 3))[1, 3] == a[1, 3]
    assert a.restrict(gw.RectDomain((-2, 4), (4, 8), 2)).project(2)[-1, 2] == tag((-2, 4))
    with pytest.raises(UsageError, match="several elements"):
        a.project(2)
    with pytest.raises((UsageError, ValueError)):
        a.inject(0)


def test_negative_strides_and_broadcast_data() -> None:
    data = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    a = gw.Array(data, gw.RectDomain((1, 1), (4, 3)))
    assert a[1, 1] == 8.0
    assert a[3, 2] == 2.0
    wide = gw.Array(np.broadcast_to(5.0, (3, 4)))
    assert wide[2, 3] == 5.0
    with pytest.raises(ValueError, match="read-only"):
        wide[0, 0] = 1.0


def test_copy_is_its_own() -> None:
    for order in ("C", "F"):
        a = numbered(BOX, order=order)
        b = a.copy()
        assert not np.shares_memory(a.numpy(), b.numpy())
        assert b.numpy().flags[f"{order}_CONTIGUOUS"]
        assert b.domain == a.domain
        assert np.array_equal(a.numpy(), b.numpy())


def test_copy_from_is_the_intersection() -> None:
    a = gw.Array.zeros(gw.RectDomain((0, 0), (4, 4)))
    a.copy_from(numbered(gw.RectDomain((2, 2), (9, 9))))
    assert a[1, 3] == 0
    assert a[2, 2] == tag((2, 2))
    assert a[3, 3] == tag((3, 3))
    a.copy_from(gw.Array.full(gw.RectDomain((50, 50), (60, 60)), 1.0))
    assert a[3, 3] == tag((3, 3))


def test_copy_from_casts_or_refuses() -> None:
    target = gw.Array.zeros(gw.RectDomain(0, 3), "float32")
    target.copy_from(gw.Array.full(gw.RectDomain(0, 3), 0.1))
    assert target[0] == np.float32(0.1)
    with pytest.raises(TypeError, match="cast"):
        gw.Array.zeros(gw.RectDomain(0, 3), int).copy_from(gw.Array.full(gw.RectDomain(0, 3), 0.5))
    with pytest.raises(ValueError, match="dimension"):
        target.copy_from(numbered(BOX))


def test_copies_between_overlapping_views_of_one_memory() -> None:
    for shift in (-2, -1, 1, 2):
        a = gw.Array(np.arange(10.0))
        expected = a.numpy().copy()
        a.copy_from(a.translate(shift))
        if shift > 0:
            expected[shift:] = np.arange(10.0)[:-shift]
        else:
            expected[:shift] = np.arange(10.0)[-shift:]
        assert np.array_equal(a.numpy(), expected)


def test_shape_and_domain_must_agree() -> None:
    with pytest.raises(UsageError, match=r"shape \(3,\).*shape \(4,\)"):
        gw.Array(np.zeros(3), gw.RectDomain(0, 4))


def test_empty_arrays() -> None:
    empty = gw.Array.zeros(gw.RectDomain((3, 3), (3, 9)))
    assert empty.size == 0
    assert len(empty) == 0
    assert empty.extent[0] == empty.extent[1]
    empty.fill(1)
    empty.copy_from(numbered(BOX))
    for view in (
        empty.restrict(BOX),
        empty.shrink(1),
        empty.translate(4),
        empty.permute((1, 0)),
        empty.inject(2),
        empty.copy(),
    ):
        assert view.size == 0
    assert gw.Array(np.zeros((0, 5))).numpy().size == 0


def test_numpy_sees_the_same_memory() -> None:
    a = numbered(BOX)
    assert np.asarray(a) is a.numpy()
    assert np.array(a) is not a.numpy()
    assert np.asarray(a, dtype=float).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(a, dtype=float, copy=False)
    assert np.array_equal(np.add(a, 1), a.numpy() + 1)
    assert np.sum(a) == a.numpy().sum()


def test_dlpack() -> None:
    a = numbered(BOX, "float64", "F")
    there = np.from_dlpack(a)
    assert np.shares_memory(there, a.numpy())
    back = gw.Array.from_dlpack(a, BOX)  # NumPy 2.0 does not pass on what it has been given
    assert np.shares_memory(back.numpy(), a.numpy())
    assert back[-2, 3] == a[-2, 3]
    assert a.__dlpack_device__() == (1, 0)


def test_memory_that_compiled_code_cannot_read_is_refused() -> None:
    swapped = gw.Array(np.zeros(4, ">f8"))
    half = gw.Array(np.zeros(4, np.float16))
    text = gw.Array(np.array(["a", "b"]))
    unaligned = gw.Array(np.zeros(33, np.uint8)[1:].view(np.float64))
    for array in (swapped, half, text, unaligned):
        with pytest.raises(GondwanaError):
            array.__gondwana_argument__()
    with pytest.raises(KernelError, match="float16"):
        half.__gondwana_argument__()


def test_repr_says_dtype_and_domain() -> None:
    assert repr(numbered(BOX)) == "Array(int64, RectDomain((-2, 3), (4, 8)))"
