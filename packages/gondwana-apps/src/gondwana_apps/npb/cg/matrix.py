"""This rank's block of the matrix as it lies in memory, and its product with a vector.

The columns are divided into panels, so that the part of the vector that a panel needs stays near the processor and 16
bits tell its columns apart. In a panel the rows are ordered by length, and `ABREAST` rows of like length lie side by
side: their first elements, then their second ones (M. Kreutzer et al., SELL-C-sigma, arXiv:1307.6209).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana import simd

ABREAST = 4
"""Rows side by side: their sums are under way together, while one alone would wait for each addition."""

ELEMENTS = 24
"""Approximate number of elements in a row of a panel: with fewer, the rows themselves cost more."""

NARROWEST, WIDEST = 5_000, 2**15
"""Columns of a panel: their part of the vector is then between 40 and 256 KiB."""

AHEAD = 256
"""Elements after those that are multiplied whose values are prefetched: whether the processor does it by itself depends
on the place of the loop in memory."""

BYTES = 10
"""Bytes of an element: its value and its column."""

Block = tuple[gw.RectDomain, gw.RectDomain]


class Matrix(NamedTuple):
    """A sparse block: panel by panel, in a panel group by group, each of `ABREAST` rows.

    Attributes:
        rows: the first row of the block, and the row after the last.
        columns: the same for columns.
        panels: number of panels.
        width: number of columns of a panel; the last one may have less.
        groups: number of groups of rows in a panel; the last one is filled up with the first row of the block, without
            elements.
        row: int32 [panels * groups * ABREAST]; the rows in their order.
        start: int64 [panels * groups + 1]; start of each group.
        value: float64 [start[-1]]; shorter rows of a group are filled up with zeros.
        column: uint16 [start[-1]], counted from the first one of the panel.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    panels: int
    width: int
    groups: int
    row: gw.Array
    start: gw.Array
    value: gw.Array
    column: gw.Array


def divide(columns: int, density: float) -> tuple[int, int]:
    """Return the number and the width of panels for `columns` columns. Local.

    Args:
        columns: number of columns of the block.
        density: elements of the matrix by places for them.
    """
    widest = min(max(ELEMENTS / density, NARROWEST), WIDEST)
    panels = max(1, math.ceil(columns / widest))
    return panels, math.ceil(columns / panels)


def allocate(block: Block, width: int, lengths: npt.NDArray[np.int32]) -> Matrix:
    """Make a matrix of zeros. Local.

    Args:
        block: its rows and columns.
        width: width of a panel.
        lengths: int32 [panels, rows]; numbers of elements for each row of each panel.
    """
    rows, columns = (domain.axes[0] for domain in block)
    panels, groups = len(lengths), math.ceil(len(rows) / ABREAST)
    row = np.full((panels, groups * ABREAST), rows.start, np.int32)
    start = np.zeros(panels * groups + 1, np.int64)
    longest = start[1:].reshape(panels, groups)
    for panel in range(panels):
        order = np.argsort(-lengths[panel], kind="stable")
        row[panel, : len(rows)] += order
        longest[panel] = lengths[panel, order[::ABREAST]]
    np.cumsum(ABREAST * start, out=start)
    value, column = np.zeros(start[-1]), np.zeros(start[-1], np.uint16)
    arrays = (gw.Array(array) for array in (row.ravel(), start, value, column))
    return Matrix((rows.start, rows.stop), (columns.start, columns.stop), panels, width, groups, *arrays)


@gw.jit
def multiply(a: Any, p: Any, w: Any) -> None:
    """Let w = A p over the columns of this rank: a sum over all columns needs those of the others of its row, too."""
    for row in range(a.rows[0], a.rows[1]):
        w[row] = 0.0
    for panel in range(a.panels):
        first = a.columns[0] + panel * a.width
        for group in range(panel * a.groups, (panel + 1) * a.groups):
            s0 = s1 = s2 = s3 = 0.0
            for k in range(a.start[group], a.start[group + 1], ABREAST):
                simd.prefetch(a.value, k + AHEAD)
                s0 += a.value[k] * p[first + a.column[k]]
                s1 += a.value[k + 1] * p[first + a.column[k + 1]]
                s2 += a.value[k + 2] * p[first + a.column[k + 2]]
                s3 += a.value[k + 3] * p[first + a.column[k + 3]]
            place = group * ABREAST
            w[a.row[place]] += s0
            w[a.row[place + 1]] += s1
            w[a.row[place + 2]] += s2
            w[a.row[place + 3]] += s3
