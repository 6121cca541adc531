"""Sums, extremes and the norm of all cells of a global array, the same bits however they are divided."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.device_array import DeviceArray
from gondwana.domains import Point
from gondwana.errors import UsageError
from gondwana.kernels import Reduce, reduce

if TYPE_CHECKING:
    from gondwana.arrays.global_array import GlobalArray


def _element(p: Point, a: Any) -> Any:
    return a[p]


_integer_sum = reduce(op="sum")(_element)
_exact_sum = reduce(op="fsum")(_element)
_extremes = {"min": reduce(op="min")(_element), "max": reduce(op="max")(_element)}


@reduce(op="sum")
def _upper_sum(p: Point, a: Any) -> Any:
    return a[p] >> 32


@reduce(op="sum")
def _lower_sum(p: Point, a: Any) -> Any:
    return np.int64(a[p] & 0xFFFFFFFF)


@reduce(op="fsum")
def _real_sum(p: Point, a: Any) -> Any:
    return a[p].real


@reduce(op="fsum")
def _imaginary_sum(p: Point, a: Any) -> Any:
    return a[p].imag


@reduce(op="fsum")
def _squares(p: Point, a: Any) -> Any:
    x = np.float64(a[p])
    return x * x


@reduce(op="fsum")
def _complex_squares(p: Point, a: Any) -> Any:
    x, y = np.float64(a[p].real), np.float64(a[p].imag)
    return x * x + y * y


def total(array: GlobalArray) -> int | float | complex:
    """Return the sum of all cells: see `GlobalArray.sum`. Collective over its team; blocks."""
    if array.dtype.kind == "f":
        return _over(_exact_sum, array)
    if array.dtype.kind == "c":
        return complex(_over(_real_sum, array), _over(_imaginary_sum, array))
    if array.dtype.itemsize < 8:
        return _over(_integer_sum, array)
    # In halves, because words of 64 bits hold no sum of such numbers.
    return (int(_over(_upper_sum, array)) << 32) + int(_over(_lower_sum, array))


def extreme(array: GlobalArray, which: str) -> int | float | bool:
    """Return the smallest or largest cell: see `GlobalArray.min`. Collective over its team; blocks.

    Raises:
        UsageError: the array is complex, or has no cells.
    """
    if array.dtype.kind == "c":
        raise UsageError(f"{which}() of {array.dtype}: complex numbers have no order")
    if array.domain.is_empty:
        raise UsageError(f"{which}() of an array on {array.domain!r}, which has no cells")
    found = _over(_extremes[which], array)
    if array.dtype.kind == "b":
        return bool(found)
    return found + 0.0 if array.dtype.kind == "f" else found  # of zeros of both signs one would win by its place


def norm(array: GlobalArray) -> float:
    """Return the root of the sum of the squares of all cells: see `GlobalArray.norm`. Collective; blocks."""
    return math.sqrt(_over(_complex_squares if array.dtype.kind == "c" else _squares, array))


def _over(reduction: Reduce, array: GlobalArray) -> int | float:
    """Fold the cells of all ranks."""
    return reduction.all(array.team, array.owned, _reachable(array))


def _reachable(array: GlobalArray) -> Array | DeviceArray:
    """The block of this rank, or a copy on the host if it lies where no kernel runs."""
    block = array.block(array.team.rank)
    return block if isinstance(block, Array | DeviceArray) else block.copy()
