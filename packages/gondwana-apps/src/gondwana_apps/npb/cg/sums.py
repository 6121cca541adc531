"""Sums over the rows of the grid, in three ways: one-sided with barriers or with flags, and by MPI.

Each way has a function for vectors, which takes the sums `partners.w` of a product over this rank's columns and leaves
in `q` the elements of the product that this rank has, and one for scalars. The one-sided ways add in the order of the
columns: all ranks and both ways have the same bits.

They need one phase: each rank puts each piece directly to its final place. Exchanges between pairs, as in NPB's own
code, need log2 of the columns and one more; they move less from 8 ranks on (3/4 of it with 8 or 16, half with 64).
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana_apps.npb.cg.partners import TURNS


@gw.jit
def vector_with_barriers(partners: Any, q: Any) -> None:
    """Put the pieces into place at each rank that needs one, and wait at a barrier."""
    for piece in partners.pieces:
        gw.put(piece.part, piece.there)
    gw.barrier(partners.team)
    _add_parts(partners, q)


@gw.jit
def scalar_with_barriers(partners: Any, value: float) -> float:
    """Put the value into place at each rank of the row, and wait at a barrier."""
    turn = _next_turn(partners)
    for there in partners.places:
        gw.put(value, there + turn * partners.row.size)
    gw.barrier(partners.team)
    return _add_values(partners, turn)


@gw.jit
def vector_with_flags(partners: Any, q: Any) -> None:
    """Copy the pieces into place by a plan, which waits for this rank's own."""
    _copy(partners.vectors)
    _add_parts(partners, q)


@gw.jit
def scalar_with_flags(partners: Any, value: float) -> float:
    """Copy the value into place by a plan, which waits for those of the other ranks."""
    turn = _next_turn(partners)
    partners.scalar[0] = value
    _copy(partners.scalars[turn])
    return _add_values(partners, turn)


@gw.jit
def vector_by_mpi(partners: Any, q: Any) -> None:
    """Add all of the row's sums up, then exchange what is needed with the rank on the other side of the diagonal."""
    gw.allreduce(partners.row, partners.w)
    if partners.team.size > 1:
        gw.sendrecv(partners.team, partners.mine, partners.partner, q, partners.partner)
    else:
        for i in range(partners.columns[0], partners.columns[1]):
            q[i] = partners.w[i]


@gw.jit
def scalar_by_mpi(partners: Any, value: float) -> float:
    """Add up."""
    return gw.allreduce(partners.row, value)  # type: ignore[no-any-return]


@gw.jit
def _next_turn(partners: Any) -> int:
    partners.turn[0] += 1
    return partners.turn[0] % TURNS  # type: ignore[no-any-return]


@gw.jit
def _copy(plan: Any) -> None:
    plan.start()
    plan.wait()


@gw.jit
def _add_parts(partners: Any, q: Any) -> None:
    first, end = partners.columns
    source = partners.sources[0]
    for i in range(first, end):
        q[i] = partners.memory[source + i]
    for column in range(1, partners.row.size):
        source = partners.sources[column]
        for i in range(first, end):
            q[i] += partners.memory[source + i]


@gw.jit
def _add_values(partners: Any, turn: int) -> float:
    total = partners.values[turn, 0]
    for column in range(1, partners.row.size):
        total += partners.values[turn, column]
    return total  # type: ignore[no-any-return]


WAYS = {
    "flags": (vector_with_flags, scalar_with_flags),
    "barrier": (vector_with_barriers, scalar_with_barriers),
    "mpi": (vector_by_mpi, scalar_by_mpi),
}
"""The ways to add up vectors and scalars, by name. The first is the default."""

ONE_SIDED = (_next_turn, _copy, _add_parts, _add_values)
"""Common functions of the one-sided ways."""
