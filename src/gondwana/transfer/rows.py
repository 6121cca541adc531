"""Copies between strided boxes, described by rows of integers that compiled code executes (see `native_rows`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native
from gondwana.errors import UsageError

LOOPS = 5
"""Strided loops of a row besides its contiguous run: enough for arrays of six axes with a contiguous one."""

ROW = 3 + 3 * LOOPS
"""Integers of a row: source, destination, element (0: runs of `counts[-1]` bytes), then counts and strides in bytes."""

Row = list[int]
Axis = tuple[int, int, int]
"""An axis that two boxes share: count, stride in the source, stride in the target, in bytes."""

_ELEMENTS = (1, 2, 4, 8, 16)
"""Bytes of the elements that compiled code moves one by one; others are runs."""

_NUMPY_BEST = 1 << 14
"""Bytes below which NumPy copies a strided array in less time than it takes to describe it."""

_copy_rows = Native("gondwana.transfer.rows_native", "copy_rows", 3)


def joined_axes(axes: Iterable[Axis]) -> list[Axis]:
    """Order axes by stride, the largest first, drop those of one element and join neighbours that are one run."""
    joined: list[Axis] = []
    for count, s, d in sorted((axis for axis in axes if axis[0] != 1), key=lambda axis: (-abs(axis[1]), -abs(axis[2]))):
        if joined and joined[-1][1] == count * s and joined[-1][2] == count * d:
            joined[-1] = (joined[-1][0] * count, s, d)
        else:
            joined.append((count, s, d))
    return joined


def copy_row(source: npt.NDArray[Any], target: npt.NDArray[Any]) -> Row:
    """Describe the copy of all elements of `source` to `target`, of equal shape and dtype. Local.

    A contiguous box becomes one run of bytes.

    Raises:
        UsageError: there are more strided axes than a row has loops.
    """
    item = source.dtype.itemsize
    joined = joined_axes(zip(source.shape, source.strides, target.strides, strict=True))
    element = item
    if joined and joined[-1][1:] == (item, item):
        joined[-1] = (joined[-1][0] * item, 0, 0)
        element = 0
    elif not joined or item not in _ELEMENTS:
        joined.append((item, 0, 0))
        element = 0
    if len(joined) > LOOPS:
        raise UsageError(f"a copy of {len(joined)} strided axes is not possible: the limit is {LOOPS}")
    padded = [(1, 0, 0)] * (LOOPS - len(joined)) + joined
    counts, sources, targets = zip(*padded, strict=True)
    return [source.ctypes.data, target.ctypes.data, element, *counts, *sources, *targets]


def alike_together(rows: list[Row]) -> list[Row]:
    """Rows ordered so that those of the same element and counts, which are executed side by side, are neighbours."""
    return sorted(rows, key=lambda row: row[2 : 3 + LOOPS])


def program(rows: list[Row]) -> npt.NDArray[np.int64]:
    """Rows as one array of integers."""
    return np.array(rows, np.int64).reshape(len(rows), ROW)


def execute(rows: npt.NDArray[np.int64]) -> None:
    """Execute a program. Local; the memory that it names must be alive."""
    _copy_rows.call(rows.ctypes.data, 0, len(rows))


def copy_memory(source: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
    """Copy all elements between arrays of one shape and dtype, strided or not. Local."""
    contiguous = source.flags.c_contiguous and target.flags.c_contiguous
    if contiguous or source.nbytes < _NUMPY_BEST or source.ndim >= LOOPS:
        target[...] = source
    else:
        execute(program([copy_row(source, target)]))
