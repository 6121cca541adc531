"""Heat conduction with a heated side and radiating faces, on a grid of unit spacing; explicit Euler.

    dT/dt = q sum (T_n - T) + P [x = 0] - sigma n T^4

The sum is over the neighbours that a cell has across its faces, n is the number of its faces on the outside of the box.
The problem of the MPI heat conduction in the Kokkos tutorials (Exercises/mpi_heat_conduction; its comments speak of a
heated face at z = 0, the code heats x = 0).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gondwana as gw
from gondwana import simd
from gondwana_apps.heat.settings import Settings


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
    """For each face of a cell whether it has a neighbour; else the face is on the outside of the box."""

    left: bool
    right: bool
    down: bool
    up: bool
    front: bool
    back: bool


WIDTH = 4
"""Cells in a vector."""

INSIDE = Sides(True, True, True, True, True, True)


@gw.jit
def sides_of(p: gw.Point, box: gw.RectDomain) -> Sides:
    """Return which faces of a cell have a neighbour."""
    return Sides(
        p[0] > box.lo[0],
        p[0] < box.hi[0] - 1,
        p[1] > box.lo[1],
        p[1] < box.hi[1] - 1,
        p[2] > box.lo[2],
        p[2] < box.hi[2] - 1,
    )


@gw.jit
def outer_faces(has: Sides) -> float:
    """Return the number of faces of a cell that are on the outside of the box."""
    return 6.0 - (has.left + has.right + has.down + has.up + has.front + has.back)


@gw.jit
def power_at(has: Sides, k: Rates) -> float:
    """Return the heating power of a cell: P at x = 0."""
    return 0.0 if has.left else k.P


@gw.jit
def change(here: Any, around: Any, power: float, outer: float, k: Rates) -> Any:
    """Return dT/dt of a cell, or of a vector of cells.

    Args:
        here: temperature of the cell.
        around: sum of the temperatures of its six neighbours, or of the cell itself in place of a missing one, so that
            nothing flows.
        power: heating power.
        outer: number of faces on the outside of the box.
        k: constants of the step.
    """
    return k.q * (around - 6.0 * here) + power - k.sigma * outer * (here * here) * (here * here)


@gw.jit
def across(has: bool, there: float, here: float) -> float:
    """Return the temperature across a face: of the cell there, or of this cell if the ghost has any value."""
    return there if has else here


@gw.jit
def conduct_cell(T_next: Any, T: Any, p: gw.Point, has: Sides, k: Rates) -> None:
    """One time step of a cell with known sides."""
    here = T[p]
    along_x = across(has.left, T[p - gw.X], here) + across(has.right, T[p + gw.X], here)
    along_y = across(has.down, T[p - gw.Y], here) + across(has.up, T[p + gw.Y], here)
    along_z = across(has.front, T[p - gw.Z], here) + across(has.back, T[p + gw.Z], here)
    T_next[p] = here + k.dt * change(here, along_x + along_y + along_z, power_at(has, k), outer_faces(has), k)


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


class Around(NamedTuple):
    """Common values of the cells of a row: the rows beside it, or the row itself instead of a missing one."""

    left: int
    right: int
    down: int
    up: int
    power: float
    outer: float


@gw.jit
def conduct_cells(T_next: Any, T: Any, x: int, y: int, z: int, row: Around, k: Rates) -> None:
    """One time step of `WIDTH` cells side by side that have neighbours along their row."""
    here = simd.load(T, gw.Point(x, y, z), WIDTH)
    along_x = simd.load(T, gw.Point(row.left, y, z), WIDTH) + simd.load(T, gw.Point(row.right, y, z), WIDTH)
    along_y = simd.load(T, gw.Point(x, row.down, z), WIDTH) + simd.load(T, gw.Point(x, row.up, z), WIDTH)
    along_z = simd.load(T, gw.Point(x, y, z - 1), WIDTH) + simd.load(T, gw.Point(x, y, z + 1), WIDTH)
    rate = change(here, along_x + along_y + along_z, row.power, row.outer, k)
    simd.store(T_next, gw.Point(x, y, z), here + k.dt * rate)


@gw.jit
def conduct_end(T_next: Any, T: Any, x: int, y: int, z: int, front: int, back: int, row: Around, k: Rates) -> None:
    """One time step of a cell with a face on the outside at lower or higher z: `front` or `back` is the cell itself."""
    here = T[x, y, z]
    along_x = T[row.left, y, z] + T[row.right, y, z]
    along_y = T[x, row.down, z] + T[x, row.up, z]
    along_z = T[x, y, front] + T[x, y, back]
    rate = change(here, along_x + along_y + along_z, row.power, row.outer + 1.0, k)
    T_next[x, y, z] = here + k.dt * rate


@gw.jit
def conduct_row(T_next: Any, T: Any, x: int, y: int, first: int, last: int, box: gw.RectDomain, k: Rates) -> None:
    """One time step of the cells [first, last) of a row: the same bits as `conduct`.

    Vectors take all cells as if they had neighbours along the row, the last vector some cells of the previous one
    again; then the cells without such neighbours are computed once more.
    """
    if last - first < WIDTH:
        for z in range(first, last):
            p = gw.Point(x, y, z)
            conduct_cell(T_next, T, p, sides_of(p, box), k)
        return
    has = sides_of(gw.Point(x, y, first), box)
    alongside = Sides(has.left, has.right, has.down, has.up, True, True)
    row = Around(
        x - 1 if has.left else x,
        x + 1 if has.right else x,
        y - 1 if has.down else y,
        y + 1 if has.up else y,
        power_at(has, k),
        outer_faces(alongside),
    )
    for z in range(first, last - WIDTH, WIDTH):
        conduct_cells(T_next, T, x, y, z, row, k)
    conduct_cells(T_next, T, x, y, last - WIDTH, row, k)
    if first == box.lo[2]:
        conduct_end(T_next, T, x, y, first, first, first + 1, row, k)
    if last == box.hi[2]:
        conduct_end(T_next, T, x, y, last - 1, last - 2, last - 1, row, k)


@gw.jit
def row_sum(T: Any, x: int, y: int, first: int, last: int) -> Any:
    """Return the sums of the cells [first, last) of a row: of its vectors, as a vector, and of the cells after them."""
    parts = simd.fill(0.0, WIDTH)
    for z in range(first, last - WIDTH + 1, WIDTH):
        parts += simd.load(T, gw.Point(x, y, z), WIDTH)
    rest = 0.0
    for z in range(last - (last - first) % WIDTH, last):
        rest += T[x, y, z]
    return parts, rest


@gw.jit
def sweep(threads: Any, T_next: Any, T: Any, parts: Any, box: gw.RectDomain, k: Rates, summed: bool) -> float:
    """One time step of this thread's rows of some boxes; return their sum of T before it, if wanted.

    Args:
        threads: the team of threads.
        T_next: result.
        T: temperature at the present time, with one ghost around.
        parts: the boxes, one in a row: three lower corners, three upper ones.
        box: all cells, of all ranks.
        k: constants of the step.
        summed: whether to sum.
    """
    total, rest = simd.fill(0.0, WIDTH), 0.0
    for part in range(len(parts)):
        x0, y0, z0, x1, y1, z1 = parts[part]
        rows = y1 - y0
        first, last = threads.share(0, (x1 - x0) * rows)
        x, y = x0 + first // rows, y0 + first % rows
        for _ in range(first, last):
            if summed:
                of_row, of_rest = row_sum(T, x, y, z0, z1)
                total += of_row
                rest += of_rest
            conduct_row(T_next, T, x, y, z0, z1, box, k)
            y += 1
            if y == y1:
                x, y = x + 1, y0
    return total.sum() + rest


@gw.reduce
def total(p: gw.Point, T: Any) -> float:
    """The sum of the temperature; its last bits depend on the division of the cells."""
    return T[p]  # type: ignore[no-any-return]


@gw.reduce(op="fsum")
def heat(p: gw.Point, T: Any) -> float:
    """The sum of the temperature, rounded once, so that it does not depend on the division of the cells."""
    return T[p]  # type: ignore[no-any-return]


@gw.reduce(op="fsum")
def radiated(p: gw.Point, T: Any, box: gw.RectDomain) -> float:
    """The sum of n T^4, over the faces on the outside of the box."""
    return outer_faces(sides_of(p, box)) * (T[p] * T[p]) * (T[p] * T[p])  # type: ignore[no-any-return]
