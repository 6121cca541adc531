"""Sums, extremes and the like of global arrays, views and expressions, each in one sweep.

Those of all elements have the same bits for every division, except products. Those along axes are made by NumPy on the
cells of each rank, for which an expression is computed into memory of the rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gondwana.arrays.expressions import sweeps
from gondwana.domains import Point
from gondwana.errors import UsageError
from gondwana.teams import IN_PLACE

if TYPE_CHECKING:
    from gondwana.arrays.expressions.expression import Elementwise

_SUMS = {"b": "i8", "i": "i8", "u": "u8", "f": "f8", "c": "c16"}
"""The dtype in which sums and products along axes are made, by the kind of dtype of the elements."""

_FOLDS: dict[str, tuple[np.ufunc, int | None]] = {
    "sum": (np.add, 0),
    "prod": (np.multiply, 1),
    "min": (np.minimum, None),
    "max": (np.maximum, None),
}
"""NumPy's functions that fold, and their start values."""


def total(value: Elementwise) -> Any:
    """Return the sum of all elements: see `Elementwise.sum`. Collective over its team; blocks.

    Raises:
        UsageError: the elements are records.
    """
    _check_numbers(value, "sum")
    if value.dtype.kind == "f":
        return sweeps.fold("fsum", value)
    if value.dtype.kind == "c":
        return complex(sweeps.fold("fsum", value.real), sweeps.fold("fsum", value.imag))
    if value.dtype.itemsize < 8:
        return sweeps.fold("sum", value)
    # In halves, because a word of 64 bits cannot hold a sum of such numbers.
    upper, lower = value >> 32, (value & 0xFFFFFFFF).astype(np.int64)
    return (int(sweeps.fold("sum", upper)) << 32) + int(sweeps.fold("sum", lower))


def product(value: Elementwise) -> Any:
    """Return the product of all elements: see `Elementwise.prod`. Collective over its team; blocks.

    Raises:
        UsageError: the elements are complex or records.
    """
    _check_numbers(value, "prod")
    if value.dtype.kind == "c":
        raise UsageError("prod() of complex numbers: multiply along axes, as in prod(axis=0)")
    return sweeps.fold("prod", value)


def extreme(value: Elementwise, which: str) -> Any:
    """Return the smallest or largest element: see `Elementwise.min`. Collective over its team; blocks.

    Raises:
        UsageError: the elements are complex or records, or there are none.
    """
    _check_order(value, which)
    found = sweeps.fold("min" if which == "min" else "max", value)
    if value.dtype.kind == "b":
        return bool(found)
    return found + 0.0 if value.dtype.kind == "f" else found  # between zeros of both signs the place would decide


def truth(value: Elementwise, which: str, axis: int | tuple[int, ...] | None) -> Any:
    """Return whether one ("max") or all ("min") elements are not zero: see `Elementwise.any`. Collective; blocks.

    Raises:
        UsageError: an axis does not exist, or the elements are records.
    """
    _check_numbers(value, "any" if which == "max" else "all")
    holds = value != 0
    if axis is not None:
        return along(holds, which, axis)
    return extreme(holds, which) if value.size else which == "min"


def place(value: Elementwise, which: str) -> Point:
    """Return the point of the smallest or largest element: see `Elementwise.argmin`. Collective; blocks.

    Raises:
        UsageError: the elements are complex or records, or there are none.
    """
    from gondwana.arrays.expressions.functions import coordinates, where

    found = extreme(value, which)
    hit = value != value if found != found else value == value.dtype.type(found)
    number: Any = 0
    for axis, coordinate in zip(value.domain.axes, coordinates(value), strict=True):
        number = number * len(axis) + (coordinate - axis.start) // axis.step
    first = int(sweeps.fold("min", where(hit, number, value.size)))
    places = np.unravel_index(first, value.shape)
    return Point(axis[int(position)] for axis, position in zip(value.domain.axes, places, strict=True))


