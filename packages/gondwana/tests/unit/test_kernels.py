"""Kernels against NumPy and against the interpreter: domains, layouts, types, aliasing, threads."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from support import jobs


@pytest.fixture(autouse=True)
def _one_thread_again() -> Any:
    before = gw.threads()
    yield
    gw.set_threads(before)


def numbers(domain: gw.RectDomain, dtype: Any = float, order: Any = "C", seed: int = 0) -> gw.Array:
    """An array of small numbers, exact in every dtype."""
    values = np.random.default_rng(seed).integers(0, 2 if np.dtype(dtype) == bool else 50, domain.shape)
    return gw.Array(np.asarray(values, dtype, order=order), domain)


def interpret(kernel: Any, domain: Any, *args: Any) -> None:
    """What the kernel means: its Python function at each point."""
    for p in domain:
        kernel.py_func(p, *args)


@gw.foreach
def add(p, a, b, k):
    a[p] = a[p] + k * b[p]


@gw.foreach
def star(p, a, b):
    a[p] = b[p + gw.X] - 2 * b[p] + b[p - gw.X] + 3 * b[p + gw.Y] + b[p - 2 * gw.Y]


# -- domains -------------------------------------------------------------------------------------------------------

BOX = gw.RectDomain((-3, 2), (9, 13))
DOMAINS = [
    BOX.shrink(2),
    BOX.shrink(2).with_stride((2, 3)),
    BOX.shrink(2) - BOX.shrink(3),
    gw.Domain.of(gw.RectDomain((0, 5), (2, 7)), gw.RectDomain((4, 6), (5, 10), 2)),
    gw.RectDomain((1, 5), (2, 6)),
    gw.RectDomain((1, 5), (1, 9)),
    gw.Domain.of(gw.RectDomain((0, 0), (0, 0))),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_kernel_runs_at_each_point_of_its_domain(domain: Any, order: str) -> None:
    a, b = gw.Array.full(BOX, -1.0, order=order), numbers(BOX, order=order)
    expected = a.copy()
    interpret(star, domain, expected, b)
    star(domain, a, b)
    assert np.array_equal(a.numpy(), expected.numpy())
    outside = [p for p in BOX if p not in domain]
    assert all(a[p] == -1.0 for p in outside)


@pytest.mark.parametrize("shape", [(50,), (7, 8), (5, 6, 7), (3, 4, 5, 6)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_one_to_four_dimensions(shape: tuple[int, ...], order: str) -> None:
    domain = gw.RectDomain.from_shape(shape) + (-3,) * len(shape)
    a, b = numbers(domain, order=order), numbers(domain, order=order, seed=1)
    expected = a.numpy() + 0.5 * b.numpy()
    add(domain, a, b, 0.5)
    assert np.array_equal(a.numpy(), expected)


@pytest.mark.parametrize("shape", [(9, 11), (6, 7, 8), (3, 4, 5, 6)])
def test_strided_domains_in_all_dimensions(shape: tuple[int, ...]) -> None:
    box = gw.RectDomain.from_shape(shape)
    domain = box.with_stride(tuple(2 + axis % 2 for axis in range(len(shape)))) | box.shrink(1).with_stride(2)
    a, b = numbers(box), numbers(box, seed=1)
    expected = a.copy()
    interpret(add, domain, expected, b, 2.0)
    add(domain, a, b, 2.0)
    assert np.array_equal(a.numpy(), expected.numpy())


@gw.foreach
def count_visits(p, visits):
    visits[p] = visits[p] + 1


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "shape", [(5000,), (3, 2000), (2000, 3), (1, 1, 5000), (5000, 1, 1), (17, 19, 23), (2, 3, 4, 300)]
)
def test_each_point_runs_once_whatever_the_threads(threads: int, shape: tuple[int, ...]) -> None:
    domain = gw.RectDomain.from_shape(shape)
    visits = gw.Array.zeros(domain, np.int64)
    gw.set_threads(threads)
    count_visits(domain, visits)
    assert np.all(visits.numpy() == 1)


def test_the_domain_must_be_one() -> None:
    a = numbers(gw.RectDomain(0, 5))
    with pytest.raises(UsageError, match=r"count_visits runs over a RectDomain or a Domain, not over Array"):
        count_visits(a, a)
    with pytest.raises(UsageError, match="1 to 4 axes, not 5"):
        count_visits(gw.RectDomain.from_shape((1,) * 5), gw.Array.zeros(gw.RectDomain.from_shape((1,) * 5)))


# -- layouts -------------------------------------------------------------------------------------------------------


def test_views_of_all_kinds() -> None:
    memory = gw.RectDomain((-4, -4), (24, 24))
    inside = gw.RectDomain((0, 0), (6, 6))
    views = {
        "translated": lambda a: a.translate((3, -2)),
        "permuted": lambda a: a.permute((1, 0)),
        "restricted": lambda a: a.restrict(gw.RectDomain((-3, -2), (11, 13))),
        "compact": lambda a: a.restrict(gw.RectDomain((-4, -4), (24, 24), 2)).project(2),
    }
    for name, view in views.items():
        whole, other = numbers(memory), numbers(memory, seed=2)
        expected = whole.copy()
        star(inside, view(whole), other)
        interpret(star, inside, view(expected), other)
        assert np.array_equal(whole.numpy(), expected.numpy()), name
        back = numbers(memory)
        star(inside, back, view(whole))
        expected = numbers(memory)
        interpret(star, inside, expected, view(whole))
        assert np.array_equal(back.numpy(), expected.numpy()), name


def test_arrays_on_strided_domains() -> None:
    grid = gw.RectDomain((2, 3), (20, 24), (2, 3))
    dense = numbers(gw.RectDomain((0, 0), (24, 24)))
    compact = gw.Array(np.ones(grid.shape), grid)
    spread = dense.restrict(grid)
    expected = np.ones(grid.shape) + 2.0 * spread.numpy()
    add(grid, compact, spread, 2.0)
    assert np.array_equal(compact.numpy(), expected)
    add(grid, spread, compact, 1.0)
    assert dense[2, 3] == spread[2, 3]
    assert dense[3, 3] == numbers(gw.RectDomain((0, 0), (24, 24)))[3, 3]


@gw.foreach
def coarsen(p, coarse, fine):
    coarse[p] = fine[p + gw.X] + fine[p - gw.X]


def test_neighbours_on_a_strided_array_are_checked_against_its_points() -> None:
    grid = gw.RectDomain(0, 20, 2)
    fine = numbers(gw.RectDomain(-1, 21))
    coarse = gw.Array.zeros(grid)
    coarsen(grid, coarse, fine)
    assert coarse[4] == fine[3] + fine[5]
    with pytest.raises(UsageError, match="touches coarse"):
        coarsen(gw.RectDomain(0, 18), coarse, fine)
    with pytest.raises(UsageError, match="touches fine"):
        coarsen(grid, gw.Array.zeros(grid), fine.restrict(gw.RectDomain(-1, 21, 2)).translate(1))


def three_in_a_row(p, out, a):
    out[p] = a[p] + a[p + gw.X] + a[p + 2 * gw.X]


def test_a_launch_that_would_touch_points_between_those_of_an_array() -> None:
    """Where the kernel reaches farthest, the array has elements, and none where it reads in between."""
    coarse, out = (gw.Array.zeros(gw.RectDomain((0,), (9,), (2,))) for _ in range(2))
    with pytest.raises(UsageError, match=r"touches a on \[0:6\], but a has elements on \[0:8:2\] only"):
        gw.foreach(three_in_a_row)(gw.RectDomain((0,), (5,), (2,)), out, coarse)


def test_a_reversed_array() -> None:
    data = np.arange(20.0)
    a, b = gw.Array(np.zeros(20)), gw.Array(data[::-1])
    add(a.domain, a, b, 1.0)
    assert np.array_equal(a.numpy(), data[::-1])


def test_a_broadcast_array_is_read() -> None:
    a = numbers(BOX)
    expected = a.numpy() + 14.0
    add(BOX, a, gw.Array(np.broadcast_to(7.0, BOX.shape), BOX), 2.0)
    assert np.array_equal(a.numpy(), expected)


# -- types ---------------------------------------------------------------------------------------------------------

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@gw.foreach
def convert(p, a, b):
    a[p] = b[p]


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float32", "complex64", "complex128"])
def test_elements_of_each_dtype_arrive(dtype: str) -> None:
    domain = gw.RectDomain(0, 9)
    b = numbers(domain, dtype)
    a = gw.Array.zeros(domain, dtype)
    convert(domain, a, b)
    assert np.array_equal(a.numpy(), b.numpy())


def test_values_are_cast_to_the_array() -> None:
    domain = gw.RectDomain(0, 9)
    a = gw.Array.zeros(domain, "int32")
    convert(domain, a, gw.Array(np.linspace(-2.7, 2.7, 9)))
    assert a.numpy().tolist() == np.linspace(-2.7, 2.7, 9).astype("int32").tolist()


class Pair(NamedTuple):
    """Two fields of one model."""

    first: Any
    second: Any


@gw.foreach
def with_scalars(p, a, i, f, z, flag, small, q, step, pair, text, nothing):
    v = i * 1000 + f * 100 + z.imag
    if flag:
        v += small
    v += pair[0] * q[0] + pair[1] + q[1]
    if text == "double":
        v *= 2
    if nothing is None:
        a[p + step - step] = v


def test_scalars_of_all_kinds() -> None:
    domain = gw.RectDomain((0, 0), (2, 2))
    for i, f, z, flag, small in [
        (3, 0.5, 1 + 2j, True, np.int8(7)),
        (np.int32(3), np.float64(0.5), np.complex128(1 + 2j), np.bool_(False), np.uint16(7)),
    ]:
        a, expected = gw.Array.zeros(domain), gw.Array.zeros(domain)
        arguments = (i, f, z, flag, small, gw.Point(5, -6), gw.X + 2 * gw.Y, (11, 0.25), "double", None)
        with_scalars(domain, a, *arguments)
        interpret(with_scalars, domain, expected, *arguments)
        assert np.array_equal(a.numpy(), expected.numpy())


@gw.foreach
def with_fields(p, out, fields, more):
    fields.first[p] = fields.second[p] + more[0][p + gw.X] + more[1]
    out[p] = fields.first[p]


def test_arrays_inside_tuples_are_checked_and_may_overlap() -> None:
    domain = gw.RectDomain(0, 10)
    out, first, second, third = (numbers(domain, seed=i) for i in range(4))
    expected = second.numpy()[:9] + third.numpy()[1:] + 2.5
    with_fields(domain.shrink(1, +1), out, Pair(first, second), (third, 2.5))
    assert np.array_equal(out.numpy()[:9], expected)
    assert np.array_equal(first.numpy()[:9], expected)
    with pytest.raises(UsageError, match=r"touches more\[0\] on"):
        with_fields(domain, out, Pair(first, second), (third, 2.5))
    with pytest.raises(UsageError, match=r"touches fields\.first on"):
        with_fields(domain, out, Pair(first.restrict(gw.RectDomain(0, 5)), second), (third.translate(1), 2.5))
    same = first.copy()
    check = same.copy()
    with_fields(gw.RectDomain(0, 9), out, Pair(same, same), (same, 1.0))
    interpret(with_fields, gw.RectDomain(0, 9), out, Pair(check, check), (check, 1.0))
    assert np.array_equal(same.numpy(), check.numpy())


@gw.foreach
def with_ndarray(p, a, table, weights):
    a[p] = table[p[0], p[1] % 2] + weights[p[1]]


@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_arrays_are_indexed_from_zero(order: str) -> None:
    domain = gw.RectDomain((0, 0), (4, 6))
    table = np.asarray(np.arange(8.0).reshape(4, 2), order=order)
    weights = np.arange(12)[::2]
    a = gw.Array.zeros(domain)
    with_ndarray(domain, a, table, weights)
    x, y = np.indices((4, 6))
    assert np.array_equal(a.numpy(), table[x, y % 2] + weights[y])
    table.flags.writeable = False
    with_ndarray(domain, a, table, weights)
    assert np.array_equal(a.numpy(), table[x, y % 2] + weights[y])


@gw.foreach
def with_defaults(p, a, b=2.0, c=3):
    a[p] = 10 * b + c


def test_defaults_and_keywords() -> None:
    domain = gw.RectDomain(0, 3)
    a = gw.Array.zeros(domain)
    for arguments, named, expected in [
        ((), {}, 23),
        ((4.0,), {}, 43),
        ((), {"c": 5}, 25),
        ((), {"c": 1, "b": 1.0}, 11),
    ]:
        with_defaults(domain, a, *arguments, **named)
        assert a[2] == expected
    with_defaults(domain, b=0.0, a=a)
    assert a[2] == 3
    for arguments, named in [((), {}), ((a, 1.0, 2, 3), {}), ((a,), {"d": 1})]:
        with pytest.raises(TypeError):
            with_defaults(domain, *arguments, **named)


def test_only_positional_parameters() -> None:
    for source in ("def f(p, a, *, k): pass", "def f(p, *a): pass", "def f(p, **a): pass", "def f(): pass"):
        names: dict[str, Any] = {}
        exec(source, names)
        with pytest.raises(TypeError):
            gw.foreach(names["f"])
    with pytest.raises(TypeError, match="plain Python function"):
        gw.foreach(len)


X = gw.Array.zeros(gw.RectDomain(0, 3))  # a user may well call an array so


def test_a_global_with_the_name_of_an_attribute_does_not_matter() -> None:
    a = gw.Array.zeros(gw.RectDomain(0, 5))
    coarsen(gw.RectDomain(1, 4), a, gw.Array.full(a.domain, 1.0))
    assert a.numpy().tolist() == [0, 2, 2, 2, 0]


# -- points --------------------------------------------------------------------------------------------------------


@gw.foreach
def coordinates(p, a, b):
    a[p] = p[0] * 100 + p[1] * 10 + p[-1] + len(p)
    total = 0
    for axis in range(p.ndim):
        total += p[axis]
    b[p] = total + (1 if p == p + gw.X - gw.X else 0)


def test_coordinates_of_the_point() -> None:
    domain = gw.RectDomain((-2, 3), (2, 6))
    a, b = gw.Array.zeros(domain, int), gw.Array.zeros(domain, int)
    coordinates(domain, a, b)
    assert all(a[p] == p[0] * 100 + p[1] * 10 + p[1] + 2 for p in domain)
    assert all(b[p] == sum(p) + 1 for p in domain)


@gw.foreach
def branches(p, a, b):
    q = p
    if p[0] % 2 == 0:
        q = p + gw.X
    for _ in range(2):
        q = q + gw.Y
    a[p] = b[q]


def test_points_that_meet_from_several_branches() -> None:
    b = numbers(gw.RectDomain((0, 0), (9, 9)))
    a, expected = gw.Array.zeros(b.domain), gw.Array.zeros(b.domain)
    domain = gw.RectDomain((0, 0), (8, 7))
    branches(domain, a, b)
    interpret(branches, domain, expected, b)
    assert np.array_equal(a.numpy(), expected.numpy())


@gw.jit
def laplacian(u, p):
    return u[p - gw.X] + u[p + gw.X] + u[p - gw.Y] + u[p + gw.Y] - 4.0 * u[p]


@gw.foreach
def by_helper(p, a, b):
    a[p] = laplacian(b, p) + laplacian(b, p + gw.X)


def test_helpers_count_for_the_footprint() -> None:
    b = numbers(gw.RectDomain((0, 0), (9, 9)))
    a, expected = gw.Array.zeros(b.domain), gw.Array.zeros(b.domain)
    domain = gw.RectDomain((1, 1), (7, 8))
    by_helper(domain, a, b)
    interpret(by_helper, domain, expected, b)
    assert np.array_equal(a.numpy(), expected.numpy())
    with pytest.raises(UsageError, match=r"touches b on \[0:9, 0:8\]"):
        by_helper(gw.RectDomain((1, 1), (8, 8)), a, b)


# -- what a launch may touch ---------------------------------------------------------------------------------------


def test_a_launch_that_would_leave_an_array_touches_nothing() -> None:
    a, b = gw.Array.full(BOX, -1.0), numbers(BOX)
    for domain in (
        BOX,
        BOX.shrink(1),
        BOX.shrink(2).translate(gw.X * 2),
        BOX.shrink(2) | gw.RectDomain((8, 12), (9, 13)),
    ):
        with pytest.raises(UsageError, match=r"star on .* touches b on .*, but b has elements on .* only: use"):
            star(domain, a, b)
    with pytest.raises(UsageError, match="touches a"):
        star(BOX.shrink(2), a.shrink(3), b)
    assert np.all(a.numpy() == -1.0)


def test_the_check_sees_an_array_that_took_the_place_of_another() -> None:
    """Launches are remembered: an equal address must not stand for an equal array."""
    memory = np.zeros((20, 8))
    for rows in (20, 10, 20, 5):
        a = gw.Array(memory[:rows])
        if rows == 20:
            count_visits(gw.RectDomain((0, 0), (20, 8)), a)
        with pytest.raises(UsageError, match="touches visits"):
            count_visits(gw.RectDomain((0, 0), (rows + 1, 8)), a)
    box = gw.RectDomain((0, 0), (20, 8))
    count_visits(box, gw.Array(memory))
    with pytest.raises(UsageError, match="touches visits"):
        count_visits(box, gw.Array(memory[:10]))


@gw.foreach
def gather(p, a, b, index):
    a[p] = b[(index[p],)]


def test_computed_indices_are_the_kernels_own_affair() -> None:
    a, b = gw.Array.zeros(gw.RectDomain(0, 5)), numbers(gw.RectDomain(100, 200))
    index = gw.Array(np.array([100, 199, 150, 101, 120]))
    gather(a.domain, a, b, index)
    assert a.numpy().tolist() == [b[i] for i in index.numpy().tolist()]


def test_read_only_memory_is_not_written() -> None:
    data = np.zeros(9)
    data.flags.writeable = False
    locked = gw.Array(data)
    with pytest.raises(TypeError, match="read-only"):
        count_visits(locked.domain, locked)
    assert not data.any()
    a = gw.Array.zeros(locked.domain)
    convert(a.domain, a, locked)


# -- aliasing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 2])
def test_kernels_in_place_and_on_overlapping_views(shift: int) -> None:
    """In one thread points run in order of the domain, so that the interpreter says what must come out."""
    gw.set_threads(1)
    for size in (20, 500):
        a = numbers(gw.RectDomain(0, size))
        expected = a.copy()
        domain = gw.RectDomain(5, size - 5)
        add(domain, a, a.translate(shift), 0.5)
        interpret(add, domain, expected, expected.translate(shift), 0.5)
        assert np.array_equal(a.numpy(), expected.numpy())


def test_in_place_through_numpy() -> None:
    a = numbers(gw.RectDomain((0, 0), (4, 6)))
    expected = a.numpy()[:, :2][:, np.arange(6) % 2] + a.numpy()[0, :6]
    copy = a.copy()
    with_ndarray(copy.domain, copy, a.numpy(), a.numpy()[0])
    assert np.array_equal(copy.numpy(), expected)


# -- precision -----------------------------------------------------------------------------------------------------

RATE = 0.1
WEIGHTS = (0.25, 0.7)


@gw.jit
def decay(x, rate=0.3):
    return x - rate * x + 2 * x


@gw.foreach
def single(p, a, b, k, n):
    s = 0.0
    for i in range(3):
        s += i * b[p]
    s /= 7
    a[p] = (b[p] * 3 + 1) / 7 + p[0] * b[p] + (p[0] / 3) * b[p] + RATE * b[p] + WEIGHTS[1] - n * b[p]
    a[p] += s + k * b[p] + b[p] ** 2 + decay(b[p])
    a[p] -= 1


def test_float32_stays_float32() -> None:
    domain = gw.RectDomain(0, 1000)
    b = gw.Array(np.random.default_rng(3).random(1000).astype(np.float32))
    a = gw.Array.zeros(domain, "float32")
    single(domain, a, b, 0.7, 3)
    f = np.float32
    u, x = b.numpy(), np.arange(1000).astype(f)
    s = (f(0) * u + f(1) * u + f(2) * u) / f(7)
    r = (u * f(3) + f(1)) / f(7) + x * u + (x / f(3)) * u + f(RATE) * u + f(0.7) - f(3) * u
    r = r + (s + f(0.7) * u + u * u + (u - f(0.3) * u + f(2) * u))
    r -= f(1)
    assert r.dtype == np.float32
    assert np.array_equal(a.numpy(), r)


def test_float64_stays_float64_beside_float32() -> None:
    domain = gw.RectDomain(0, 100)
    wide, narrow = gw.Array(np.random.default_rng(4).random(100)), gw.Array.full(domain, 0.1, "float32")
    expected = wide.numpy() + 0.1 * narrow.numpy().astype(float)
    add(domain, wide, narrow, 0.1)
    assert np.array_equal(wide.numpy(), expected)


def test_complex64_stays_complex64() -> None:
    domain = gw.RectDomain(0, 100)
    rng = np.random.default_rng(5)
    a, b = (gw.Array((rng.random(100) + 1j * rng.random(100)).astype("complex64")) for _ in range(2))
    expected = a.numpy() + np.complex64(0.3 + 0.1j) * b.numpy()
    add(domain, a, b, 0.3 + 0.1j)
    assert np.allclose(a.numpy(), expected, rtol=3e-7, atol=0)


@gw.foreach
def product_sum(p, a, b, c):
    a[p] = a[p] * b[p] + c[p]


fused = gw.foreach(contract=True)(product_sum.py_func)


def test_nothing_is_fused_unless_allowed() -> None:
    domain = gw.RectDomain(0, 1000)
    rng = np.random.default_rng(6)
    a, b, c = (gw.Array(rng.standard_normal(1000)) for _ in range(3))
    plain, contracted = a.copy(), a.copy()
    product_sum(domain, plain, b, c)
    assert np.array_equal(plain.numpy(), a.numpy() * b.numpy() + c.numpy())
    fused(domain, contracted, b, c)
    assert np.allclose(contracted.numpy(), plain.numpy(), rtol=1e-12, atol=1e-15)


@gw.foreach
def halve(p, a):
    a[p] = a[p] * 0.5


flushing = gw.foreach(flush_subnormals=True)(halve.py_func)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 3])
def test_subnormal_numbers_are_flushed_only_where_asked_for(dtype: str, threads: int) -> None:
    gw.set_threads(threads)
    domain = gw.RectDomain(0, 6000)
    tiny = np.finfo(dtype).tiny
    a, b = (gw.Array.full(domain, tiny, dtype) for _ in range(2))
    flushing(domain, a)
    assert not a.numpy().any()
    halve(domain, b)
    assert np.all(b.numpy() == tiny / 2)
    flushing(domain, b)  # the input is subnormal
    assert not b.numpy().any()
    assert tiny / np.dtype(dtype).type(2) > 0  # this thread calculates as before
    halve(domain, gw.Array.full(domain, tiny, dtype))
    assert np.float64(5e-324) * np.float64(1.0) > 0


# -- errors in kernels ---------------------------------------------------------------------------------------------


class UnstableError(ArithmeticError):
    """A user's own exception."""


