"""Rows of a sparse matrix as they lie in memory, and their product with a vector in compiled code.

Eight rows make a slice, in which they lie side by side: their first entries, then their second ones. Among the rows of
a window those of like length come together (M. Kreutzer et al., SELL-C-sigma, arXiv:1307.6209). The columns of a slice
are counted from its first one, mostly in 16 bits. Where rows are long and their entries lie anywhere, the columns are
divided into panels, so that the part of the vector that a panel needs stays near the processor.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana import simd
from gondwana.arrays.array import Array
from gondwana.compiler.function import jit
from gondwana.solvers.halo import Integers

ABREAST = 8
"""Rows side by side: their sums are under way together, while one alone would wait for each addition."""

WINDOW = 1024
"""Rows that are ordered by length: near each other, so that they need the same part of the vector."""

ELEMENTS, FEWEST = 24, 8
"""Entries of a row in a panel: as many as there should be, and as few as there may be, since rows cost time, too."""

NARROWEST, WIDEST = 5_000, 2**15
"""Columns of a panel: their part of a vector of float64 is then between 40 and 256 KiB."""

AHEAD = 512
"""Entries after those that are multiplied whose values are prefetched: whether the processor does it by itself depends
on the place of the loop in memory."""


class Slices(NamedTuple):
    """Rows of a sparse matrix: panel by panel, in a panel slice by slice. Made by `slices_of`.

    Attributes:
        panels: number of panels of columns.
        slices: number of slices in each.
        row: the rows in their order, eight for each slice; the last slice is filled up with its first row.
        start: first entry of each slice, and the end.
        base: the column from which those of a slice are counted.
        value: values of the entries; shorter rows of a slice are filled up with zeros in its first column.
        column: their columns, as unsigned integers of 16 or 32 bits.
    """

    panels: int
    slices: int
    row: Array
    start: Array
    base: Array
    value: Array
    column: Array


def slices_of(
    starts: Integers, columns: npt.NDArray[Any], values: npt.NDArray[Any], rows: Integers, over: range
) -> Slices:
    """Put rows into slices. Local.

    Args:
        starts: first entry of each row, and the end.
        columns: columns of the entries, in any order within a row; those of equal columns add up.
        values: values of the entries.
        rows: numbers of the rows, by which the product is written.
        over: all columns that there may be.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> from gondwana import solvers
        >>> a = solvers.slices_of(
        ...     np.array([0, 2, 3]), np.array([0, 2, 1]), np.array([1.0, 2.0, 3.0]), np.arange(2), range(3)
        ... )
        >>> x, y = gw.Array(np.array([1.0, 10.0, 100.0])), gw.Array(np.zeros(2))
        >>> solvers.multiply_slices(a, x, y)
        >>> y.numpy().tolist()
        [201.0, 30.0]
    """
    widest = min(max(ELEMENTS * len(rows) * len(over) / max(1, len(columns)), NARROWEST), WIDEST)
    panels = max(1, math.ceil(len(over) / widest))
    width = max(1, math.ceil(len(over) / panels))
    lengths = np.zeros((panels, len(rows)), np.int64)
    _measure(starts, columns, over.start, width, lengths)
    are_short = len(columns) < FEWEST * lengths.size
    if are_short or np.count_nonzero(lengths) < 0.75 * lengths.size:  # or rows lie in few panels each
        panels, width, lengths = 1, max(1, len(over)), lengths.sum(axis=0, keepdims=True)
    count = math.ceil(len(rows) / ABREAST)
    lanes = np.arange(count * ABREAST)
    row, home, at = np.empty((panels, len(lanes)), np.int64), np.empty_like(lengths), np.empty_like(lengths)
    start = np.zeros(panels * count + 1, np.int64)
    for panel, of in enumerate(lengths):
        order = np.lexsort((-of, np.arange(len(rows)) // WINDOW))
        row[panel] = rows[order[np.where(lanes < len(rows), lanes, len(rows) // ABREAST * ABREAST)]]
        home[panel, order] = panel * count + lanes[: len(rows)] // ABREAST
        at[panel, order] = lanes[: len(rows)] % ABREAST
        start[panel * count + 1 : (panel + 1) * count + 1] = ABREAST * of[order[::ABREAST]]
    np.cumsum(start, out=start)
    at += start[home]
    base = np.full(panels * count, over.stop, np.int64)
    is_short = _find_bases(starts, columns, over.start, width, home, base, np.zeros_like(base)) < 2**16
    value = np.zeros(start[-1], values.dtype)
    column = np.zeros(start[-1], np.uint16 if is_short else np.uint32)
    _fill(starts, columns, values, over.start, width, home, at, base, value, column)
    short_row = row.ravel().astype(np.int32 if np.all(row < 2**31) else np.int64)
    return Slices(panels, count, *map(_as_array, (short_row, start, base, value, column)))


def _as_array(data: npt.NDArray[Any]) -> Array:
    """Return data for compiled code, which is the same for none: NumPy gives no stride to an axis of no elements."""
    return Array(data if data.size else np.zeros(1, data.dtype)[:0])


@jit
def multiply_slices(a: Any, x: Any, y: Any) -> None:
    """Set the rows of y to the product with x. Local; in compiled code, too.

    Args:
        a: the rows.
        x: a `gw.Array`, indexed by the columns.
        y: likewise, by the rows.
    """
    for panel in range(a.panels):
        multiply_part(a, panel * a.slices, (panel + 1) * a.slices, x, y, panel > 0)


@jit
def multiply_part(a: Any, first: int, end: int, x: Any, y: Any, adds: bool) -> None:
    """Set rows of y to the product of slices with x, or add it."""
    for part in range(first, end):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        base = a.base[part]
        for k in range(a.start[part], a.start[part + 1], ABREAST):
            simd.prefetch(a.value, k + AHEAD)
            s0 += a.value[k] * x[base + a.column[k]]
            s1 += a.value[k + 1] * x[base + a.column[k + 1]]
            s2 += a.value[k + 2] * x[base + a.column[k + 2]]
            s3 += a.value[k + 3] * x[base + a.column[k + 3]]
            s4 += a.value[k + 4] * x[base + a.column[k + 4]]
            s5 += a.value[k + 5] * x[base + a.column[k + 5]]
            s6 += a.value[k + 6] * x[base + a.column[k + 6]]
            s7 += a.value[k + 7] * x[base + a.column[k + 7]]
        sums = s0, s1, s2, s3, s4, s5, s6, s7
        for number in range(ABREAST):
            lane = ABREAST - 1 - number  # the first row last: it may also stand for those that are missing
            row = a.row[part * ABREAST + lane]
            y[row] = y[row] + sums[lane] if adds else sums[lane]


@jit
def add_diagonal(a: Any, y: Any) -> None:
    """Add to each row of y the entries in the column of its number."""
    for part in range(a.panels * a.slices):
        for k in range(a.start[part], a.start[part + 1]):
            row = a.row[part * ABREAST + (k - a.start[part]) % ABREAST]
            if a.base[part] + a.column[k] == row:
                y[row] += a.value[k]


@jit
def _measure(starts: Any, columns: Any, first: int, width: int, lengths: Any) -> None:
    """Count the entries of each row in each panel."""
    for row in range(len(starts) - 1):
        for k in range(starts[row], starts[row + 1]):
            lengths[(columns[k] - first) // width, row] += 1


@jit
def _find_bases(starts: Any, columns: Any, first: int, width: int, home: Any, base: Any, last: Any) -> int:
    """Find the first and the last column of each slice; return the longest distance between them."""
    longest = 0
    for row in range(len(starts) - 1):
        for k in range(starts[row], starts[row + 1]):
            part = home[(columns[k] - first) // width, row]
            base[part], last[part] = min(base[part], columns[k]), max(last[part], columns[k])
    for part in range(len(base)):
        longest = max(longest, last[part] - base[part])
    return longest


@jit
def _fill(
    starts: Any, columns: Any, values: Any, first: int, width: int, home: Any, at: Any, base: Any, value: Any,
    column: Any,
) -> None:  # fmt: skip
    """Write the entries; `at` is the place of the next one of each row in each panel."""
    for row in range(len(starts) - 1):
        for k in range(starts[row], starts[row + 1]):
            panel = (columns[k] - first) // width
            place = at[panel, row]
            value[place], column[place] = values[k], columns[k] - base[home[panel, row]]
            at[panel, row] += ABREAST
