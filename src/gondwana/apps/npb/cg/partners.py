"""What a rank and those it adds up with share: room for each other's sums, set up once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.apps.npb.cg.grid import Grid

TURNS = 2
"""Rooms for each sum, used in turns. Two suffice: before anybody fills one again it has received something that its
owner sent, on whatever way, after reading it (for vectors because scalars are added up between them)."""

_WORD = 8


class Piece(NamedTuple):
    """A part of this rank's sums that another rank needs.

    Attributes:
        part: a view of the sums.
        there: the first room for it; the next one follows at a `distance`, in elements.
        rank: who needs it.
    """

    part: npt.NDArray[np.float64]
    there: gw.GlobalPtr
    distance: int
    rank: int


class Partners(NamedTuple):
    """Everything that sums over rows of the grid need.

    Attributes:
        team: all ranks.
        row: those of this rank's row of the grid.
        size: how many these are.
        column: this rank's place among them.
        columns: the first element of a vector that this rank has, and the one after its last.
        w: this rank's part of a product: sums over its columns.
        pieces: of `w`, one for each rank that needs one, this one included.
        parts: the pieces that come, by turn, column of the sender, and element.
        scalars: places for this rank's scalar, `part` being no matter.
        values: the scalars that come, by turn and column of the sender.
        turns: how many vectors and how many scalars have been added up.
        arrived: counts pieces by the column of the sender and, in channels after those, scalars.
        partner: the rank that `mine` is for, and that has the same for this rank.
        mine: a view of `w`.
    """

    team: gw.Team
    row: gw.Team
    size: int
    column: int
    columns: tuple[int, int]
    w: gw.Array
    pieces: tuple[Piece, ...]
    parts: gw.Array
    scalars: tuple[Piece, ...]
    values: gw.Array
    turns: Any
    arrived: gw.Signal
    partner: int
    mine: gw.Array


def meet(team: gw.Team, grid: Grid) -> Partners:
    """Make the partners of each rank. Collective over team."""
    rows, columns = grid.block
    width = grid.columns
    row = team.split(grid.row, grid.column)
    assert row is not None  # every rank has a row
    segment = gw.Segment(team, TURNS * width * (columns.size + 1) * _WORD)
    memory = segment.typed(team.rank, np.dtype(float))
    parts, values = np.split(memory, [TURNS * width * columns.size])
    w = gw.Array.zeros(rows)

    def piece(rank: int, column: int) -> Piece:
        block = grid.column_block(column)
        there = segment.pointer(rank, float) + grid.column * block.size
        return Piece(w.restrict(block).numpy(), there, width * block.size, rank)

    def scalar(rank: int, column: int) -> Piece:
        first = TURNS * width * grid.column_block(column).size
        return Piece(w.numpy(), segment.pointer(rank, float) + first + grid.column, width, rank)

    (low,), (high,) = columns.lo, columns.hi
    by_turn = gw.RectDomain((0, 0, low), (TURNS, width, high))
    neighbours = [(grid.row * width + column, column) for column in range(width)]
    takers = [(row * width + column, column) for column in grid.columns_inside(grid.row) for row in range(grid.rows)]
    return Partners(
        team=team,
        row=row,
        size=width,
        column=grid.column,
        columns=(low, high),
        w=w,
        pieces=tuple(piece(*taker) for taker in _from(takers, grid.rank)),
        parts=gw.Array(parts.reshape(by_turn.shape), by_turn),
        scalars=tuple(scalar(*neighbour) for neighbour in _from(neighbours, grid.rank)),
        values=gw.Array(values.reshape(TURNS, width)),
        turns=gw.Array(np.zeros(2, np.int64)),
        arrived=gw.Signal(team, channels=2 * width),
        partner=grid.partner,
        mine=w.restrict(grid.column_block(grid.partner % width)),
    )


def _from(ranks: list[tuple[int, int]], first: int) -> list[tuple[int, int]]:
    """The same, those from `first` on before the others: not everybody begins with rank 0."""
    return sorted(ranks, key=lambda entry: (entry[0] < first, entry))
