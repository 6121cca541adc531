"""Exact sums of any float64 values equal math.fsum, whatever their order and however they are divided."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import gondwana as gw
from gondwana.kernels import exact
from gondwana.kernels.cuda.shapes import Shape
from gondwana.testing.gpu import emulated_gpu
from support.twins import compare


@gw.reduce(op="fsum")
def total(p, a):
    return a[p]


@gw.reduce(op="fsum", flush_subnormals=True)
def flushing(p, a):
    return a[p]


@gw.reduce(op="fsum")
def product(p, a, b):
    return a[p] * b[p]


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
bits = st.integers(0, 2**64 - 1).map(lambda word: float(np.uint64(word).view(np.float64)))
similar = st.tuples(st.integers(-(2**53), 2**53), st.integers(-1074, 900)).map(lambda pair: math.ldexp(*pair))


def exactly(values: list[float]) -> float:
    """The correctly rounded sum, from integers: math.fsum gives up where a partial sum overflows."""
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    infinite = [v for v in values if math.isinf(v)]
    if infinite:
        return infinite[0]
    scaled = sum(int(n * (2**1074 // d)) for n, d in (v.as_integer_ratio() for v in values))
    try:
        return scaled / 2**1074
    except OverflowError:
        return math.inf if scaled > 0 else -math.inf


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(st.lists(finite | bits | similar, max_size=40))
def test_fsum_is_the_correctly_rounded_sum(values: list[float]) -> None:
    a = gw.Array(np.array(values + [-v for v in values[::3]], float))
    found = total(a.domain, a) if values else 0.0
    assert same(found, exactly(a.numpy().tolist()))
    try:
        assert same(found, math.fsum(a.numpy()))
    except (OverflowError, ValueError):
        assert not math.isfinite(found) or max(map(abs, values)) > 1e300


@st.composite
def many(draw: st.DrawFn) -> np.ndarray:
    """More numbers than are added to running sums at once, within a few binades, far apart, or anywhere."""
    low = draw(st.integers(-1074, 1023))
    high = min(1023, low + draw(st.sampled_from([0, 3, 60, 90, 130, 200, 2100])))
    count = draw(st.integers(1, 9000))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = np.ldexp(rng.uniform(1, 2, count) * rng.choice([-1.0, 1.0], count), rng.integers(low, high + 1, count) - 1)
    match draw(
        st.sampled_from(["as they are", "sorted", "reversed", "blocks", "positive", "equal", "zeros", "rising"])
    ):
        case "sorted":
            values.sort()
        case "reversed":
            values = np.sort(np.abs(values))[::-1].copy()
        case "blocks":
            values[count // 3 : count // 2] = 0.0
        case "positive":
            values = np.abs(values)
        case "equal":
            values[:] = np.abs(values[0])
        case "zeros":
            values[rng.random(count) < 0.9] = -0.0
        case "rising":  # beyond the limit that the first numbers have set, or not quite
            values = np.ldexp(np.abs(values), np.minimum(np.arange(count) // 600, 1023 - high))
    for value in draw(st.lists(finite | similar, max_size=4)):
        values[rng.integers(count)] = value
    return values


@given(many(), st.sampled_from([1, 2, 3]), st.booleans())
def test_many_numbers_have_the_correctly_rounded_sum(values: np.ndarray, threads: int, narrow: bool) -> None:
    if narrow:
        with np.errstate(over="ignore", under="ignore"):
            values = values.astype(np.float32)
    before = gw.threads()
    gw.set_threads(threads)
    try:
        a = gw.Array(values)
        expected = exactly(values.astype(float).tolist())
        assert same(total(a.domain, a), expected)
        assert same(flushing(a.domain, a), expected) or narrow  # the conversion of a subnormal float32 gives zero
        for width in 7, 106:
            rows = gw.RectDomain((0, 0), (len(values) // width, width))
            b = gw.Array(values[: rows.size].reshape(-1, width).copy())
            assert same(total(rows, b), exactly(b.numpy().astype(float).ravel().tolist()))
        strided = a.domain.with_stride(3)
        assert same(total(strided, a), exactly(values[::3].astype(float).tolist()))
    finally:
        gw.set_threads(before)


@given(many(), st.sampled_from([math.nan, math.inf, -math.inf, 1.5e308]), st.integers(0, 2**32))
def test_numbers_that_running_sums_cannot_take(values: np.ndarray, odd: float, place: int) -> None:
    values[place % len(values)] = odd
    values[place // 3 % len(values)] *= -1.0
    a = gw.Array(values)
    assert same(total(a.domain, a), exactly(values.tolist()))


@given(many())
def test_the_sum_of_products_as_they_are_rounded(values: np.ndarray) -> None:
    a, b = gw.Array(values), gw.Array(values[::-1].copy())
    with np.errstate(over="ignore", under="ignore"):
        assert same(product(a.domain, a, b), exactly((values * values[::-1]).tolist()))


WAYS = [(total, Shape(x=32, y=8, steps=4)), (product, Shape(x=7, y=7, lanes=2, steps=2))]
"""Many warps, and a last one that is not full."""


@settings(max_examples=30)
@given(many() | st.lists(finite | bits | similar, min_size=1).map(np.array), st.sampled_from(WAYS))
def test_threads_of_a_gpu_find_the_correctly_rounded_sum(values: np.ndarray, way: tuple[Any, Shape]) -> None:
    kernel, shape = way
    a, others = gw.Array(values), () if kernel is total else (gw.Array(values[::-1].copy()),)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = exactly((values if kernel is total else values * values[::-1]).tolist())
    with emulated_gpu():
        assert all(same(found, expected) for found in compare(kernel, a.domain, a, *others, shape=shape))


@given(st.lists(st.lists(finite | similar, max_size=10), min_size=1, max_size=5))
def test_partial_sums_add_to_the_same(parts: list[list[float]]) -> None:
    everything = list(itertools.chain(*parts))
    assert same(exact.rounded(map(exact.total, parts)), exactly(everything))
