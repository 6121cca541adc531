"""This rank's block of the matrix as it lies in memory, and its product with a vector."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import gondwana as gw

PANEL = 2**15
"""The most columns of a panel: 16 bits tell them apart, and their part of the vector (256 KiB) stays in the cache."""

UNROLL = 4
"""Partial sums of a row. Each row of a panel is filled up with zeros to a multiple, so that there is no remainder."""


class Matrix(NamedTuple):
    """A sparse block in panels of columns, one after the other; in a panel row by row, in a row by column.

    Attributes:
        rows: the first row of the block, and the row after the last.
        columns: the same for columns.
        panels: how many.
        width: columns of a panel; the last one may have less.
        start: int64 [panels * rows + 1]; where each row of each panel starts.
        value: float64 [start[-1]].
        column: uint16 [start[-1]], counted from the first one of the panel.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    panels: int
    width: int
    start: Any
    value: Any
    column: Any


def divide(columns: int) -> tuple[int, int]:
    """Return how many panels so many columns make, and their width. Local."""
    panels = max(1, math.ceil(columns / PANEL))
    return panels, math.ceil(columns / panels)


def estimate(nonzeros: int, rows: int) -> int:
    """Return about how many bytes a matrix has that lies in so many rows, those of all panels. Local."""
    return 10 * (nonzeros + rows * (UNROLL - 1) // 2) + 8 * rows


def allocate(block: tuple[gw.RectDomain, gw.RectDomain], lengths: Any) -> Matrix:
    """Make a matrix of zeros. Local.

    Args:
        block: its rows and columns.
        lengths: int64 [panels * rows]; elements that each row of each panel is to have.
    """
    rows, columns = (domain.axes[0] for domain in block)
    start = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(-(-lengths // UNROLL) * UNROLL, out=start[1:])
    elements = int(start[-1])
    return Matrix(
        (rows.start, rows.stop),
        (columns.start, columns.stop),
        *divide(len(columns)),
        gw.Array(start),
        gw.Array(np.zeros(elements)),
        gw.Array(np.zeros(elements, np.uint16)),
    )


@gw.jit
def multiply(a: Any, p: Any, w: Any) -> None:
    """Let w = A p over the columns of this rank: a sum over all columns lacks what the others of its row have.

    Four partial sums keep that many products under way, where one would wait for each addition.
    """
    first, end = a.rows
    for row in range(first, end):
        w[row] = 0.0
    place = 0
    for panel in range(a.panels):
        left = a.columns[0] + panel * a.width
        for row in range(first, end):
            s0 = s1 = s2 = s3 = 0.0
            for k in range(a.start[place], a.start[place + 1], UNROLL):
                s0 += a.value[k] * p[left + a.column[k]]
                s1 += a.value[k + 1] * p[left + a.column[k + 1]]
                s2 += a.value[k + 2] * p[left + a.column[k + 2]]
                s3 += a.value[k + 3] * p[left + a.column[k + 3]]
            w[row] += (s0 + s1) + (s2 + s3)
            place += 1