class LocatedError(Exception):
    """One that needs two arguments."""

    def __init__(self, where: int, what: str) -> None:
        super().__init__(where, what)


@gw.foreach
def complain(p, a, which):
    if a[p] > 3.0:
        if which == 0:
            raise ValueError("too large")
        if which == 1:
            raise UnstableError("diverged")
        if which == 2:
            raise LocatedError(3, "here")
        if which == 3:
            raise AssertionError("never three")
        raise ZeroDivisionError


@pytest.mark.parametrize("threads", [1, 3])
def test_exceptions_of_kernels_arrive(threads: int) -> None:
    gw.set_threads(threads)
    a = gw.Array(np.arange(6000.0))
    for which, kind, message in [
        (0, ValueError, r"too large.*complain"),
        (1, UnstableError, "diverged"),
        (2, RuntimeError, "LocatedError.*here"),
        (3, AssertionError, "never three"),
        (4, ZeroDivisionError, "complain"),
    ]:
        with pytest.raises(kind, match=message):
            complain(a.domain, a, which)
    complain(gw.RectDomain(0, 3), a, 0)


# -- threads, processes --------------------------------------------------------------------------------------------


def test_results_do_not_depend_on_threads() -> None:
    box = gw.RectDomain((0, 0), (90, 110))
    b = gw.Array(np.random.default_rng(7).random(box.shape))
    results = []
    for threads in (1, 2, 3, 1, 4):
        gw.set_threads(threads)
        a = gw.Array.zeros(box)
        star(box.shrink(2), a, b)
        star(box.shrink(2) - box.shrink(30), a, b)
        results.append(a.numpy().tobytes())
    assert len(set(results)) == 1


