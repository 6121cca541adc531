"""The four operators of multigrid, a plane at a time, and the norm (NPB 3.4; NAS-91-002, section 2.2).

A 27-point operator has one weight for each class of neighbour: centre, 6 faces, 12 edges, 8 corners. On a line along
the contiguous axis it needs two sums over the lines around: `f`, of the four that touch it by a face, and `e`, of the
four that touch it by an edge. With them

    faces   = x[i-1] + x[i+1] + f[i]
    edges   = e[i] + f[i-1] + f[i+1]
    corners = e[i-1] + e[i+1]

Coarse cell J lies on fine cell 2J + 1, along each axis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gondwana as gw

A0, A2, A3 = -8.0 / 3.0, 1.0 / 6.0, 1.0 / 12.0
"""The Laplacian: centre, edges, corners; faces have no weight."""

P0, P1, P2, P3 = 1 / 2, 1 / 4, 1 / 8, 1 / 16
"""Restriction, which holds the factor 4 of the coarser grid, so that A and S are the same on all levels."""


class Smoother(NamedTuple):
    """The weights of S: centre, faces, edges; corners have none."""

    centre: float
    faces: float
    edges: float


class Plane(NamedTuple):
    """What the planes of a block have in common: the owned rows and columns, and lines to work on.

    `wraps_rows` and `wraps_columns` say that the block has all cells along that axis, so that its ghosts are its own.
    """

    j0: int
    j1: int
    i0: int
    i1: int
    wraps_rows: bool
    wraps_columns: bool
    f: Any
    e: Any


@gw.jit
def sum_lines(x: Any, k: int, j: int, plane: Plane) -> None:
    """Set f and e of line (k, j), as wide as the block with its ghosts."""
    f, e = plane.f, plane.e
    for i in range(plane.i0 - 1, plane.i1 + 1):
        f[i] = x[k, j - 1, i] + x[k, j + 1, i] + x[k - 1, j, i] + x[k + 1, j, i]
    for i in range(plane.i0 - 1, plane.i1 + 1):
        e[i] = x[k - 1, j - 1, i] + x[k - 1, j + 1, i] + x[k + 1, j - 1, i] + x[k + 1, j + 1, i]


@gw.jit
def close_line(x: Any, k: int, j: int, plane: Plane) -> None:
    """Fill the ghosts at both ends of a line, if they are cells of this block."""
    if plane.wraps_columns:
        x[k, j, plane.i0 - 1] = x[k, j, plane.i1 - 1]
        x[k, j, plane.i1] = x[k, j, plane.i0]


@gw.jit
def close_plane(x: Any, k: int, plane: Plane) -> None:
    """Fill the ghosts on both sides of a plane, if they are cells of this block."""
    if plane.wraps_rows:
        for i in range(plane.i0 - 1, plane.i1 + 1):
            x[k, plane.j0 - 1, i] = x[k, plane.j1 - 1, i]
        for i in range(plane.i0 - 1, plane.i1 + 1):
            x[k, plane.j1, i] = x[k, plane.j0, i]


@gw.jit
def laplacian(u: Any, k: int, j: int, i: int, f: Any, e: Any) -> float:
    """A u at a point."""
    edges = e[i] + f[i - 1] + f[i + 1]
    corners = e[i - 1] + e[i + 1]
    return A0 * u[k, j, i] + A2 * edges + A3 * corners  # type: ignore[no-any-return]


@gw.jit
def residual(r: Any, v: Any, u: Any, k: int, plane: Plane) -> None:
    """Set r = v - A u on plane k."""
    f, e = plane.f, plane.e
    for j in range(plane.j0, plane.j1):
        sum_lines(u, k, j, plane)
        for i in range(plane.i0, plane.i1):
            r[k, j, i] = v[k, j, i] - laplacian(u, k, j, i, f, e)
        close_line(r, k, j, plane)
    close_plane(r, k, plane)


@gw.jit
def new_residual(r: Any, u: Any, k: int, plane: Plane) -> None:
    """Set r = r - A u on plane k."""
    f, e = plane.f, plane.e
    for j in range(plane.j0, plane.j1):
        sum_lines(u, k, j, plane)
        for i in range(plane.i0, plane.i1):
            r[k, j, i] -= laplacian(u, k, j, i, f, e)
        close_line(r, k, j, plane)
    close_plane(r, k, plane)


@gw.jit
def smooth(u: Any, r: Any, s: Smoother, k: int, plane: Plane) -> None:
    """Set u = u + S r on plane k."""
    f, e = plane.f, plane.e
    for j in range(plane.j0, plane.j1):
        sum_lines(r, k, j, plane)
        for i in range(plane.i0, plane.i1):
            faces = r[k, j, i - 1] + r[k, j, i + 1] + f[i]
            edges = e[i] + f[i - 1] + f[i + 1]
            u[k, j, i] += s.centre * r[k, j, i] + s.faces * faces + s.edges * edges
        close_line(u, k, j, plane)
    close_plane(u, k, plane)


@gw.jit
def restrict(coarse: Any, r: Any, K: int, half: Plane, plane: Plane) -> None:  # noqa: N803  (as in NPB's papers)
    """Set coarse = P r on the coarse plane K; `half` describes the planes of `coarse`."""
    f, e = plane.f, plane.e
    k = 2 * K + 1
    for J in range(half.j0, half.j1):  # noqa: N806
        j = 2 * J + 1
        sum_lines(r, k, j, plane)
        for I in range(half.i0, half.i1):  # noqa: E741, N806
            i = 2 * I + 1
            faces = r[k, j, i - 1] + r[k, j, i + 1] + f[i]
            edges = e[i] + f[i - 1] + f[i + 1]
            corners = e[i - 1] + e[i + 1]
            coarse[K, J, I] = P0 * r[k, j, i] + P1 * faces + P2 * edges + P3 * corners
        close_line(coarse, K, J, half)
    close_plane(coarse, K, half)


@gw.jit
def line_between(q: Any, coarse: Any, k: int, j: int, half: Plane) -> None:
    """The coarse cells, interpolated to line j of plane k along these two axes.

    Fine cell 2J + 1 takes coarse cell J, fine cell 2J the mean of J - 1 and J.
    """
    K0, K1, J0, J1 = (k - 1) // 2, k // 2, (j - 1) // 2, j // 2  # noqa: N806
    for I in range(half.i0 - 1, half.i1 + 1):  # noqa: E741, N806
        q[I] = 0.25 * (coarse[K0, J0, I] + coarse[K0, J1, I] + coarse[K1, J0, I] + coarse[K1, J1, I])


@gw.jit
def interpolate(u: Any, coarse: Any, k: int, half: Plane, plane: Plane) -> None:
    """Set u = Q coarse on plane k and the ghosts around it."""
    q, i0, i1 = half.f, half.i0, half.i1
    for j in range(plane.j0 - 1, plane.j1 + 1):
        line_between(q, coarse, k, j, half)
        u[k, j, 2 * i0 - 1] = q[i0 - 1]
        for I in range(i0, i1):  # noqa: E741, N806
            u[k, j, 2 * I] = 0.5 * (q[I - 1] + q[I])
            u[k, j, 2 * I + 1] = q[I]
        u[k, j, 2 * i1] = 0.5 * (q[i1 - 1] + q[i1])


@gw.jit
def add_interpolated(u: Any, coarse: Any, k: int, half: Plane, plane: Plane) -> None:
    """Set u = u + Q coarse on plane k and the ghosts around it."""
    q, i0, i1 = half.f, half.i0, half.i1
    for j in range(plane.j0 - 1, plane.j1 + 1):
        line_between(q, coarse, k, j, half)
        u[k, j, 2 * i0 - 1] += q[i0 - 1]
        for I in range(i0, i1):  # noqa: E741, N806
            u[k, j, 2 * I] += 0.5 * (q[I - 1] + q[I])
            u[k, j, 2 * I + 1] += q[I]
        u[k, j, 2 * i1] += 0.5 * (q[i1 - 1] + q[i1])