def mean(value: Elementwise, axis: int | tuple[int, ...] | None) -> Any:
    """Return the mean of all elements, or the means along axes: see `Elementwise.mean`. Collective; blocks.

    Raises:
        UsageError: an axis does not exist, or there are no elements.
    """
    _check_numbers(value, "mean")
    _check_elements(value, "mean")
    sums = total(value) if axis is None else along(value, "sum", axis)
    return sums / (value.size // np.size(sums))


def variance(value: Elementwise, axis: int | tuple[int, ...] | None, ddof: int) -> Any:
    """Return the variance of all elements, or those along axes: see `Elementwise.var`. Collective; blocks.

    Raises:
        UsageError: an axis does not exist, or there are no elements.
    """
    middle = mean(value, axis)
    if axis is None:
        wide = value.astype(np.promote_types(value.dtype, np.float64))
        return _divided(total(_squares(wide - middle)), value.size - ddof)
    axes = _axes(value, "var", axis)
    shown = np.expand_dims(middle, axes)
    positions = value.part(value.team.rank)
    own = tuple(
        slice(0, 1) if axis in axes else slice(span.start, span.stop) for axis, span in enumerate(positions.axes)
    )
    distances = sweeps.values(value) - shown[own]
    squares = distances.real**2 + distances.imag**2 if np.iscomplexobj(distances) else distances * distances
    sums = _folded(value, squares, "sum", axes)
    return _divided(sums, value.size // np.size(sums) - ddof)


def _divided(sums: Any, count: int) -> Any:
    """A sum divided by a number, which NumPy lets be zero or less."""
    with np.errstate(all="ignore"):
        return (np.asarray(sums) / max(count, 0))[()] if np.ndim(sums) else float(np.float64(sums) / max(count, 0))


def norm(value: Elementwise) -> float:
    """Return the root of the sum of the squares of all elements: see `Elementwise.norm`. Collective; blocks.

    Raises:
        UsageError: the elements are records.
    """
    _check_numbers(value, "norm")
    return math.sqrt(total(_squares(value)))


def _squares(value: Elementwise) -> Any:
    """The squares of the absolute values, in float64."""
    if value.dtype.kind == "c":
        return _squares(value.real) + _squares(value.imag)
    wide = value.astype(np.float64)
    return wide * wide


def dot(one: Elementwise, other: Any) -> Any:
    """Return the inner product of two operands: see `Elementwise.dot`. Collective; blocks.

    Raises:
        UsageError: the elements are records, or the cells differ.
    """
    _check_numbers(one, "dot")
    first = one.conj() if one.dtype.kind == "c" else one
    return total(first.astype(np.dtype(_SUMS[first.dtype.kind])) * other)


def along(value: Elementwise, which: str, axis: int | tuple[int, ...]) -> Any:
    """Reduce along axes: see `Elementwise.sum`. Collective over its team; blocks.

    Args:
        value: the elements.
        which: "sum", "prod", "min" or "max".
        axis: the axis or axes that vanish.

    Raises:
        UsageError: an axis does not exist, complex numbers would be ordered, or the elements are records.
    """
    _check_numbers(value, which)
    axes = _axes(value, which, axis)
    if which in ("min", "max"):
        _check_order(value, which)
    found = _folded(value, sweeps.values(value), which, axes)
    return found if which in ("sum", "prod") else np.asarray(found, value.dtype)[()]


def _axes(value: Elementwise, which: str, axis: int | tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(np.lib.array_utils.normalize_axis_tuple(axis, value.ndim))
    except (TypeError, ValueError):
        raise UsageError(f"{which}(axis={axis!r}): give one of the axes 0 to {value.ndim - 1}, or several") from None


def _folded(value: Elementwise, own: np.ndarray[Any, Any], which: str, axes: tuple[int, ...]) -> Any:
    """The elements of all ranks folded along axes, on every rank. Collective."""
    kept = [axis for axis in range(value.ndim) if axis not in axes]
    ufunc, neutral = _FOLDS[which]
    kind = own.dtype.kind
    if neutral is not None:
        dtype, start = np.dtype(_SUMS[kind]), neutral
    else:
        dtype = np.dtype(np.uint8) if kind == "b" else own.dtype  # MPI has no order of booleans
        start = _limit(dtype, which)
    whole = np.full([value.shape[axis] for axis in kept], start, dtype)
    if own.size:
        box = value.part(value.team.rank)
        whole[tuple(slice(box.lo[axis], box.hi[axis]) for axis in kept)] = ufunc.reduce(own, axes, dtype)
    value.team.Allreduce(IN_PLACE, whole, which)
    return whole[()]


def _limit(dtype: np.dtype[Any], which: str) -> Any:
    """The value that no minimum or maximum of a dtype is beyond."""
    if dtype.kind == "f":
        return np.inf if which == "min" else -np.inf
    limits: Any = np.iinfo(dtype)
    return limits.max if which == "min" else limits.min


def _check_order(value: Elementwise, which: str) -> None:
    _check_numbers(value, which)
    if value.dtype.kind == "c":
        raise UsageError(f"{which}() of {value.dtype}: complex numbers have no order")
    _check_elements(value, which)


def _check_numbers(value: Elementwise, which: str) -> None:
    names = value.dtype.names
    if names is not None:
        fields = ", ".join(names)
        raise UsageError(f"{which}() of records of {fields}: reduce one field, such as a[p].{names[0]}, by @gw.reduce")


def _check_elements(value: Elementwise, which: str) -> None:
    if value.domain.is_empty:
        raise UsageError(f"{which}() of an array on {value.domain!r}, which has no cells")
