"""Exact sums: fixed-point numbers that hold any sum of float64 values, and their rounding.

After R. Neal, "Fast exact summation using small and large superaccumulators", arXiv:1505.05571: digits of 32 bits in
64-bit words. Digit i has the weight 2**(32 i - 1074).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

DIGITS = 68
"""Digits that span float64: 2046 exponents, the 53 bits of a mantissa, and room for a carry."""

SPECIAL = DIGITS
"""Index of the word that notes NaN (1), +inf (2) and -inf (4)."""

WORDS = DIGITS + 1
EXACT = "exact"
"""What threads of the host leave instead of numbers of a dtype."""
TAKE, VALUES, PIECE = WORDS + 30, 144, 512
"""Words behind the start of an accumulator of the host: the address of the function that adds a piece, and numbers
that running sums have not taken yet; and how many these are at most."""
STRIDE = 8 * (VALUES + PIECE + 16)
"""Bytes from the accumulator of one thread to the next: a multiple of two cache lines."""

_LOWEST = 1074
_FEW = 8
"""The most accumulators that are added one by one."""

Held: TypeAlias = tuple[int, int]
"""A sum in units of 2**-1074, and the word that notes NaN and infinities."""


def held(rows: npt.NDArray[np.int64], values: int) -> Held:
    """Return the sum in accumulators, of `values` values in all. Local."""
    special = functools.reduce(operator.or_, rows[:, SPECIAL].tolist(), 0)
    if len(rows) > _FEW and values < 1 << 31:  # else the words of a sum might overflow
        rows = rows.sum(axis=0, keepdims=True)
    return sum(map(_integer, rows)), special


def total(values: Iterable[float]) -> Held:
    """Return the sum of numbers. Local."""
    whole = special = 0
    for value in values:
        if not math.isfinite(value):
            special |= 1 if value != value else 2 if value > 0 else 4
            continue
        numerator, denominator = value.as_integer_ratio()
        whole += numerator * (1 << _LOWEST) // denominator
    return whole, special


def _integer(words: npt.NDArray[np.int64]) -> int:
    return sum(word << (32 * i) for i, word in enumerate(words[:DIGITS].tolist()) if word)


def rounded(sums: Iterable[Held]) -> float:
    """Return the float64 nearest to the sum of sums: correctly rounded, whatever the order. Local."""
    exact = special = 0
    for part, found in sums:
        exact += part
        special |= found
    if special & 1 or special & 6 == 6:
        return math.nan
    if special:
        return math.inf if special & 2 else -math.inf
    try:
        return exact / (1 << _LOWEST)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
