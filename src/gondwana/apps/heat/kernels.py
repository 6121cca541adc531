"""Heat conduction with a heated side and radiating faces, on a grid of unit spacing; explicit Euler.

    dT/dt = q sum (T_n - T) + P [x = 0] - sigma n T^4

The sum is over the neighbours that a cell has across its faces, n is the number of its faces on the outside of the box.
The problem of the MPI heat conduction in the Kokkos tutorials (Exercises/mpi_heat_conduction; its comments speak of a
heated face at z = 0, the code heats x = 0).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gondwana as gw
from gondwana.apps.heat.settings import Settings


class Rates(NamedTuple):
    """The constants of a step: time step, conduction q, radiation sigma, power P."""

    dt: float
    q: float
    sigma: float
    P: float


def rates_of(settings: Settings) -> Rates:
    """Return the constants of the model. Local."""
    return Rates(settings.dt, settings.q, settings.sigma, settings.P)


class Sides(NamedTuple):
    """For each face of a cell 1.0 if a neighbour lies behind it, 0.0 if it is on the outside of the box."""

    left: float
    right: float
    down: float
    up: float
    front: float
    back: float


INSIDE = Sides(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


@gw.jit
def sides_of(p: gw.Point, box: gw.RectDomain) -> Sides:
    """Return which faces of a cell have a neighbour."""
    return Sides(
        1.0 if p[0] > box.lo[0] else 0.0,
        1.0 if p[0] < box.hi[0] - 1 else 0.0,
        1.0 if p[1] > box.lo[1] else 0.0,
        1.0 if p[1] < box.hi[1] - 1 else 0.0,
        1.0 if p[2] > box.lo[2] else 0.0,
        1.0 if p[2] < box.hi[2] - 1 else 0.0,
    )


@gw.jit
def outer_faces(has: Sides) -> float:
    """Return the number of faces of a cell that are on the outside of the box."""
    return 6.0 - (has.left + has.right + has.down + has.up + has.front + has.back)


@gw.jit
def change(T: Any, p: gw.Point, has: Sides, k: Rates) -> float:
    """Return dT/dt of a cell. Where there is no neighbour, the ghost that is read has any finite value."""
    here = T[p]
    flow = (
        has.left * (T[p - gw.X] - here)
        + has.right * (T[p + gw.X] - here)
        + has.down * (T[p - gw.Y] - here)
        + has.up * (T[p + gw.Y] - here)
        + has.front * (T[p - gw.Z] - here)
        + has.back * (T[p + gw.Z] - here)
    )
    rate = k.q * flow
    if has.left == 0.0:
        rate += k.P
    outer = outer_faces(has)
    if outer > 0.0:
        rate -= k.sigma * outer * (here * here) * (here * here)
    return rate  # type: ignore[no-any-return]


@gw.jit
def conduct_cell(T_next: Any, T: Any, p: gw.Point, has: Sides, k: Rates) -> None:
    """One time step of a cell of which the sides are known."""
    T_next[p] = T[p] + k.dt * change(T, p, has, k)


@gw.foreach
def conduct(p: gw.Point, T_next: Any, T: Any, box: gw.RectDomain, k: Rates) -> None:
    """One time step of a cell, on any device."""
    conduct_cell(T_next, T, p, sides_of(p, box), k)


@gw.reduce
def conduct_and_sum(p: gw.Point, T_next: Any, T: Any, box: gw.RectDomain, k: Rates) -> float:
    """One time step of a cell as `conduct` does it, and the sum of the temperature before."""
    conduct_cell(T_next, T, p, sides_of(p, box), k)
    return T[p]  # type: ignore[no-any-return]


@gw.foreach
def conduct_inside(p: gw.Point, T_next: Any, T: Any, box: gw.RectDomain, k: Rates) -> None:
    """One time step of a cell that has all neighbours: the same bits as `conduct`."""
    conduct_cell(T_next, T, p, INSIDE, k)


@gw.reduce
def conduct_inside_and_sum(p: gw.Point, T_next: Any, T: Any, box: gw.RectDomain, k: Rates) -> float:
    """The same, and the sum of the temperature before."""
    conduct_cell(T_next, T, p, INSIDE, k)
    return T[p]  # type: ignore[no-any-return]


@gw.jit
def conduct_row(T_next: Any, T: Any, x: int, y: int, first: int, last: int, box: gw.RectDomain, k: Rates) -> None:
    """One time step of the cells [first, last) of a row: the same bits as `conduct`, in loops that vectorise.

    The loops take all cells as if they had neighbours along the row; then those that have none are computed again.
    """
    has = sides_of(gw.Point(x, y, first), box)
    if has.left * has.right * has.down * has.up == 1.0:
        for z in range(first, last):
            conduct_cell(T_next, T, gw.Point(x, y, z), INSIDE, k)
    else:
        has = Sides(has.left, has.right, has.down, has.up, 1.0, 1.0)
        for z in range(first, last):
            conduct_cell(T_next, T, gw.Point(x, y, z), has, k)
    if first == box.lo[2]:
        p = gw.Point(x, y, first)
        conduct_cell(T_next, T, p, sides_of(p, box), k)
    if last == box.hi[2]:
        p = gw.Point(x, y, last - 1)
        conduct_cell(T_next, T, p, sides_of(p, box), k)


@gw.jit(reassociate=True)
def row_sum(T: Any, x: int, y: int, first: int, last: int) -> float:
    """Return the sum over the cells [first, last) of a row."""
    total = 0.0
    for z in range(first, last):
        total += T[x, y, z]
    return total


@gw.jit
def sweep(threads: Any, T_next: Any, T: Any, parts: Any, box: gw.RectDomain, k: Rates, summed: bool) -> float:
    """One time step of this thread's rows of some boxes; return their sum of T before it, if it is wanted.

    Args:
        threads: the team of threads.
        T_next: what is computed.
        T: at the present time, with one ghost around.
        parts: the boxes, one in a row: three lower corners, three upper ones.
        box: all cells, of all ranks.
        k: constants of the step.
        summed: whether to sum.
    """
    total = 0.0
    for part in range(len(parts)):
        x0, y0, z0, x1, y1, z1 = parts[part]
        rows = y1 - y0
        first, last = threads.share(0, (x1 - x0) * rows)
        x, y = x0 + first // rows, y0 + first % rows
        for _ in range(first, last):
            if summed:
                total += row_sum(T, x, y, z0, z1)
            conduct_row(T_next, T, x, y, z0, z1, box, k)
            y += 1
            if y == y1:
                x, y = x + 1, y0
    return total


@gw.reduce
def total(p: gw.Point, T: Any) -> float:
    """The sum of the temperature; its last bits depend on how the cells are divided."""
    return T[p]  # type: ignore[no-any-return]


@gw.reduce(op="fsum")
def heat(p: gw.Point, T: Any) -> float:
    """The sum of the temperature, rounded once, so that it does not depend on how the cells are divided."""
    return T[p]  # type: ignore[no-any-return]


@gw.reduce(op="fsum")
def radiated(p: gw.Point, T: Any, box: gw.RectDomain) -> float:
    """The sum of n T^4, over the faces on the outside of the box."""
    return outer_faces(sides_of(p, box)) * (T[p] * T[p]) * (T[p] * T[p])  # type: ignore[no-any-return]
