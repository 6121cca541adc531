"""Explicit vectors in compiled code, of all widths and dtypes, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana import simd
from gondwana.errors import KernelError
from gondwana.simd.vectors import DTYPES, WIDTHS

FLOATS = tuple(dtype for dtype in DTYPES if dtype.startswith("float"))
REST = 5
"""Elements of arrays before and after what a vector covers."""


def _turn(width: int, dtype: str) -> bool:
    """Whether a width has its turn for a dtype: each dtype has one, each width several."""
    return DTYPES.index(dtype) % len(WIDTHS) == WIDTHS.index(width)


of_each_dtype = pytest.mark.parametrize(
    ("width", "dtype"),
    [
        pytest.param(width, dtype, marks=() if _turn(width, dtype) else pytest.mark.more)
        for width in WIDTHS
        for dtype in DTYPES
    ],
)
"""All widths and dtypes; a function is compiled for each pair, so `make test` leaves most of them out."""


@cache
def operations(width: int) -> Callable[..., None]:
    """A function that writes the results of operations on vectors from `a[REST:]` and `b[REST:]` into rows of `out`."""

    @gw.jit
    def run(a: Any, b: Any, out: Any) -> None:
        left, right = simd.load(a, REST, width), simd.load(b, REST, width=width)
        simd.store(out[0], REST, left + right)
        simd.store(out[1], REST, left - right)
        simd.store(out[2], REST, left * right)
        simd.store(out[3], REST, -left)
        simd.store(out[4], REST, simd.minimum(left, right))
        simd.store(out[5], REST, simd.maximum(left, right))
        simd.store(out[6], REST, 3 * left - 2)
        simd.store(out[7], REST, simd.maximum(left, 1))
        simd.store(out[8], REST, simd.fill(b[0], width))
        simd.store(out[9], REST, 7 - left)
        total = left
        total += right
        total *= left
        total -= 1
        simd.store(out[10], REST, total)

    return run


def numbers(generator: np.random.Generator, dtype: str, count: int) -> Any:
    """Floats of all signs and magnitudes, or integers from the whole range, which wrap."""
    if dtype.startswith("float"):
        return (generator.standard_normal(count) * 10.0 ** generator.integers(-9, 9, count)).astype(dtype)
    info = np.iinfo(dtype)
    return generator.integers(info.min, info.max, count, dtype, endpoint=True)


@of_each_dtype
def test_arithmetic_is_that_of_numpy(width: int, dtype: str) -> None:
    generator = np.random.default_rng([width, DTYPES.index(dtype)])
    kind = np.dtype(dtype).type
    for _ in range(20):
        a, b = (numbers(generator, dtype, width + 2 * REST) for _ in range(2))
        out = np.full((11, width + 2 * REST), 77, dtype)
        operations(width)(a, b, out)
        x, y = a[REST:-REST], b[REST:-REST]
        with np.errstate(all="ignore"):
            expected = [
                x + y, x - y, x * y, -x, np.minimum(x, y), np.maximum(x, y), kind(3) * x - kind(2),
                np.maximum(x, kind(1)), np.full(width, b[0]), kind(7) - x, (x + y) * x - kind(1),
            ]  # fmt: skip
        for number, (row, wanted) in enumerate(zip(out, expected, strict=True)):
            assert np.array_equal(row[REST:-REST], wanted), number
            assert (row[:REST] == 77).all(), number
            assert (row[-REST:] == 77).all(), number


@cache
def reductions(width: int) -> Callable[..., Any]:
    @gw.jit
    def run(a: Any) -> Any:
        vector = simd.load(a, 0, width)
        return vector.sum(), vector.min(), vector.max()

    return run


def halves(values: Any) -> Any:
    """The sum of the halves, each added up in the same way."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return halves(values[:middle]) + halves(values[middle:])


@of_each_dtype
def test_elements_are_combined_in_halves(width: int, dtype: str) -> None:
    generator = np.random.default_rng([9, width, DTYPES.index(dtype)])
    for _ in range(20):
        a = numbers(generator, dtype, width)
        with np.errstate(all="ignore"):
            assert reductions(width)(a) == (halves(a), a.min(), a.max())


