"""The matrices of all levels in the form of the optimised path: A = L + D + U + E, in rows of constant length.

L and U are what lies below and above the diagonal, D the diagonal, E what multiplies entries of other ranks. The rows
of all levels are numbered through. A row of L ends with the column just before the diagonal and one of U with that
just behind it: what a sweep has computed last is needed last, so that the processor works on several rows at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.apps.hpcg.levels import LEVELS, Level, System
from gondwana.errors import GondwanaError

PLACES = 13
"""Places of a row in L and in U: a constant, so that compiled loops over them have no branch."""

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]
Unsigned = NDArray[np.uint32]


class Split(NamedTuple):
    """The matrices of this rank. Unused places hold 0 in the column of their own row.

    Attributes:
        first: the first row of each level, and the end.
        lower, lower_columns: L, row by row.
        upper, upper_columns: U.
        diagonal, inverse: D and what one over it is.
        fine: the row under each coarse row; they are numbered from the first one of level 1.
        below, below_rows: the column of U at the fine point of each coarse row, entries and their rows.
        edge_first: the first edge of each level, and the end; edges are the rows that have entries of E.
        edge_rows, edge_coarse: the row of each edge, and the coarse row at this point or -1.
        edge_starts, edge_values, edge_columns: E, edge by edge; columns count what has come from other ranks.
        edge_saved: room for an entry of a vector at each edge.
    """

    first: Integers
    lower: Vector
    lower_columns: Unsigned
    upper: Vector
    upper_columns: Unsigned
    diagonal: Vector
    inverse: Vector
    fine: Integers
    below: Vector
    below_rows: Unsigned
    edge_first: Integers
    edge_rows: Integers
    edge_coarse: Integers
    edge_starts: Integers
    edge_values: Vector
    edge_columns: Integers
    edge_saved: Vector

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)


@gw.jit
def part(
    values: Any, columns: Any, counts: Any, first: int, lower: Any, lower_columns: Any, upper: Any, upper_columns: Any
) -> int:
    """Write L and U of one level, whose rows begin at `first`; return the most places that a row would take."""
    widest = 0
    rows = len(counts)
    for row in range(rows):
        below, above = 0, 0
        for place in range(counts[row]):
            below += columns[row, place] < row
            above += row < columns[row, place] < rows
        widest = max(widest, below, above)
        for place in range(lower.shape[1]):
            lower[first + row, place] = upper[first + row, place] = 0.0
            lower_columns[first + row, place] = upper_columns[first + row, place] = first + row
        if max(below, above) > lower.shape[1]:
            continue
        low, high = lower.shape[1] - below, upper.shape[1] - 1
        for place in range(counts[row]):
            column = columns[row, place]
            if column < row:
                lower[first + row, low], lower_columns[first + row, low] = values[row, place], first + column
                low += 1
            elif row < column < rows:
                upper[first + row, high], upper_columns[first + row, high] = values[row, place], first + column
                high -= 1
    return widest


@gw.jit
def turn(first: int, last: int, upper: Any, upper_columns: Any, coarse: Any, below: Any, below_rows: Any) -> None:
    """Write the columns of U that belong to points of the coarser level; `coarse` is -1 elsewhere."""
    filled = np.zeros(len(below), np.int64)
    for row in range(first, last):
        for place in range(upper.shape[1]):
            target = coarse[upper_columns[row, place] - first]
            if target >= 0 and upper[row, place] != 0.0:
                below[target, filled[target]] = upper[row, place]
                below_rows[target, filled[target]] = row
                filled[target] += 1


def split(system: System) -> Split:
    """Convert the matrices of all levels. Local.

    Raises:
        GondwanaError: a row has more entries on one side of the diagonal than there are places.
    """
    levels = system.levels
    first = np.cumsum([0, *(level.rows for level in levels)])
    rows = int(first[-1])
    lower, upper = np.empty((rows, PLACES)), np.empty((rows, PLACES))
    lower_columns, upper_columns = np.empty((rows, PLACES), np.uint32), np.empty((rows, PLACES), np.uint32)
    for level, start in zip(levels, first, strict=False):
        matrix = level.matrix
        widest = part(
            matrix.values, matrix.columns, matrix.counts, int(start), lower, lower_columns, upper, upper_columns
        )
        if widest > PLACES:
            raise GondwanaError(f"a row has {widest} entries on one side of the diagonal, and room is for {PLACES}")
    fine = np.concatenate([level.fine + start for level, start in zip(levels[1:], first, strict=False)])
    below, below_rows = _turned(first, fine, upper, upper_columns)
    diagonal = np.concatenate([level.matrix.diagonal for level in levels])
    return Split(
        first, lower, lower_columns, upper, upper_columns, diagonal, 1.0 / diagonal, fine, below, below_rows,
        *_edges(levels, first, fine),
    )  # fmt: skip


def replace_diagonal(matrices: Split, diagonal: Vector) -> None:
    """Set the diagonal of the finest level. Local."""
    matrices.diagonal[: len(diagonal)] = diagonal
    matrices.inverse[: len(diagonal)] = 1.0 / diagonal


def _turned(first: Integers, fine: Integers, upper: Vector, upper_columns: Unsigned) -> tuple[Vector, Unsigned]:
    below = np.zeros((len(fine), PLACES))
    below_rows = np.tile(fine.astype(np.uint32)[:, None], (1, PLACES))
    for level in range(LEVELS - 1):
        start, end = int(first[level]), int(first[level + 1])
        coarse = slice(int(first[level + 1] - first[1]), int(first[level + 2] - first[1]))
        turn(
            start,
            end,
            upper,
            upper_columns,
            _inverted(fine[coarse] - start, end - start),
            below[coarse],
            below_rows[coarse],
        )
    return below, below_rows


def _inverted(fine: Integers, rows: int) -> Integers:
    """For each row the number of the coarse one at its point, -1 where there is none."""
    coarse = np.full(rows, -1, np.int64)
    coarse[fine] = np.arange(len(fine))
    return coarse


def _edges(levels: list[Level], first: Integers, fine: Integers) -> tuple[Any, ...]:
    """The arrays of E."""
    rows, coarse, starts, values, columns, edge_first = [], [], [0], [], [], [0]
    for number, (level, start) in enumerate(zip(levels, first, strict=False)):
        matrix = level.matrix
        outside = matrix.columns >= level.rows
        found = np.flatnonzero(outside.any(axis=1))
        rows.append(found + start)
        under = _coarse_rows(number, levels, first)
        coarse.append(under[found])
        starts += list(starts[-1] + np.cumsum(outside[found].sum(axis=1)))
        values.append(matrix.values[outside])
        columns.append(matrix.columns[outside].astype(np.int64) - level.rows)
        edge_first.append(edge_first[-1] + len(found))
    return (
        np.array(edge_first, np.int64), np.concatenate(rows), np.concatenate(coarse), np.array(starts, np.int64),
        np.concatenate(values), np.concatenate(columns), np.zeros(edge_first[-1]),
    )  # fmt: skip


def _coarse_rows(number: int, levels: list[Level], first: Integers) -> Integers:
    """The coarse row at each row of a level, numbered through all levels, -1 where there is none."""
    if number == LEVELS - 1:
        return np.full(levels[number].rows, -1, np.int64)
    coarse = _inverted(levels[number + 1].fine, levels[number].rows)
    return np.where(coarse >= 0, coarse + first[number + 1], -1)
