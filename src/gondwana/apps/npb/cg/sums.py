"""Sums over the rows of the grid, in three ways: one-sided with barriers or with signals, and by MPI.

Each way has a function for vectors, which takes the sums `by.w` of a product over this rank's columns and leaves in `q`
the elements of the product that this rank has, and one for scalars. The one-sided ways add in the order of the columns:
all ranks and both ways have the same bits.

They need one phase: everybody puts each piece where it is needed at last. Exchanges between pairs, as in NPB's own
code, need log2 of the columns and one more; they move less from 8 ranks on (3/4 of it with 8 or 16, half with 64).
"""

from __future__ import annotations

from typing import Any

import gondwana as gw

_VECTORS, _SCALARS = 0, 1


@gw.jit
def vector_with_barriers(by: Any, q: Any) -> None:
    """Put everybody's pieces into place, and meet."""
    turn = _next_turn(by, _VECTORS)
    for piece in by.pieces:
        gw.put(piece.part, piece.there + turn * piece.distance)
    gw.barrier(by.team)
    _add_parts(by, turn, q)


@gw.jit
def scalar_with_barriers(by: Any, value: float) -> float:
    """Put the value into place at everybody's, and meet."""
    turn = _next_turn(by, _SCALARS)
    for piece in by.scalars:
        gw.put(value, piece.there + turn * piece.distance)
    gw.barrier(by.team)
    return _add_values(by, turn)


@gw.jit
def vector_with_flags(by: Any, q: Any) -> None:
    """Put everybody's piece into place and tell so; wait for one's own."""
    turn = _next_turn(by, _VECTORS)
    for piece in by.pieces:
        gw.put(piece.part, piece.there + turn * piece.distance)
        gw.signal(by.arrived, piece.rank, 1, by.column)
    for column in range(by.size):
        gw.wait(by.arrived, 1, column)
    _add_parts(by, turn, q)


@gw.jit
def scalar_with_flags(by: Any, value: float) -> float:
    """Put the value into place at everybody's and tell so; wait for the others'."""
    turn = _next_turn(by, _SCALARS)
    for piece in by.scalars:
        gw.put(value, piece.there + turn * piece.distance)
        gw.signal(by.arrived, piece.rank, 1, by.size + by.column)
    for column in range(by.size):
        gw.wait(by.arrived, 1, by.size + column)
    return _add_values(by, turn)


@gw.jit
def vector_by_mpi(by: Any, q: Any) -> None:
    """Add all of the row's sums up, then exchange what is needed with the rank on the other side of the diagonal."""
    gw.allreduce(by.row, by.w)
    if by.team.size > 1:
        gw.sendrecv(by.team, by.mine, by.partner, q, by.partner)
    else:
        for i in range(by.columns[0], by.columns[1]):
            q[i] = by.w[i]


@gw.jit
def scalar_by_mpi(by: Any, value: float) -> float:
    """Add up."""
    return gw.allreduce(by.row, value)  # type: ignore[no-any-return]


@gw.jit
def _next_turn(by: Any, kind: int) -> int:
    by.turns[kind] += 1
    return by.turns[kind] % 2  # type: ignore[no-any-return]


@gw.jit
def _add_parts(by: Any, turn: int, q: Any) -> None:
    first, end = by.columns
    source = by.sources[turn, 0]
    for i in range(first, end):
        q[i] = by.memory[source + i]
    for column in range(1, by.size):
        source = by.sources[turn, column]
        for i in range(first, end):
            q[i] += by.memory[source + i]


@gw.jit
def _add_values(by: Any, turn: int) -> float:
    total = by.values[turn, 0]
    for column in range(1, by.size):
        total += by.values[turn, column]
    return total  # type: ignore[no-any-return]


WAYS = {
    "flags": (vector_with_flags, scalar_with_flags),
    "barrier": (vector_with_barriers, scalar_with_barriers),
    "mpi": (vector_by_mpi, scalar_by_mpi),
}
"""By name: how vectors and how scalars are added up. The first is the default."""

ONE_SIDED = (_next_turn, _add_parts, _add_values)
"""What the one-sided ways share."""
