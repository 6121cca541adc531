"""The loops of the transforms: planes, and batches of columns that fit the cache.

A column's points are far apart in memory, so several columns that lie side by side are copied to a small buffer, where
FFTW transforms them together, and from there to their target. A plane is in the cache then for its rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.fft import fftw
from gondwana_apps.npb.common.stream import MASK, fill

_MASK = np.uint64(MASK)

GAP = 2
"""Elements between two rows of a buffer: without them, rows of 2^n elements would compete for few lines of cache."""


class Factors(NamedTuple):
    """The factors of the elements of planes: [j, i, k] is multiplied by plane[j] * column[i] * row[k]."""

    plane: npt.NDArray[np.float64]
    column: npt.NDArray[np.float64]
    row: npt.NDArray[np.float64]


class Lines(NamedTuple):
    """The transforms of the lines of planes.

    Attributes:
        columns: address of the plan for a batch of columns; None: not along these.
        rows: address of the plan for one row; None: not along these.
        buffer: complex128 [i, columns of a batch + GAP].
    """

    columns: int | None
    rows: int | None
    buffer: npt.NDArray[np.complex128]


class Part(NamedTuple):
    """The part of a plane that one rank needs, and its target.

    Attributes:
        there: global pointer to its first element, in the block of that rank.
        first: first row.
        last: row after the last one.
        left: first element in each row.
        right: element after the last one.
        plane: elements there from a plane to the next.
        line: elements there from a row to the next.
    """

    there: gw.GlobalPtr
    first: int
    last: int
    left: int
    right: int
    plane: int
    line: int


@gw.jit
def fill_planes(planes: Any, state: Any, jump: Any) -> None:
    """Set planes to random numbers, real and imaginary parts in turn. Local; compiled.

    Args:
        planes: complex128 [j, i, k].
        state: state of the generator, before the first plane.
        jump: multiplier from the state before a plane to that before the next.
    """
    for j in range(len(planes)):
        fill(planes[j].reshape(planes[j].size).view(np.float64), state)
        state = (jump * state) & _MASK


@gw.jit
def execute(plan: Any, data: Any) -> None:
    """Transform in place, if there is a plan. Local; compiled."""
    if plan is not None:
        fftw.execute(plan, data, data)


@gw.jit
def transform_columns(source: Any, target: Any, lines: Any, factors: Any, factor: Any) -> None:
    """Transform the columns of a plane times its factors, into another plane or in place. Local; compiled.

    Args:
        source: complex128 [i, k].
        target: complex128 [i, k or more].
        lines: transforms of the lines.
        factors: factors of the planes.
        factor: factor of this plane.
    """
    height, width = source.shape
    buffer, batch = lines.buffer, lines.buffer.shape[1] - GAP
    for left in range(0, width, batch):
        # Indices of slices cannot be negative, which lets the loops be vectorised.
        right = left + batch
        row = factors.row[left:right]
        for i in range(height):
            there, here, f = buffer[i], source[i, left:right], factor * factors.column[i]
            for k in range(batch):
                g = f * row[k]
                there[k] = complex(g * here[k].real, g * here[k].imag)
        execute(lines.columns, buffer)
        for i in range(height):
            there, here = target[i, left:right], buffer[i]
            for k in range(batch):
                there[k] = here[k]


@gw.jit
def put_row(row: Any, j: int, i: int, parts: Any) -> None:
    """Put row i of plane j to the ranks that need it. Local; compiled."""
    for part in parts:
        if part.first <= i < part.last:
            gw.put(row[part.left : part.right], part.there + j * part.plane + (i - part.first) * part.line)


@gw.jit
def transform_planes(source: Any, target: Any, lines: Any, factors: Any, parts: Any) -> None:
    """Transform planes times their factors along columns, then along rows, and put each row as soon as it is done.

    Local; compiled.

    Args:
        source: complex128 [j, i, k].
        target: complex128 [j, i, k or more], which may be the source; or [1, i, k or more], for one plane at a time.
        lines: transforms of the lines.
        factors: factors of the planes.
        parts: parts of a plane, one for each rank to which rows are put; None: they stay.
    """
    for j in range(len(source)):
        plane = target[j % len(target)]
        transform_columns(source[j], plane, lines, factors, factors.plane[j])
        for i in range(source.shape[1]):
            execute(lines.rows, plane[i])
            if parts is not None:
                put_row(plane[i], j, i, parts)


TRANSFORMS = (fill_planes, execute, transform_columns, transform_planes)
