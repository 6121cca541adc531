"""Exponentials of vectors are those of math.exp: of any float64, within two units of the last place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana import simd


@gw.jit
def exponentials(x: Any, y: Any) -> None:
    simd.store(y, 0, simd.exp(simd.load(x, 0, 4)))


def expected(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


numbers = st.floats() | st.floats(-750.0, 712.0)


@given(st.lists(numbers, min_size=4, max_size=4))
def test_exponentials_are_those_of_the_standard_library(values: list[float]) -> None:
    found = np.empty(4)
    exponentials(np.array(values), found)
    for y, wanted in zip(found.tolist(), map(expected, values), strict=True):
        least, most = (math.nextafter(math.nextafter(wanted, end), end) for end in (0.0, math.inf))
        assert math.isnan(y) if math.isnan(wanted) else least <= y <= most
