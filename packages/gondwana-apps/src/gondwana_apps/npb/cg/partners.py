"""What a rank and those it adds up with share: room for each other's sums, set up once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana_apps.npb.cg.grid import Grid

TURNS = 2
"""Rooms for each sum, used in turns. Two suffice: before anybody fills one again it has received something that its
owner sent, on whatever way, after reading it (for vectors because scalars are added up between them)."""

CONJG, RCOMM, NCOMM = 0, 1, 2
"""Places of the seconds in conjugate gradients, in the sums over rows there, and in those for norms."""

_WORD = 8


class Place(NamedTuple):
    """Where another rank takes a number of this one.

    Attributes:
        there: its first room for it; the next one follows at a `distance`, in elements.
        rank: who it is.
    """

    there: gw.GlobalPtr
    distance: int
    rank: int


class Piece(NamedTuple):
    """A part of this rank's sums that another rank needs: a view of them, and where it goes, as in `Place`."""

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
        pieces: of `w`, one for each rank that needs one. This rank's own stays where it is: it puts nothing.
        memory: the pieces and scalars that come, and `w`.
        sources: int64 [TURNS, size]; where element 0 of the piece of each column is, or would be.
        scalars: the places for this rank's scalar, its own included.
        values: float64 [TURNS, size]; the scalars that come.
        turns: how many vectors and how many scalars have been added up.
        arrived: counts pieces by the column of the sender and, in channels after those, scalars.
        partner: the rank that `mine` is for, and that has the same for this rank.
        mine: a view of `w`.
        seconds: by section.
    """

    team: gw.Team
    row: gw.Team
    size: int
    column: int
    columns: tuple[int, int]
    w: gw.Array
    pieces: tuple[Piece, ...]
    memory: gw.Array
    sources: gw.Array
    scalars: tuple[Place, ...]
    values: gw.Array
    turns: gw.Array
    arrived: gw.Signal
    partner: int
    mine: gw.Array
    seconds: gw.Array


def connect(team: gw.Team, grid: Grid) -> Partners:
    """Make the partners of each rank. Collective over team."""
    rows, columns = grid.block
    width = grid.columns
    row = team.split(grid.row, grid.column)
    assert row is not None  # every rank has a row
    rooms, scalars = TURNS * width * columns.size, TURNS * width
    segment = gw.Segment(team, (rooms + scalars + rows.size) * _WORD)
    memory = segment.typed(team.rank, np.dtype(float))
    w = gw.Array(memory[rooms + scalars :], rows)

    def piece(rank: int, column: int) -> Piece:
        block = grid.column_block(column)
        part = w.restrict(block).numpy()
        there = segment.pointer(rank, float) + grid.column * block.size
        return Piece(part if rank != grid.rank else part[:0], there, width * block.size, rank)

    def scalar(rank: int, column: int) -> Place:
        first = TURNS * width * grid.column_block(column).size
        return Place(segment.pointer(rank, float) + first + grid.column, width, rank)

    neighbours = [(grid.row * width + column, column) for column in range(width)]
    takers = [(row * width + column, column) for column in grid.columns_inside(grid.row) for row in range(grid.rows)]
    (low,), (high,) = columns.lo, columns.hi
    return Partners(
        team=team,
        row=row,
        size=width,
        column=grid.column,
        columns=(low, high),
        w=w,
        pieces=tuple(piece(*taker) for taker in _from(grid.rank, takers)),
        memory=gw.Array(memory),
        sources=gw.Array(_sources(grid, rooms + scalars)),
        scalars=tuple(scalar(*neighbour) for neighbour in _from(grid.rank, neighbours)),
        values=gw.Array(memory[rooms : rooms + scalars].reshape(TURNS, width)),
        turns=gw.Array(np.zeros(2, np.int64)),
        arrived=gw.Signal(team, channels=2 * width),
        partner=grid.partner,
        mine=w.restrict(grid.column_block(grid.partner % width)),
        seconds=gw.Array(np.zeros(3)),
    )


def _sources(grid: Grid, place_of_w: int) -> npt.NDArray[np.int64]:
    """Where pieces come to lie, as `Partners.sources` has it."""
    rows, columns = grid.block
    rooms = np.arange(TURNS * grid.columns).reshape(TURNS, grid.columns) * columns.size
    if grid.column in grid.columns_inside(grid.row):
        rooms[:, grid.column] = place_of_w + columns.lo[0] - rows.lo[0]
    sources: npt.NDArray[np.int64] = rooms - columns.lo[0]
    return sources


def _from(first: int, ranks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same, those from `first` on before the others: not everybody begins with rank 0."""
    return sorted(ranks, key=lambda entry: (entry[0] < first, entry))