@cache
def indexed(width: int) -> Callable[..., None]:
    @gw.jit
    def run(table: Any, places: Any, out: Any) -> None:
        indices = simd.load(places, 0, width)
        found = simd.gather(table, indices)
        simd.scatter(out, indices, found + 1)

    return run


@of_each_dtype
def test_elements_at_indices(width: int, dtype: str) -> None:
    """Every width and dtype with one dtype of indices, so that each width and each dtype meets all of them."""
    integers = [name for name in DTYPES if name not in FLOATS]
    index = integers[(WIDTHS.index(width) + DTYPES.index(dtype)) % len(integers)]
    generator = np.random.default_rng([width, DTYPES.index(dtype)])
    table = generator.integers(0, 1000, 40).astype(dtype)
    places = generator.permutation(40)[:width].astype(index)
    out = np.zeros(40, dtype)
    indexed(width)(table, places, out)
    expected = np.zeros(40, dtype)
    expected[places] = table[places] + np.dtype(dtype).type(1)
    assert np.array_equal(out, expected)


def test_of_equal_indices_the_last_counts() -> None:
    @gw.jit
    def run(a: Any, places: Any, out: Any) -> None:
        simd.scatter(out, simd.load(places, 0, 4), simd.load(a, 0, 4))

    out = np.zeros(3)
    run(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 1, 2, 1]), out)
    assert out.tolist() == [0.0, 4.0, 3.0]


@cache
def float_operations(width: int) -> Callable[..., None]:
    @gw.jit
    def run(a: Any, b: Any, c: Any, out: Any) -> None:
        x, y, z = simd.load(a, 0, width), simd.load(b, 0, width), simd.load(c, 0, width)
        simd.store(out[0], 0, x / y)
        simd.store(out[1], 0, 1.5 / x)
        simd.store(out[2], 0, simd.fma(x, y, z))
        simd.store(out[3], 0, simd.fma(x, 2.5, z))
        simd.store(out[4], 0, x * y + z)

    return run


