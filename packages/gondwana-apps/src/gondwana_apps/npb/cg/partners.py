"""The shared memory of a rank and its partners in sums: space for each other's sums, and plans that fill it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana_apps.npb.cg.grid import Grid

CONJG, RCOMM, NCOMM = 0, 1, 2
"""Places of the seconds in conjugate gradients, in the sums over rows there, and in those for norms."""

TURNS = 2
"""Spaces for scalars, used in turns. Two suffice: before a rank fills one again it has received something that its
owner sent, in whatever way, after reading it. Vectors have one: plans wait, and barriers of scalars lie between."""

_WORD = 8


class Piece(NamedTuple):
    """A part of this rank's sums that another rank needs: a view of them, and its target."""

    part: npt.NDArray[np.float64]
    there: gw.GlobalPtr


class Partners(NamedTuple):
    """Everything that sums over rows of the grid need.

    Attributes:
        team: all ranks.
        row: ranks of this rank's row of the grid.
        columns: the first element of a vector that this rank has, and the one after its last.
        w: part of a product of this rank: sums over its columns.
        pieces: pieces of `w`, one for each rank that needs one. This rank's own stays in its place: it puts nothing.
        memory: the arriving scalars and pieces, and `w`.
        sources: int64 [ranks of the row]; place of element 0, existing or not, of the piece of each column.
        vectors: plan of the copies of all pieces.
        scalar: scalar of this rank.
        places: place for it at each rank of the row.
        values: float64 [TURNS, ranks of the row]; scalars that arrive.
        turn: the number of scalars that were added up.
        scalars: plans of the copies of the scalar to its places, for each turn.
        partner: the rank that `mine` is for, and that has the same for this rank.
        mine: a view of `w`.
        seconds: seconds by section.
    """

    team: gw.Team
    row: gw.Team
    columns: tuple[int, int]
    w: gw.Array
    pieces: tuple[Piece, ...]
    memory: gw.Array
    sources: gw.Array
    vectors: gw.Plan
    scalar: gw.Array
    places: tuple[gw.GlobalPtr, ...]
    values: gw.Array
    turn: gw.Array
    scalars: tuple[gw.Plan, ...]
    partner: int
    mine: gw.Array
    seconds: gw.Array


def connect(team: gw.Team, grid: Grid) -> Partners:
    """Make the partners of each rank. Collective over team."""
    rows, columns = grid.block
    width = grid.columns
    row = team.split(grid.row, grid.column)
    assert row is not None  # every rank has a row
    scalars = TURNS * width
    sources = scalars + columns.size * np.arange(width + 1)
    segment = gw.Segment(team, (int(sources[-1]) + rows.size) * _WORD)
    memory = segment.typed(team.rank, np.dtype(float))
    w = gw.Array(memory[sources[-1] :], rows)
    pieces = []
    for column in grid.columns_inside(grid.row):
        block = grid.column_block(column)
        part = w.restrict(block).numpy()
        if column == grid.column:
            sources[column] = sources[-1] + block.lo[0] - rows.lo[0]
        for rank in range(column, team.size, width):
            there = segment.pointer(rank, float) + (scalars + grid.column * block.size)
            pieces.append(Piece(part if rank != team.rank else part[:0], there))
    pieces.sort(key=lambda piece: (piece.there.rank - team.rank) % team.size)  # not all begin with rank 0
    scalar = gw.Array(np.zeros(1))
    places = tuple(segment.pointer(grid.row * width + column, float) + grid.column for column in range(width))
    (low,), (high,) = columns.lo, columns.hi
    return Partners(
        team=team,
        row=row,
        columns=(low, high),
        w=w,
        pieces=tuple(pieces),
        memory=gw.Array(memory),
        sources=gw.Array(sources - columns.lo[0]),
        vectors=gw.plan(pieces, team),
        scalar=scalar,
        places=places,
        values=gw.Array(memory[:scalars].reshape(TURNS, width)),
        turn=gw.Array(np.zeros(1, np.int64)),
        scalars=tuple(
            gw.plan([(scalar, place + turn * width) for place in places], team, ready=True) for turn in range(TURNS)
        ),
        partner=grid.partner,
        mine=w.restrict(grid.column_block(grid.partner % width)),
        seconds=gw.Array(np.zeros(3)),
    )
