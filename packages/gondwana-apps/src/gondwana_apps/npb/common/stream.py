"""The random numbers of the benchmarks (NAS-91-002, 2.3): x <- 5^13 x mod 2^46, and the number is 2^-46 x.

The product modulo 2^64 has the right low 46 bits, so the state is an unsigned integer of 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gondwana as gw

SEED = 314159265
MULTIPLIER = 5**13
MODULUS = 2**46
MASK = MODULUS - 1
UNIT = 2.0**-46

STREAMS = 4
"""Subsequences that are computed side by side."""
_STEP = np.uint64(MULTIPLIER)
_JUMP = np.uint64(pow(MULTIPLIER, STREAMS, MODULUS))
_MASK = np.uint64(MASK)


def power(exponent: int, multiplier: int = MULTIPLIER) -> int:
    """Return the multiplier that makes `exponent` steps at once. Local.

    Example:
        >>> power(2)
        57961422730425
    """
    return pow(multiplier, exponent, MODULUS)


def state_after(steps: int, seed: int = SEED) -> int:
    """Return the state after a number of steps from `seed`. Local.

    Example:
        >>> state_after(1) * UNIT
        0.7945219111887383
    """
    return power(steps) * seed % MODULUS


@gw.jit
def fill(out: Any, state: Any) -> Any:
    """Write the next `len(out)` numbers and return the state after them. Local; compiled, also from compiled code.

    Subsequences that are one step apart jump together, so that no multiplication waits for the previous one.

    Args:
        out: float64 [n], any n.
        state: state before the first number.
    """
    x = np.uint64(state)
    size = len(out)
    whole = size - size % STREAMS
    if whole:
        x0 = (_STEP * x) & _MASK
        x1 = (_STEP * x0) & _MASK
        x2 = (_STEP * x1) & _MASK
        x3 = (_STEP * x2) & _MASK
        for i in range(0, whole, STREAMS):
            out[i] = UNIT * x0
            out[i + 1] = UNIT * x1
            out[i + 2] = UNIT * x2
            out[i + 3] = UNIT * x3
            x = x3
            x0 = (_JUMP * x0) & _MASK
            x1 = (_JUMP * x1) & _MASK
            x2 = (_JUMP * x2) & _MASK
            x3 = (_JUMP * x3) & _MASK
    for i in range(whole, size):
        x = (_STEP * x) & _MASK
        out[i] = UNIT * x
    return x
