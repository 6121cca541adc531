"""Copies between strided boxes, described by rows of integers that compiled code executes (see `native_copy`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import Array
from gondwana.errors import UsageError

LOOPS = 5
"""Strided loops of a copy besides its contiguous run: enough for arrays of six axes."""

ROW = 3 + 3 * LOOPS
"""Integers of a row: source, destination, element (0: runs of `counts[-1]` bytes), then counts and strides in bytes."""

Row = list[int]


def copy_row(source: Array, target: Array) -> Row:
    """Describe the copy of all elements of `source` to `target`, of equal shape and dtype. Local.

    Axes are ordered by stride, adjacent ones joined, so that a contiguous box becomes one run of bytes.
    """
    item = source.dtype.itemsize
    src, dst = source.numpy(), target.numpy()
    axes = [axis for axis in zip(src.shape, src.strides, dst.strides, strict=True) if axis[0] > 1]
    axes.sort(key=lambda axis: (-abs(axis[1]), -abs(axis[2])))
    joined: list[tuple[int, int, int]] = []
    for count, s, d in axes:
        if joined and joined[-1][1] == count * s and joined[-1][2] == count * d:
            joined[-1] = (joined[-1][0] * count, s, d)
        else:
            joined.append((count, s, d))
    element = item
    if not joined or joined[-1][1:] == (item, item):
        run = joined.pop()[0] if joined else 1
        joined.append((run * item, 0, 0))
        element = 0
    if len(joined) > LOOPS:
        raise UsageError(f"a copy of {len(joined)} strided axes is not possible: the limit is {LOOPS}")
    padded = [(1, 0, 0)] * (LOOPS - len(joined)) + joined
    counts, sources, targets = zip(*padded, strict=True)
    return [src.ctypes.data, dst.ctypes.data, element, *counts, *sources, *targets]


def alike_together(rows: list[Row]) -> list[Row]:
    """Rows ordered so that those of the same element and counts, which are executed side by side, are neighbours."""
    return sorted(rows, key=lambda row: row[2 : 3 + LOOPS])


def program(rows: list[Row]) -> npt.NDArray[np.int64]:
    """Rows as one array of integers."""
    return np.array(rows, np.int64).reshape(len(rows), ROW)
