"""Exact sums of any float64 values equal math.fsum, whatever their order and however they are divided."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import gondwana as gw
from gondwana.kernels import exact


@gw.reduce(op="fsum")
def total(p, a):
    return a[p]


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


@given(st.lists(st.lists(finite | similar, max_size=10), min_size=1, max_size=5))
def test_partial_sums_add_to_the_same(parts: list[list[float]]) -> None:
    everything = list(itertools.chain(*parts))
    partials = [exact.normalise(exact.total(part)) for part in parts]
    assert same(exact.rounded(partials), exactly(everything))
