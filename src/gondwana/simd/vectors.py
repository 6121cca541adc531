"""Eight numbers at once: explicit vectors for loops that the compiler cannot vectorise, such as those with indices.

In a kernel a loop takes eight steps at a time: `load` and `gather` make `Lanes`, which add, subtract and multiply like
numbers, and `store` writes them. They become the vector registers of the processor. No index is checked.
"""

from __future__ import annotations

from typing import Any

from gondwana.compiler.types.handles import extend

WIDTH = 8
"""Numbers in `Lanes`: one or two registers of the processors that there are."""

extend("gondwana.simd.vectors_overloads")


class Lanes:
    """Eight float64, in compiled code."""

    def __add__(self, other: Lanes) -> Lanes:
        raise _error()

    def __sub__(self, other: Lanes) -> Lanes:
        raise _error()

    def __mul__(self, other: Lanes) -> Lanes:
        raise _error()


def fill(value: float) -> Lanes:
    """Return the same number eight times. Local; in compiled code only."""
    raise _error()


def load(array: Any, start: int) -> Lanes:
    """Return array[start], ..., array[start + 7]. Local; in compiled code only.

    Args:
        array: one-dimensional, contiguous float64.
        start: where to begin.
    """
    raise _error()


def gather(array: Any, indices: Any, start: int) -> Lanes:
    """Return array[indices[start]], ..., array[indices[start + 7]]. Local; in compiled code only.

    Args:
        array: one-dimensional, contiguous float64.
        indices: one-dimensional, contiguous uint32.
        start: where to begin in `indices`.
    """
    raise _error()


def store(array: Any, start: int, lanes: Lanes) -> None:
    """Write eight numbers to array[start], ..., array[start + 7]. Local; in compiled code only."""
    raise _error()


def add_up(lanes: Lanes) -> float:
    """Return the sum of the eight, added in pairs. Local; in compiled code only."""
    raise _error()


def _error() -> RuntimeError:
    return RuntimeError("lanes are for compiled code: call this from a function with @gw.jit")


def prefetch(array: Any, start: int) -> None:
    """Ask for the cache line of array[start], which will be read soon. Local; in compiled code only.

    Nothing depends on it, so that `start` may be outside.
    """
    raise _error()
