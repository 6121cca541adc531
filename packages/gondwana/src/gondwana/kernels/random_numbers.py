"""Counter-based random numbers: a function of (seed, point, step), so independent of ranks, threads and tiles.

Philox4x32-10 of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11. The same
source runs interpreted and compiled: sums and products are masked to 32 bits, so 64-bit arithmetic gives the bits that
Python's long integers give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gondwana.compiler.function import jit

_MASK = 0xFFFFFFFF
_MULTIPLIER_0, _MULTIPLIER_2 = 0xD2511F53, 0xCD9E8D57
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10


@jit
def philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> tuple[int, int, int, int]:
    """Return the four 32-bit words of Philox4x32-10 for a counter and a key. Local.

    Args:
        c0: first word of the counter, 32 bits.
        c1: second word of the counter.
        c2: third word of the counter.
        c3: fourth word of the counter.
        k0: first word of the key, 32 bits.
        k1: second word of the key.

    Returns:
        Four integers in [0, 2**32).

    Example:
        >>> [f"{word:08x}" for word in philox(0, 0, 0, 0, 0, 0)]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    for _ in range(_ROUNDS):
        product_0 = wide_product(_MULTIPLIER_0, c0)
        product_2 = wide_product(_MULTIPLIER_2, c2)
        high_0, low_0 = (product_0 >> 32) & _MASK, product_0 & _MASK
        high_2, low_2 = (product_2 >> 32) & _MASK, product_2 & _MASK
        c0, c1, c2, c3 = high_2 ^ c1 ^ k0, low_2, high_0 ^ c3 ^ k1, low_0
        k0 = (k0 + _WEYL_0) & _MASK
        k1 = (k1 + _WEYL_1) & _MASK
    return c0, c1, c2, c3


def wide_product(a: int, b: int) -> int:
    """Multiply two 32-bit words: compiled code keeps 64 bits, the upper one may be the sign."""
    return a * b


def signed_unit(word: int, dtype: Any) -> Any:
    """Map a 32-bit word to [-1, 1): exact in float64, and in float32 from the upper 24 bits."""
    signed = word - ((word & 0x80000000) << 1)
    if np.dtype(dtype) == np.float32:
        return np.float32(signed >> 8) * np.float32(2.0**-23)
    return signed * 2.0**-31


@jit
def random(seed: int, p: Sequence[int], step: int, dtype: Any = np.float64) -> float:
    """Return a random number, uniform in [-1, 1), that belongs to a point and a step. Local.

    The same (seed, point, step) gives the same number on every rank, thread and device. One draw is a word of
    Philox4x32-10 with counter (x >> 2, y, z, step) and key (low, high half of the seed): the word x & 3, as a signed
    integer, times 2**-31 in float64; its upper 24 bits times 2**-23 in float32.

    Args:
        seed: any 64-bit integer.
        p: a point of one to three axes, in global coordinates; negative ones are allowed.
        step: a 32-bit integer, such as the number of the time step.
        dtype: `np.float64`, `np.float32`, or `u.dtype` of an array of a kernel.

    Returns:
        A number in [-1, 1) of that dtype.

    Example:
        >>> import gondwana as gw
        >>> round(gw.random(42, gw.Point(0, 0, 0), 1), 8)
        0.25206316
    """
    seed, step = int(seed), int(step)
    y = p[1] if len(p) > 1 else 0
    z = p[2] if len(p) > 2 else 0
    words = philox((p[0] >> 2) & _MASK, y & _MASK, z & _MASK, step & _MASK, seed & _MASK, (seed >> 32) & _MASK)
    # Word number x & 3, chosen by its two bits: selects, where a chain of comparisons would keep loops scalar.
    odd, high = p[0] & 1, p[0] & 2
    first = words[1] if odd else words[0]
    second = words[3] if odd else words[2]
    word = second if high else first
    return signed_unit(word, dtype)  # type: ignore[no-any-return]
