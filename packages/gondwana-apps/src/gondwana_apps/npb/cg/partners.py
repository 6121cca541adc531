"""The shared memory of a rank and its partners in sums: space for each other's sums, set up once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana_apps.npb.cg.grid import Grid

TURNS = 2
"""Spaces for each sum, used in turns. Two suffice: before a rank fills one again it has received something that its
owner sent, in whatever way, after reading it (for vectors because scalars are added up between them)."""

CONJG, RCOMM, NCOMM = 0, 1, 2
"""Places of the seconds in conjugate gradients, in the sums over rows there, and in those for norms."""

_WORD = 8


class Place(NamedTuple):
    """The place where another rank takes a number of this one.

    Attributes:
        there: its first space for it; the next one follows at a `distance`, in elements.
        rank: rank that takes it.
    """

    there: gw.GlobalPtr
    distance: int
    rank: int


class Piece(NamedTuple):
    """A part of this rank's sums that another rank needs: a view of them, and its target, as in `Place`."""

    part: npt.NDArray[np.float64]
    there: gw.GlobalPtr
    distance: int
    rank: int


class Partners(NamedTuple):
    """Everything that sums over rows of the grid need.

    Attributes:
        team: all ranks.
        row: ranks of this rank's row of the grid.
        size: number of these.
        column: place of this rank among them.
        columns: the first element of a vector that this rank has, and the one after its last.
        w: part of a product of this rank: sums over its columns.
        pieces: pieces of `w`, one for each rank that needs one. This rank's own stays in its place: it puts nothing.
        memory: the arriving pieces and scalars, and `w`.
        sources: int64 [TURNS, size]; place of element 0, existing or not, of the piece of each column.
        scalars: the places for this rank's scalar, its own included.
        values: float64 [TURNS, size]; the arriving scalars.
        turns: numbers of vectors and of scalars that have been added up.
        arrived: signal that counts pieces by the column of the sender and, in channels after those, scalars.
        partner: the rank that `mine` is for, and that has the same for this rank.
        mine: a view of `w`.
        seconds: seconds by section.
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
    """The places of arriving pieces, as in `Partners.sources`."""
    rows, columns = grid.block
    rooms = np.arange(TURNS * grid.columns).reshape(TURNS, grid.columns) * columns.size
    if grid.column in grid.columns_inside(grid.row):
        rooms[:, grid.column] = place_of_w + columns.lo[0] - rows.lo[0]
    sources: npt.NDArray[np.int64] = rooms - columns.lo[0]
    return sources


def _from(first: int, ranks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same, those from `first` on before the others: so that not all begin with rank 0."""
    return sorted(ranks, key=lambda entry: (entry[0] < first, entry))
