"""Exact sums: fixed-point numbers that hold any sum of float64 values, and their rounding.

After R. Neal, "Fast exact summation using small and large superaccumulators", arXiv:1505.05571: digits of 32 bits in
64-bit words. Digit i has the weight 2**(32 i - 1074).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

DIGITS = 68
"""Digits that span float64: 2046 exponents, the 53 bits of a mantissa, and room for a carry."""

SPECIAL = DIGITS
"""Index of the word that notes NaN (1), +inf (2) and -inf (4)."""

WORDS = DIGITS + 1
STRIDE = 640
"""Bytes of one accumulator: a multiple of a cache line pair, so that threads do not share one."""

_LOWEST = 1074


def normalise(words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the accumulator with digits in [0, 2**32), the last one signed, so that many can be added. Local."""
    value = to_integer(words)
    digits = [(value >> (32 * i)) & 0xFFFFFFFF for i in range(DIGITS - 1)]
    return np.array([*digits, value >> (32 * (DIGITS - 1)), words[SPECIAL]], np.int64)


def gathered(rows: npt.NDArray[np.int64], values: int) -> npt.NDArray[np.int64]:
    """Return few accumulators that together hold what many hold, of so many values in all. Local."""
    if len(rows) < 2 or values >= 1 << 31:  # the words of a sum of that many might overflow
        return rows
    one: npt.NDArray[np.int64] = rows.sum(axis=0)
    one[SPECIAL] = np.bitwise_or.reduce(rows[:, SPECIAL])
    return one.reshape(1, -1)


def total(values: Iterable[float]) -> npt.NDArray[np.int64]:
    """Return an accumulator that holds the sum of numbers, as compiled code would leave it. Local."""
    words = np.zeros(WORDS, np.int64)
    for value in values:
        if not math.isfinite(value):
            words[SPECIAL] |= 1 if value != value else 2 if value > 0 else 4
            continue
        numerator, denominator = value.as_integer_ratio()
        scaled = numerator * (1 << _LOWEST) // denominator
        words[: DIGITS - 1] += [(scaled >> (32 * i)) & 0xFFFFFFFF for i in range(DIGITS - 1)]
        words[DIGITS - 1] += scaled >> (32 * (DIGITS - 1))
    return words


def to_integer(words: npt.NDArray[np.int64]) -> int:
    """The sum in units of 2**-1074."""
    return sum(int(word) << (32 * i) for i, word in enumerate(words[:DIGITS]))


def rounded(words: Iterable[npt.NDArray[np.int64]]) -> float:
    """Return the float64 nearest to the sum of accumulators: correctly rounded, whatever the order. Local."""
    accumulators = list(words)
    special = 0
    for accumulator in accumulators:
        special |= int(accumulator[SPECIAL])
    if special & 1 or special & 6 == 6:
        return math.nan
    if special:
        return math.inf if special & 2 else -math.inf
    exact = sum(to_integer(accumulator) for accumulator in accumulators)
    try:
        return exact / (1 << _LOWEST)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
