"""The matrices of all levels in the form of the optimised path: A = L + D + U + E, in slices of eight rows.

L and U are the parts below and above the diagonal, D the diagonal, E the part for entries of other ranks. The rows of
all levels are numbered consecutively, by waves. A slice of L or U has `PLACES` places, and for each the entries of its
eight rows side by side: so that they are read as vectors.

A sweep in natural order must do a row after those before it that it is coupled with. Its wave is the longest chain of
such rows: on a grid x + 2 y + 4 z. Rows of a wave do not need each other, so that a sweep from wave to wave has the
result of the natural order, and may do eight rows at once.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import solvers
from gondwana.errors import GondwanaError
from gondwana_apps.hpcg.problem import LEVELS, Level, System

WIDTH = 8
"""Rows in a slice: elements of a vector."""
PLACES = 13
"""Places of a row in L and in U: a constant, so that compiled loops over them have no branch."""
ENTRIES = PLACES * WIDTH
"""Entries of a slice."""
_COUNTS = 64, 32, 16, 8, 4, 2
"""Numbers of parts of the coarse points: as many as threads may share, and the same for any number of threads."""

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]
Unsigned = NDArray[np.uint32]


class Split(NamedTuple):
    """The matrices of this rank. Unused places hold 0 in the column of their own row, as do rows that fill waves up.

    Attributes:
        first: the first row of each level, and the end.
        place: number of each row of the problem, level after level.
        waves: the first slice of each wave, and the end.
        level_waves: the first wave of each level, and the end.
        lower, lower_columns: L, slice by slice.
        upper, upper_columns: U.
        diagonal, inverse: D and its inverse.
        points: first coarse point of each level but the last, and the end; they are in the order of coarse rows.
        fine, coarse: row of each coarse point on its level and on the next one.
        rest, rest_columns: the row of L at each coarse point.
        below, below_rows: the column of U at each coarse point, entries and their rows.
        parts: start of the parts of each level in `cuts`, and the end.
        cuts: the first coarse point of each part, and after each level the end; columns of U in parts that are not
            next to each other have no row in common.
        edge_first: first edge of each level, and the end; edges are the rows that have entries of E.
        edge_rows, edge_coarse: row of each edge, and coarse row at this point or -1.
        edge_starts, edge_values, edge_columns: E, edge by edge; columns count the entries received from other ranks.
        edge_saved: space for an entry of a vector at each edge.
    """

    first: Integers
    place: Integers
    waves: Integers
    level_waves: Integers
    lower: Vector
    lower_columns: Unsigned
    upper: Vector
    upper_columns: Unsigned
    diagonal: Vector
    inverse: Vector
    points: Integers
    fine: Integers
    coarse: Integers
    rest: Vector
    rest_columns: Unsigned
    below: Vector
    below_rows: Unsigned
    parts: Integers
    cuts: Integers
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


def split(system: System) -> Split:
    """Convert the matrices of all levels. Local.

    Raises:
        GondwanaError: a row has more entries on one side of the diagonal than there are places.
    """
    levels = system.levels
    orders = [by_waves(level.matrix.columns, level.matrix.counts) for level in levels]
    first = np.cumsum([0, *(int(order.starts[-1]) for order in orders)])
    places = [order.place + start for order, start in zip(orders, first, strict=False)]
    rows = int(first[-1])
    lower, upper = np.empty(rows * PLACES), np.empty(rows * PLACES)
    lower_columns, upper_columns = np.empty(rows * PLACES, np.uint32), np.empty(rows * PLACES, np.uint32)
    clear(0, rows // WIDTH, lower, lower_columns)
    clear(0, rows // WIDTH, upper, upper_columns)
    diagonal, inverse = np.zeros(rows), np.zeros(rows)
    for level, place in zip(levels, places, strict=True):
        matrix = level.matrix
        widest = part(matrix.values, matrix.columns, matrix.counts, place, lower, lower_columns, upper, upper_columns)
        if widest > PLACES:
            raise GondwanaError(f"a row has {widest} entries on one side of the diagonal, and room is for {PLACES}")
        diagonal[place], inverse[place] = matrix.diagonal, 1.0 / matrix.diagonal
    points = np.cumsum([0, *(level.rows for level in levels[1:])])
    in_order = [np.argsort(place) for place in places[1:]]
    fine = np.concatenate([place[level.fine[o]] for level, place, o in zip(levels[1:], places, in_order, strict=False)])
    coarse = np.concatenate([place[o] for place, o in zip(places[1:], in_order, strict=True)])
    rest, rest_columns = np.empty((len(fine), PLACES)), np.empty((len(fine), PLACES), np.uint32)
    pick(fine, lower, lower_columns, rest, rest_columns)
    below, below_rows = _turned(first, points, fine, upper, upper_columns)
    return Split(
        first, np.concatenate(places), *_waves(orders, first), lower, lower_columns, upper, upper_columns, diagonal,
        inverse, points, fine, coarse, rest, rest_columns, below, below_rows,
        *_parts(points, below_rows),
        *_edges(levels, places),
    )  # fmt: skip


def renumbered(levels: list[Level], matrices: Split) -> tuple[solvers.Halo, ...]:
    """Return the halos of all levels for vectors in the order of these matrices. Local; what is received stays."""
    starts = np.cumsum([0, *(level.rows for level in levels)])
    return tuple(
        level.halo._replace(rows=matrices.place[start + level.halo.rows] - first)
        for level, start, first in zip(levels, starts, matrices.first, strict=False)
    )


class Order(NamedTuple):
    """The new numbers of the rows of a level.

    Attributes:
        place: number of each row; numbers between are of rows without entries that fill a wave up.
        starts: the first number of each wave, and the end: multiples of eight.
    """

    place: Integers
    starts: Integers


def by_waves(columns: NDArray[np.uint32], counts: NDArray[np.uint8]) -> Order:
    """Number the rows of a level by waves, and within a wave in their old order. Local.

    Args:
        columns: columns of the entries (rows x places); the pattern is symmetric among the rows of this rank.
        counts: entries of each row.
    """
    wave = np.zeros(len(counts), np.int64)
    find_waves(columns, counts, wave)
    sizes = np.bincount(wave)
    starts = np.concatenate(([0], np.cumsum(-(-sizes // WIDTH) * WIDTH)))
    by_wave = np.argsort(wave, kind="stable")
    place = np.empty(len(wave), np.int64)
    place[by_wave] = np.arange(len(wave)) + np.repeat(starts[:-1] - np.cumsum(sizes) + sizes, sizes)
    return Order(place, starts)


@gw.jit
def find_waves(columns: Any, counts: Any, wave: Any) -> None:
    """Give each row a wave after those of the earlier rows that it is coupled with."""
    for row in range(len(counts)):
        for entry in range(counts[row]):
            column = columns[row, entry]
            if column < row:
                wave[row] = max(wave[row], wave[column] + 1)


@gw.jit
def clear(first: int, last: int, values: Any, columns: Any) -> None:
    """Remove all entries of slices."""
    for entry in range(first * ENTRIES, last * ENTRIES):
        values[entry] = 0.0
        columns[entry] = entry // ENTRIES * WIDTH + entry % WIDTH


@gw.jit
def part(values: Any, columns: Any, counts: Any, place: Any, lower: Any, lower_columns: Any, upper: Any,
         upper_columns: Any) -> int:  # fmt: skip
    """Write L and U of one level, whose rows go to `place`; return the most places that a row would take."""
    widest = 0
    for row in range(len(counts)):
        own = place[row]
        start = own // WIDTH * ENTRIES + own % WIDTH
        below, above = 0, 0
        for entry in range(counts[row]):
            column = columns[row, entry]
            if column < row:
                if below < PLACES:
                    lower[start + WIDTH * below] = values[row, entry]
                    lower_columns[start + WIDTH * below] = place[column]
                below += 1
            elif row < column < len(counts):
                if above < PLACES:
                    upper[start + WIDTH * above] = values[row, entry]
                    upper_columns[start + WIDTH * above] = place[column]
                above += 1
        widest = max(widest, below, above)
    return widest


@gw.jit
def pick(fine: Any, lower: Any, lower_columns: Any, rest: Any, rest_columns: Any) -> None:
    """Copy the rows of L at coarse points."""
    for point in range(len(fine)):
        start = fine[point] // WIDTH * ENTRIES + fine[point] % WIDTH
        for entry in range(PLACES):
            rest[point, entry] = lower[start + WIDTH * entry]
            rest_columns[point, entry] = lower_columns[start + WIDTH * entry]


@gw.jit
def turn(first: int, last: int, upper: Any, upper_columns: Any, point_of: Any, below: Any, below_rows: Any) -> None:
    """Write the columns of U at coarse points; `point_of` is -1 at other rows."""
    filled = np.zeros(len(below), np.int64)
    for entry in range(first * PLACES, last * PLACES):
        target = point_of[upper_columns[entry] - first]
        if target >= 0 and upper[entry] != 0.0:
            below[target, filled[target]] = upper[entry]
            below_rows[target, filled[target]] = entry // ENTRIES * WIDTH + entry % WIDTH
            filled[target] += 1


def _waves(orders: list[Order], first: Integers) -> tuple[Integers, Integers]:
    starts = [(order.starts[:-1] + start) // WIDTH for order, start in zip(orders, first, strict=False)]
    return np.concatenate([*starts, first[-1:] // WIDTH]), np.cumsum([0, *map(len, starts)])


def _turned(
    first: Integers, points: Integers, fine: Integers, upper: Vector, upper_columns: Unsigned
) -> tuple[Vector, Unsigned]:
    below = np.zeros((len(fine), PLACES))
    below_rows = np.tile(fine.astype(np.uint32)[:, None], (1, PLACES))
    for level in range(LEVELS - 1):
        start, end = int(first[level]), int(first[level + 1])
        here = slice(int(points[level]), int(points[level + 1]))
        point_of = _inverted(fine[here] - start, end - start)
        turn(start, end, upper, upper_columns, point_of, below[here], below_rows[here])
    return below, below_rows


def _parts(points: Integers, below_rows: Unsigned) -> tuple[Integers, Integers]:
    """Cut the coarse points of each level into an even number of parts, as many as possible."""
    cuts = []
    for start, end in itertools.pairwise(points.tolist()):
        rows = below_rows[start:end]
        highest, lowest = np.maximum.accumulate(rows.max(1)), np.minimum.accumulate(rows.min(1)[::-1])[::-1]
        for count in _COUNTS:
            cut = (end - start) * np.arange(count + 1) // count
            if np.all(highest[cut[1:-2] - 1] < lowest[cut[2:-1]]) and np.all(np.diff(cut)):
                break
        cuts.append(start + cut)
    return np.cumsum([0, *map(len, cuts)]), np.concatenate(cuts)


def _inverted(rows: Integers, count: int) -> Integers:
    """For each of `count` rows its place in `rows`, -1 if it is missing."""
    found = np.full(count, -1, np.int64)
    found[rows] = np.arange(len(rows))
    return found


def _edges(levels: list[Level], places: list[Integers]) -> tuple[Any, ...]:
    """The arrays of E."""
    rows, coarse, starts, values, columns, edge_first = [], [], [0], [], [], [0]
    for number, (level, place) in enumerate(zip(levels, places, strict=True)):
        matrix = level.matrix
        outside = matrix.columns >= level.rows
        found = np.flatnonzero(outside.any(axis=1))
        rows.append(place[found])
        coarse.append(_coarse_rows(number, levels, places)[found])
        starts += list(starts[-1] + np.cumsum(outside[found].sum(axis=1)))
        values.append(matrix.values[outside])
        columns.append(matrix.columns[outside].astype(np.int64) - level.rows)
        edge_first.append(edge_first[-1] + len(found))
    return (
        np.array(edge_first, np.int64), np.concatenate(rows), np.concatenate(coarse), np.array(starts, np.int64),
        np.concatenate(values), np.concatenate(columns), np.zeros(edge_first[-1]),
    )  # fmt: skip


def _coarse_rows(number: int, levels: list[Level], places: list[Integers]) -> Integers:
    """The coarse row at each row of a level, in the order of the problem, -1 without one."""
    if number == LEVELS - 1:
        return np.full(levels[number].rows, -1, np.int64)
    coarse = _inverted(levels[number + 1].fine, levels[number].rows)
    return np.where(coarse >= 0, places[number + 1][coarse], -1)