def test_kernels_from_several_python_threads_at_once() -> None:
    gw.set_threads(2)
    domain = gw.RectDomain(0, 5000)
    arrays = [gw.Array.zeros(domain) for _ in range(6)]
    ones = gw.Array.full(domain, 1.0)
    problems: list[BaseException] = []

    def work(a: gw.Array) -> None:
        try:
            for _ in range(50):
                add(domain, a, ones, 1.0)
        except BaseException as error:  # a thread's error is shown by the test
            problems.append(error)

    workers = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems
    assert all(np.all(a.numpy() == 50.0) for a in arrays)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # threads that do not survive are what is tested
def test_kernels_in_a_child_of_fork() -> None:
    gw.set_threads(2)
    domain = gw.RectDomain(0, 5000)
    a, b, ones = gw.Array.zeros(domain), gw.Array.zeros(domain), gw.Array.full(domain, 1.0)
    add(domain, a, ones, 1.0)
    over = threading.Event()

    def keep_busy() -> None:
        while not over.is_set():
            add(domain, b, ones, 1.0)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                add(domain, a, ones, 1.0)
                os._exit(0 if np.all(a.numpy() == 2.0) else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0
    finally:
        over.set()
        busy.join()
    add(domain, a, ones, 1.0)
    assert np.all(a.numpy() == 2.0)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_set_threads_refuses(count: Any) -> None:
    with pytest.raises(UsageError, match="set_threads"):
        gw.set_threads(count)


def test_threads_from_the_environment() -> None:
    for value, status in (("3", 0), ("0", 1), ("many", 1)):
        outcome = jobs.run_command(
            [sys.executable, "-c", "import gondwana as gw; print(gw.threads())"], variables={"GONDWANA_THREADS": value}
        )
        assert outcome.status == status
        assert outcome.stdout.strip() == "3" if status == 0 else "GONDWANA_THREADS" in outcome.stderr


INTERPRETED = """
import gondwana as gw, numpy as np

@gw.foreach
def shift(p, a, fields):
    a[p] = fields[0][p + gw.X] + 1.0
    assert isinstance(p, gw.Point)

T = gw.full((6, 6), 2.0, ghost=1)
a = gw.Array.zeros(T.owned)
shift(T.owned.shrink(1), a, (T,))
assert a[2, 2] == 3.0 and a[0, 0] == 0.0

@gw.reduce(op="max")
def largest(p, a):
    return a[p]

assert largest(a.domain, a) == 3.0
import sys
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
"""


def test_kernels_in_the_interpreter() -> None:
    outcome = jobs.run_command([sys.executable, "-c", INTERPRETED], variables={"GONDWANA_INTERPRET": "1"})
    assert outcome.status == 0, str(outcome)


def test_a_remembered_launch_follows_its_arguments() -> None:
    box = gw.RectDomain((0, 0), (8, 8))
    arrays = [numbers(box, seed=seed) for seed in range(3)]
    for a, b in itertools.permutations(arrays, 2):
        for k in (1.0, 2.0):
            expected = a.numpy() + k * b.numpy()
            add(box, a, b, k)
            assert np.array_equal(a.numpy(), expected)
    for domain in (box.shrink(1), box.shrink(2), box):
        a = gw.Array.zeros(box)
        count_visits(domain, a)
        assert a.numpy().sum() == domain.size


@gw.jit
def quotients(a: Any, b: Any) -> Any:
    return a // b, a % b


@gw.foreach
def divide(p, quotient, rest, ratio, a, b):
    quotient[p], rest[p] = quotients(a[p], b[p])
    ratio[p] = a[p] / b[p]


def test_divisions_by_zero_are_those_of_numpy() -> None:
    a, b = gw.Array(np.array([7, -7, 0])), gw.Array(np.zeros(3, int))
    quotient, rest, ratio = gw.Array.full(a.domain, 9), gw.Array.full(a.domain, 9), gw.Array.zeros(a.domain)
    divide(a.domain, quotient, rest, ratio, a, b)
    with np.errstate(all="ignore"):
        assert np.array_equal(quotient.numpy(), a.numpy() // b.numpy())
        assert np.array_equal(rest.numpy(), a.numpy() % b.numpy())
        assert np.array_equal(ratio.numpy(), a.numpy() / b.numpy(), equal_nan=True)
    assert quotients(1, 0) == (0, 0)