def fused(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, exact in fractions and rounded once."""
    exact = (Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(x, y, z, strict=True))
    return np.array([float(value) if x.dtype == np.float64 else nearest_single(value) for value in exact], x.dtype)


def nearest_single(value: Fraction) -> Any:
    """The float32 nearest to a fraction, of two that are equally near the even one, as Python does for float64."""
    guess = np.float32(float(value))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda near: (abs(Fraction(float(near)) - value), int(near.view(np.int32)) % 2))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", WIDTHS)
def test_only_fma_is_fused(width: int, dtype: str) -> None:
    generator = np.random.default_rng([3, width])
    kind = np.dtype(dtype).type
    for _ in range(20):
        x, y = (generator.uniform(1, 2, width).astype(dtype) for _ in range(2))
        z = -(x * y)  # what is left is the error of the product
        out = np.empty((5, width), dtype)
        float_operations(width)(x, y, z, out)
        two = np.full(width, 2.5, dtype)
        assert np.array_equal(out[0], x / y)
        assert np.array_equal(out[1], kind(1.5) / x)
        assert np.array_equal(out[2], fused(x, y, z))
        assert np.array_equal(out[3], fused(x, two, z))
        assert not out[4].any()
    assert out[2].any()


@cache
def conversions(width: int) -> Callable[..., None]:
    @gw.jit
    def run(a: Any, double: Any, single: Any) -> None:
        vector = simd.load(a, 0, width)
        simd.store(double, 0, vector.astype(np.float64))
        simd.store(single, 0, vector.astype(np.float32))

    return run


@of_each_dtype
def test_conversions_to_floats_are_those_of_numpy(width: int, dtype: str) -> None:
    generator = np.random.default_rng([11, width, DTYPES.index(dtype)])
    for _ in range(20):
        a = numbers(generator, dtype, width)
        double, single = np.empty(width), np.empty(width, np.float32)
        conversions(width)(a, double, single)
        assert np.array_equal(double, a.astype(np.float64))
        assert np.array_equal(single, a.astype(np.float32))


@cache
def exponential(width: int) -> Callable[..., None]:
    @gw.jit
    def run(a: Any, out: Any) -> None:
        for start in range(0, len(a), width):
            simd.store(out, start, simd.exp(simd.load(a, start, width)))

    return run


def exponentials(values: Any, width: int) -> Any:
    """The exponentials of some numbers, with vectors of some width."""
    padded = np.zeros(-(-len(values) // 16) * 16, values.dtype)
    padded[: len(values)] = values
    out = np.empty_like(padded)
    exponential(width)(padded, out)
    return out[: len(values)]


def errors_of_exponentials(values: Any, found: Any) -> float:
    """The largest error, in units of the last place of the nearest float."""
    worst = Decimal(0)
    with localcontext(Context(prec=50, Emin=-9999, Emax=9999)):
        for x, y in zip(values, found, strict=True):
            exact = Decimal(float(x)).exp()
            nearest = values.dtype.type(float(exact))
            worst = max(worst, abs(Decimal(float(y)) - exact) / Decimal(float(np.spacing(nearest))))
    return float(worst)


RANGES = {"float64": (-745.1, -708.3, 709.78), "float32": (-103.9, -87.3, 88.72)}
"""Of the numbers whose exponentials are no infinity and not 0: the least, the least with a normal one, the greatest."""


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", WIDTHS)
def test_exponentials_are_within_one_unit_of_the_last_place(width: int, dtype: str) -> None:
    generator = np.random.default_rng([5, width])
    least, normal, greatest = RANGES[dtype]
    for low, high in (least, greatest), (least, normal), (greatest - 2.0, greatest), (-1.0, 1.0), (-1e-6, 1e-6):
        values = generator.uniform(low, high, 500).astype(dtype)
        assert errors_of_exponentials(values, exponentials(values, width)) < 1.0


@pytest.mark.parametrize("dtype", FLOATS)
def test_exponentials_next_to_where_the_integer_changes(dtype: str) -> None:
    """At odd multiples of half of ln 2 the rest is greatest, at multiples it is least."""
    kind = np.dtype(dtype).type
    middle = (np.arange(-240, 250) * (0.5 * np.log(2.0))).astype(dtype)
    values = np.concatenate([middle, np.nextafter(middle, kind(-np.inf)), np.nextafter(middle, kind(np.inf))])
    assert errors_of_exponentials(values, exponentials(values, 8)) < 1.0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", WIDTHS)
def test_exponentials_of_special_numbers(width: int, dtype: str) -> None:
    large = np.finfo(dtype).max
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, large, -large, 800.0, -800.0, 5e-324], dtype)
    expected = np.array([1.0, 1.0, np.inf, 0.0, np.nan, np.inf, 0.0, np.inf, 0.0, 1.0], dtype)
    assert np.array_equal(exponentials(values, width), expected, equal_nan=True)
    least, _, greatest = RANGES[dtype]
    around = exponentials(np.array([least, 1.002 * least, greatest, 1.002 * greatest], dtype), width)
    assert around[0] > 0.0 == around[1]
    assert around[2] < np.inf == around[3]


@pytest.mark.parametrize("dtype", FLOATS)
def test_exponentials_depend_on_nothing_else(dtype: str) -> None:
    values = np.random.default_rng(6).uniform(-110, 90, 1024).astype(dtype)
    expected = exponentials(values, 8)
    for width in WIDTHS:
        assert np.array_equal(exponentials(values, width), expected)
        assert np.array_equal(exponentials(values[::-1].copy(), width)[::-1], expected)


def test_division_and_order_have_the_special_values_of_numpy() -> None:
    @gw.jit
    def run(a: Any, b: Any, out: Any) -> None:
        x, y = simd.load(a, 0, 4), simd.load(b, 0, 4)
        simd.store(out[0], 0, x / y)
        simd.store(out[1], 0, simd.minimum(x, y))
        simd.store(out[2], 0, simd.maximum(x, y))

    a, b = np.array([1.0, -1.0, np.nan, 2.0]), np.array([0.0, 0.0, 1.0, np.nan])
    out = np.empty((3, 4))
    run(a, b, out)
    assert np.array_equal(out[0], [np.inf, -np.inf, np.nan, np.nan], equal_nan=True)
    for row, function in (out[1], min), (out[2], max):
        expected = [function(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
        assert np.array_equal(row, expected, equal_nan=True)


@gw.jit
def combine(values: Any, columns: Any, x: Any, y: Any, count: int) -> float:
    """A slice of a matrix times x, minus 1, to y[3:11]; returns the sum of the product."""
    total = simd.fill(0.0, 8)
    for place in range(count):
        simd.prefetch(values, 8 * place + 64)
        total += simd.load(values, 8 * place, 8) * simd.gather(x, simd.load(columns, 8 * place, 8))
    simd.store(y, 3, total - 1)
    return total.sum()


def test_a_slice_of_a_matrix_times_a_vector() -> None:
    generator = np.random.default_rng(7)
    values, x = generator.random(5 * 8), generator.random(40)
    columns = generator.integers(0, 40, 5 * 8).astype(np.uint32)
    y = np.full(14, np.nan)
    found = combine(values, columns, x, y, 5)
    expected = np.zeros(8)
    for place in range(5):
        part = slice(8 * place, 8 * (place + 1))
        expected = expected + values[part] * x[columns[part]]
    assert np.array_equal(y[3:11], expected - 1.0)  # no fused additions, so the same bits
    assert np.isnan(y[[0, 1, 2, 11, 12, 13]]).all()
    a, b, c, d, e, f, g, h = expected.tolist()
    assert found == ((a + b) + (c + d)) + ((e + f) + (g + h))


@gw.jit
def sum_and_ask(values: Any, columns: Any, ahead: int) -> float:
    total = simd.fill(0.0, 8)
    for start in range(0, len(values), 8):
        simd.prefetch(values, start + ahead)
        simd.prefetch(columns, start + ahead)
        total += simd.load(values, start, 8)
    return total.sum()


@pytest.mark.parametrize("ahead", [0, 8, 10**12, -(10**12)])
def test_asking_for_memory_changes_nothing_even_where_there_is_none(ahead: int) -> None:
    values = np.arange(64.0)
    assert sum_and_ask(values, np.zeros(64, np.uint32), ahead) == values.sum()
    assert np.array_equal(values, np.arange(64.0))


def test_arrays_of_gondwana_are_indexed_in_their_own_coordinates() -> None:
    @gw.foreach
    def smooth(p, out, u):  # type: ignore[no-untyped-def]
        i, j = p[0], 4 * p[1]
        west, east = simd.load(u, (i, j - 1), 4), simd.load(u, (i, j + 1), 4)
        simd.store(out, (i, j), 0.5 * (west + east))

    box = gw.RectDomain((-2, -4), (3, 12))
    u = gw.Array(np.random.default_rng(5).random(box.shape), box)
    out = gw.Array.zeros(box)
    smooth(gw.RectDomain((-2, 0), (3, 2)), out, u)
    expected = np.zeros(box.shape)
    expected[:, 4:12] = 0.5 * (u.numpy()[:, 3:11] + u.numpy()[:, 5:13])
    assert np.array_equal(out.numpy(), expected)


def test_single_precision_stays_single() -> None:
    """Python's numbers take the precision of the arrays, so that no vector of float64 comes in."""

    @gw.jit
    def axpy(a: Any, y: Any, k: float) -> Any:
        total = simd.fill(0.0, 8)
        for start in range(0, len(a), 8):
            total += 0.1 * simd.load(a, start, 8) + simd.fill(k, 8)
        simd.store(y, 0, total)
        return total.sum()

    single = np.float32
    a, y = np.arange(16, dtype=single), np.zeros(8, single)
    axpy(a, y, 0.7)
    assert np.array_equal(y, (single(0.1) * a[:8] + single(0.7)) + (single(0.1) * a[8:] + single(0.7)))


# --- what is refused -------------------------------------------------------------------------------------------------


def _load(array: Any, start: Any) -> float:
    return simd.load(array, start, 8).sum()


def _variable(array: Any, width: Any) -> float:
    return simd.load(array, 0, width).sum()


def _three(array: Any, start: Any) -> float:
    return simd.load(array, start, 3).sum()


def _mixed(array: Any, start: Any) -> float:
    return (simd.load(array, start, 4) + simd.load(array, start, 8)).sum()


def _quotient(array: Any, start: Any) -> float:
    return (simd.load(array, start, 4) / 2).sum()


def _float_to_integers(array: Any, start: Any) -> float:
    return (simd.load(array, start, 4) + 2.5).sum()


def _fused_integers(array: Any, start: Any) -> float:
    vector = simd.load(array, start, 4)
    return simd.fma(vector, vector, vector).sum()


def _store(array: Any, start: Any) -> None:
    simd.store(array, start, simd.fill(1.0, 2))


def _gather(array: Any, start: Any) -> float:
    return simd.gather(array, simd.load(array, start, 2)).sum()


def _scatter(array: Any, start: Any) -> None:
    simd.scatter(array, simd.fill(start, 2), simd.fill(1.0, 4))


def _exponential(array: Any, start: Any) -> float:
    return simd.exp(simd.load(array, start, 2)).sum()


def _conversion(array: Any, start: Any) -> float:
    return simd.load(array, start, 2).astype(np.int32).sum()


def _numbers(array: Any, start: Any) -> float:
    return simd.minimum(start, start).sum()


def _frozen() -> Any:
    array = np.zeros(16)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("function", "array", "start", "reason"),
    [
        (_load, np.zeros((8, 8)), 0, "load takes a contiguous one-dimensional array"),
        (_load, np.zeros(16)[::2], 0, "load takes a contiguous one-dimensional array"),
        (_load, np.zeros(8, np.int8), 0, "vectors have no elements of int8: only of float64, float32, int64"),
        (_load, np.zeros(8, complex), 0, "vectors have no elements of complex128"),
        (_load, np.zeros(8), 0.5, "load starts at float64: give an integer"),
        (_load, gw.Array(np.zeros((8, 8)).T), gw.Point(0, 0), "load takes an array whose last axis is contiguous"),
        (_load, gw.Array(np.zeros((8, 8))), 0, "load starts at int64: give an index of an array of 2 axes"),
        (_variable, np.zeros(8), 8, "a vector has a width of 2, 4, 8 or 16, a constant"),
        (_three, np.zeros(8), 0, "a vector has a width of 2, 4, 8 or 16, a constant"),
        (_mixed, np.zeros(8), 0, "add takes vectors of one width and dtype"),
        (_quotient, np.zeros(8, int), 0, "division is for vectors of floats"),
        (_float_to_integers, np.zeros(8, int), 0, "numbers of its kind, not float64"),
        (_fused_integers, np.zeros(8, int), 0, "fma takes vectors of floats"),
        (_store, np.zeros(8, np.float32), np.float64(0), "store starts at float64: give an integer"),
        (_store, np.zeros(8, int), 0, "store takes a vector of int64, as the array has"),
        (_store, _frozen(), 0, "store takes an array that may be written"),
        (_gather, np.zeros(8), 0, "gather takes a vector of integers as indices"),
        (_scatter, np.zeros(8), 0, "scatter takes as many indices as elements, not 2"),
        (_exponential, np.zeros(8, int), 0, "exp takes a vector of floats, not Vector(int64, 2)"),
        (_conversion, np.zeros(8), 0, "astype takes np.float64 or np.float32, not class(int32)"),
        (_numbers, np.zeros(8), 0, "minimum takes vectors, not int64 and int64"),
    ],
)
def test_what_cannot_be_compiled_says_why(function: Any, array: Any, start: Any, reason: str) -> None:
    with pytest.raises(KernelError) as caught:
        gw.jit(function)(array, start)
    assert reason in str(caught.value)


def test_outside_of_compiled_code() -> None:
    array, vector = np.zeros(8), simd.Vector()
    for call in (
        lambda: simd.fill(0.0, 8), lambda: simd.load(array, 0, 8), lambda: simd.gather(array, vector),
        lambda: simd.store(array, 0, vector), lambda: simd.scatter(array, vector, vector),
        lambda: simd.prefetch(array, 0), lambda: simd.fma(vector, vector, vector), lambda: simd.minimum(vector, 1),
        lambda: simd.maximum(vector, 1), lambda: simd.exp(vector), lambda: vector.astype(np.float64),
        lambda: vector.sum(), lambda: vector.min(), lambda: vector.max(),
        lambda: vector + vector, lambda: vector - 1.0, lambda: 2.0 * vector, lambda: vector / vector, lambda: -vector,
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="in compiled code only"):
            call()
