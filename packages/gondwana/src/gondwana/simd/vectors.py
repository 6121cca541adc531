"""Explicit vectors: several numbers at once, for loops that the compiler does not vectorise by itself.

A compiled loop takes 2, 4, 8 or 16 steps at a time: `load` and `gather` make a `Vector`, which computes like a number,
and `store` and `scatter` write it. Vectors become registers of the processor: one for a vector as long as a register,
several for a longer one. Nothing is checked: an index outside of an array reads or destroys other memory.
"""

from __future__ import annotations

from typing import Any

WIDTHS = (2, 4, 8, 16)
"""The legal numbers of elements of a vector."""
DTYPES = ("float64", "float32", "int64", "int32", "uint64", "uint32", "int16", "uint16")
"""The legal dtypes of elements."""


def _error() -> RuntimeError:
    return RuntimeError(
        "vectors exist in compiled code only: call this from a function with @gw.jit, without GONDWANA_INTERPRET=1"
    )


class Vector:
    """Elements of one dtype, in compiled code.

    `+`, `-`, `*` and unary `-` work element by element, `/` on floats, between vectors of the same width and dtype, and
    between a vector and a number, which takes the dtype of the vector. Each operation rounds as it is written: only
    `fma` is fused. Integers wrap.
    """

    def _combine(self, other: Vector | float) -> Vector:
        raise _error()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _combine

    def __neg__(self) -> Vector:
        raise _error()

    def astype(self, dtype: Any) -> Vector:
        """Return the elements as floats, rounded to the nearest. Local; in compiled code only.

        Args:
            dtype: `np.float64` or `np.float32`.
        """
        raise _error()

    def sum(self) -> float:
        """Return the sum of the elements. Local; in compiled code only.

        It is the sum of the two halves, each added up in the same way: of four elements (a + b) + (c + d).
        """
        raise _error()

    def min(self) -> float:
        """Return the least element, of elements without NaN. Local; in compiled code only."""
        raise _error()

    def max(self) -> float:
        """Return the greatest element, of elements without NaN. Local; in compiled code only."""
        raise _error()


def fill(value: Any, width: int) -> Vector:
    """Return a vector of one number, repeated. Local; in compiled code only.

    Args:
        value: the number, whose dtype is that of the vector.
        width: 2, 4, 8 or 16, a constant.
    """
    raise _error()


def load(array: Any, start: Any, width: int) -> Vector:
    """Return consecutive elements of an array. Local; in compiled code only.

    Args:
        array: array of NumPy with one axis, or of Gondwana; neighbours along its last axis are adjacent in memory.
        start: index of the first element; for Gondwana's arrays in the coordinates of the domain, also a point.
        width: 2, 4, 8 or 16, a constant.
    """
    raise _error()


def store(array: Any, start: Any, vector: Vector) -> None:
    """Write the elements of a vector side by side. Local; in compiled code only.

    Args:
        array: as for `load`, of the dtype of the vector.
        start: index of the first element.
        vector: the elements.
    """
    raise _error()


def gather(array: Any, indices: Vector) -> Vector:
    """Return the elements of an array at some indices. Local; in compiled code only.

    Args:
        array: array of NumPy with one axis, without gaps.
        indices: integers, from zero.
    """
    raise _error()


def scatter(array: Any, indices: Vector, vector: Vector) -> None:
    """Write the elements of a vector at some indices; of equal ones the last counts. Local; in compiled code only.

    Args:
        array: array of NumPy with one axis, without gaps, of the dtype of the vector.
        indices: integers, from zero, as many as the vector has elements.
        vector: the elements.
    """
    raise _error()


def fma(a: Any, b: Any, c: Any) -> Vector:
    """Return a * b + c of floats, rounded once. Local; in compiled code only.

    Args:
        a: a vector, or a number if one of the others is a vector.
        b: likewise.
        c: likewise.
    """
    raise _error()


def exp(x: Any) -> Vector:
    """Return e to the power of floats. Local; in compiled code only.

    Results have an error below 1 unit in the last place, also if they are subnormal. Like the other operations it
    does not depend on the width or on the other elements. Infinities and NaN give the results of `math.exp`; too
    large numbers give infinity.

    Args:
        x: a vector of float64 or float32.
    """
    raise _error()


def minimum(left: Any, right: Any) -> Vector:
    """Return the lesser elements of two vectors, or of a vector and a number. Local; in compiled code only.

    If one of them is a NaN the result is the element of `left`, as for Python's `min`.
    """
    raise _error()


def maximum(left: Any, right: Any) -> Vector:
    """Return the greater elements of two vectors, or of a vector and a number. Local; in compiled code only.

    If one of them is a NaN the result is the element of `left`, as for Python's `max`.
    """
    raise _error()


def prefetch(array: Any, start: Any) -> None:
    """Request the cache line of an element that will be read soon. Local; in compiled code only.

    Nothing depends on it, so `start` may be outside of the array.

    Args:
        array: as for `load`, of any dtype.
        start: index of the element.
    """
    raise _error()
