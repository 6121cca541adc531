"""The matrix of CG, exactly that of NPB 3.4: A = sum of w_i x_i x_i^T, plus (rcond - shift) on the diagonal.

The vectors x_i are drawn one after the other. That is quick (millions of numbers, while the matrix has hundreds of
millions of products), so every rank draws all of them and keeps those in its own block.

The block is made column by column. The elements of a row then come in the order of their columns, so that nothing is
sorted, and products for one element come one after the other, so that they are added where the row ends. They come
with growing i on any process grid: all grids have the same matrix, bit for bit. At last the rows are put into slices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import gondwana as gw
from gondwana import solvers
from gondwana_apps.npb.cg.problem import RCOND, CGProblem
from gondwana_apps.npb.common.stream import MASK, MULTIPLIER, UNIT, state_after

BYTES_AN_ELEMENT = 16
"""Bytes of an element of the vectors, while the matrix is made."""

BYTES_A_NONZERO = 12 + 10
"""Bytes of an element of the matrix, which is in two places while it is put into slices."""

Block = tuple[gw.RectDomain, gw.RectDomain]
"""Rows and columns of a part of the matrix."""

_STEP, _MASK = np.uint64(MULTIPLIER), np.uint64(MASK)


class Vectors(NamedTuple):
    """The sparse vectors x_i by rows, and the vectors that have an element at a place.

    Attributes:
        size: number of elements of each: nonzer + 1.
        place: int32 [n * size].
        value: float64 [n * size].
        weight: float64 [n], the w_i.
        holder_start: int64 [n + 2]; start of the elements at each place in `holder`.
        holder: int32 or int64 [n * size], positions in `place` and `value`, with growing i.
    """

    size: int
    place: Any
    value: Any
    weight: Any
    holder_start: Any
    holder: Any


def make_matrix(problem: CGProblem, block: Block) -> tuple[solvers.Slices, int]:
    """Make a block of the matrix. Local.

    Args:
        problem: the class.
        block: rows and columns.

    Returns:
        The block, whose rows and columns keep their numbers, and the number of its elements.
    """
    vectors = _draw(problem)
    rows, columns = (domain.axes[0] for domain in block)
    starts = np.zeros(len(rows) + 1, np.int64)
    bounds = (rows.start, rows.stop), (columns.start, columns.stop)
    _count(vectors, *bounds, starts, _of_rows(block))
    starts = np.cumsum(starts)
    value, column = np.zeros(starts[-1]), np.empty(starts[-1], np.int32)
    latest = gw.Array(starts[:-1] - 1, block[0])
    _fill(vectors, *bounds, gw.Array(value), gw.Array(column), _of_rows(block), latest, RCOND - problem.shift)
    return solvers.slices_of(starts, column, value, np.array(rows), columns), len(value)


def _of_rows(block: Block) -> gw.Array:
    """An integer for each row of the block, none of them a column."""
    return gw.Array.full(block[0], -1, np.int64)


def _draw(problem: CGProblem) -> Vectors:
    n, size = problem.n, problem.nonzer + 1
    place, value = np.empty((n, size), np.int32), np.empty((n, size))
    _draw_vectors(state_after(1), place, value, np.full(n, -1, np.int32))
    weight = np.full(n, RCOND ** (1 / n))
    weight[0] = 1.0
    np.multiply.accumulate(weight, out=weight)
    start = np.zeros(n + 2, np.int64)
    holder = np.empty(place.size, np.int64 if place.size >= 2**31 else np.int32)
    _invert(place.ravel(), start, holder)
    return Vectors(size, *(gw.Array(part) for part in (place.ravel(), value.ravel(), weight, start, holder)))


@gw.jit
def _draw_vectors(state: int, place: Any, value: Any, seen: Any) -> None:
    """Draw pairs of a value and a place until each vector i has enough places; then let its element at i be 1/2.

    If i is among the places, an element 0 at i keeps the vectors of equal length: it adds nothing.
    """
    n, size = place.shape
    x = np.uint64(state)
    power = 1
    while power < n:
        power *= 2
    for i in range(n):
        drawn = 0
        while drawn < size - 1:
            x = (_STEP * x) & _MASK
            element = UNIT * x
            x = (_STEP * x) & _MASK
            at = int(power * (UNIT * x))
            if at < n and seen[at] != i:
                seen[at] = i
                place[i, drawn] = at
                value[i, drawn] = 0.5 if at == i else element
                drawn += 1
        place[i, drawn] = i
        value[i, drawn] = 0.0 if seen[i] == i else 0.5


@gw.jit
def _invert(place: Any, start: Any, holder: Any) -> None:
    """List for each place the positions of the elements there; the list of place c starts at `start[c]`."""
    for k in range(len(place)):
        start[place[k] + 2] += 1
    for c in range(2, len(start)):
        start[c] += start[c - 1]
    for k in range(len(place)):
        c = place[k]
        holder[start[c + 1]] = k  # start[c + 1] moves from the start of this list to its end, where the next one starts
        start[c + 1] += 1


@gw.jit
def _count(x: Any, rows: Any, columns: Any, starts: Any, last: Any) -> None:
    """Count the elements of each row, one place after it; `last` is the column of the latest one in a row."""
    for c in range(columns[0], columns[1]):
        for k in range(x.holder_start[c], x.holder_start[c + 1]):
            i = x.holder[k] // x.size
            for j in range(i * x.size, (i + 1) * x.size):
                r = x.place[j]
                if rows[0] <= r < rows[1] and last[r] != c:
                    last[r] = c
                    starts[r - rows[0] + 1] += 1


@gw.jit
def _fill(x: Any, rows: Any, columns: Any, value: Any, column: Any, last: Any, latest: Any, shift: float) -> None:
    """Let A = sum of w_i x_i x_i^T, and add the shift to its diagonal; `latest` is where `last` lies."""
    for c in range(columns[0], columns[1]):
        for k in range(x.holder_start[c], x.holder_start[c + 1]):
            i = x.holder[k] // x.size
            factor = x.weight[i] * x.value[x.holder[k]]
            for j in range(i * x.size, (i + 1) * x.size):
                r = x.place[j]
                if rows[0] <= r < rows[1]:
                    if last[r] != c:
                        last[r] = c
                        latest[r] += 1
                        column[latest[r]] = c
                    value[latest[r]] += factor * x.value[j]
        if rows[0] <= c < rows[1]:
            value[latest[c]] += shift
