"""Sums, extremes and the norm of a global array; those of all cells have the same bits for every division.

NumPy's functions on global arrays call these; functions that need all cells in one place are refused.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.device_array import DeviceArray
from gondwana.domains import Point
from gondwana.errors import UsageError
from gondwana.kernels.reductions import Reduce, reduce
from gondwana.teams import IN_PLACE

if TYPE_CHECKING:
    from gondwana.arrays.global_array import GlobalArray


def _element(p: Point, a: Any) -> Any:
    return a[p]


_SUMS = {"b": "i8", "i": "i8", "u": "u8", "f": "f8", "c": "c16"}
"""The dtype in which sums along axes are added, by the kind of dtype of the cells."""

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
    """Return the sum of all cells: see `GlobalArray.sum`. Collective over its team; blocks.

    Raises:
        UsageError: the cells are records.
    """
    _check_numbers(array, "sum")
    if array.dtype.kind == "f":
        return _over(_exact_sum, array)
    if array.dtype.kind == "c":
        return complex(_over(_real_sum, array), _over(_imaginary_sum, array))
    if array.dtype.itemsize < 8:
        return _over(_integer_sum, array)
    # In halves, because a word of 64 bits cannot hold a sum of such numbers.
    return (int(_over(_upper_sum, array)) << 32) + int(_over(_lower_sum, array))


def extreme(array: GlobalArray, which: str) -> int | float | bool:
    """Return the smallest or largest cell: see `GlobalArray.min`. Collective over its team; blocks.

    Raises:
        UsageError: the array is complex, its cells are records, or it has no cells.
    """
    _check_order(array, which)
    found = _over(_extremes[which], array)
    if array.dtype.kind == "b":
        return bool(found)
    return found + 0.0 if array.dtype.kind == "f" else found  # between zeros of both signs the place would decide


def along(array: GlobalArray, which: str, axis: int | tuple[int, ...]) -> Any:
    """Reduce along axes: see `GlobalArray.sum`. Collective over its team; blocks.

    Args:
        array: the cells.
        which: "sum", "min" or "max".
        axis: the axis or axes that vanish.

    Raises:
        UsageError: an axis does not exist, complex numbers would be ordered, or the cells are records.
    """
    _check_numbers(array, which)
    try:
        axes = np.lib.array_utils.normalize_axis_tuple(axis, array.ndim)
    except (TypeError, ValueError):
        raise UsageError(f"{which}(axis={axis!r}): give one of the axes 0 to {array.ndim - 1}, or several") from None
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    ufunc, dtype, neutral = _folding(array, which)
    whole = np.full([array.domain.shape[axis] for axis in kept], neutral, dtype)
    block = _reachable(array).restrict(array.owned)
    cells = (block if isinstance(block, Array) else block.copy()).numpy()
    if cells.size:
        box = array.owned.translate(tuple(-first for first in array.domain.lo))
        whole[tuple(slice(box.lo[axis], box.hi[axis]) for axis in kept)] = ufunc.reduce(cells, axes, dtype)
    array.team.Allreduce(IN_PLACE, whole, which)
    return whole[()] if which == "sum" else whole.astype(array.dtype)[()]


def _folding(array: GlobalArray, which: str) -> tuple[np.ufunc, np.dtype[Any], Any]:
    """NumPy's function that folds, its dtype, and its start value."""
    if which == "sum":
        return np.add, np.dtype(_SUMS[array.dtype.kind]), 0
    _check_order(array, which)
    dtype = np.dtype(np.uint8) if array.dtype.kind == "b" else array.dtype  # MPI has no order of booleans
    limits: Any = None if dtype.kind == "f" else np.iinfo(dtype)
    if which == "min":
        return np.minimum, dtype, np.inf if limits is None else limits.max
    return np.maximum, dtype, -np.inf if limits is None else limits.min


def _check_order(array: GlobalArray, which: str) -> None:
    _check_numbers(array, which)
    if array.dtype.kind == "c":
        raise UsageError(f"{which}() of {array.dtype}: complex numbers have no order")
    _check_cells(array, which)


def _check_numbers(array: GlobalArray, which: str) -> None:
    names = array.dtype.names
    if names is not None:
        fields = ", ".join(names)
        raise UsageError(f"{which}() of records of {fields}: reduce one field, such as a[p].{names[0]}, by @gw.reduce")


def _check_cells(array: GlobalArray, which: str) -> None:
    if array.domain.is_empty:
        raise UsageError(f"{which}() of an array on {array.domain!r}, which has no cells")


def mean(array: GlobalArray, axis: int | tuple[int, ...] | None) -> Any:
    """Return the mean of all cells, or the means along axes: see `GlobalArray.mean`. Collective; blocks.

    Raises:
        UsageError: an axis does not exist, or there are no cells.
    """
    _check_numbers(array, "mean")
    _check_cells(array, "mean")
    sums = total(array) if axis is None else along(array, "sum", axis)
    return sums / (array.domain.size // np.size(sums))


def norm(array: GlobalArray) -> float:
    """Return the root of the sum of the squares of all cells: see `GlobalArray.norm`. Collective; blocks.

    Raises:
        UsageError: the cells are records.
    """
    _check_numbers(array, "norm")
    return math.sqrt(_over(_complex_squares if array.dtype.kind == "c" else _squares, array))


def _over(reduction: Reduce, array: GlobalArray) -> int | float:
    """Fold the cells of all ranks."""
    return reduction.all(array.team, array.owned, _reachable(array))


def _reachable(array: GlobalArray) -> Array | DeviceArray:
    """The block of this rank, or a copy on the host if no kernel can run on its memory."""
    block = array.block(array.team.rank)
    return block if isinstance(block, Array | DeviceArray) else block.copy()


_METHODS: dict[Callable[..., Any], str] = {
    np.sum: "sum",
    np.min: "min",
    np.amin: "min",
    np.max: "max",
    np.amax: "max",
    np.mean: "mean",
    np.linalg.norm: "norm",
}


def called_by_numpy(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the method of a global array that corresponds to a function of NumPy. Collective over its team.

    Raises:
        TypeError: no such method exists, or it lacks an option; raised before any communication.
    """
    name = f"{function.__module__}.{function.__name__}"
    method = _METHODS.get(function)
    if method is None:
        raise refusal(name)
    signature = inspect.signature(function)
    given = signature.bind(*args, **kwargs).arguments
    array: GlobalArray = given.pop(next(iter(signature.parameters)))
    options = [option for option, value in given.items() if value is not signature.parameters[option].default]
    if method in ("sum", "min", "max", "mean") and options == ["axis"]:
        return getattr(array, method)(given["axis"])
    if options:
        raise refusal(f"{name} with {options[0]}=")
    return getattr(array, method)()


def refusal(what: str) -> TypeError:
    """Return the error of an operation that needs the cells of a global array in one place. Local."""
    return TypeError(
        f"{what} is not defined on a GlobalArray T, whose cells are divided over ranks: use T.local (this rank's cells "
        "and ghosts, in global coordinates; T.local.numpy() is an ndarray), T.block(rank), T.to_numpy() (a copy of all "
        "cells, collective), gw.copy to another global array, or a kernel of @gw.foreach; np.sum, min, max, mean and "
        "np.linalg.norm work on all cells"
    )
