"""The four operators of multigrid and the norm (NPB 3.4; NAS-91-002, section 2.2), on planes [k0, k1) of a block.

A 27-point operator has one weight for each class of neighbour: centre, 6 faces, 12 edges, 8 corners. At each point of a
line it needs two sums over the lines around: f, of the four that touch it by a face, and e, of the four that touch it
by an edge. With them

    faces   = x[i-1] + x[i+1] + f[i]
    edges   = e[i] + f[i-1] + f[i+1]
    corners = e[i-1] + e[i+1]

Sums are computed once and carried along the line: f0, f1, f2 are those at i-1, i, i+1.

Coarse cell J lies on fine cell 2J + 1, along each axis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gondwana as gw

A0, A2, A3 = -8.0 / 3.0, 1.0 / 6.0, 1.0 / 12.0
"""The Laplacian: centre, edges, corners; faces have no weight."""


class Smoother(NamedTuple):
    """The weights of S: centre, faces, edges; corners have none."""

    centre: float
    faces: float
    edges: float


class Block(NamedTuple):
    """The lines of a block and the cells on them, whether it is closed along these axes, and a line to work on.

    A block is closed along an axis if it has all cells there: its ghosts are its own cells, and filled on the way.
    """

    j0: int
    j1: int
    i0: int
    i1: int
    closed_j: bool
    closed_i: bool
    work: Any


@gw.jit
def by_faces(x: Any, k: int, j: int, i: int) -> float:
    """Return f: the sum over the four lines that touch this one by a face."""
    return x[k, j - 1, i] + x[k, j + 1, i] + x[k - 1, j, i] + x[k + 1, j, i]  # type: ignore[no-any-return]


@gw.jit
def by_edges(x: Any, k: int, j: int, i: int) -> float:
    """Return e: the sum over the four lines that touch this one by an edge."""
    return x[k - 1, j - 1, i] + x[k - 1, j + 1, i] + x[k + 1, j - 1, i] + x[k + 1, j + 1, i]  # type: ignore[no-any-return]


@gw.jit
def close_line(x: Any, k: int, j: int, block: Block) -> None:
    """Fill the ghosts at both ends of a line, if they are cells of this block."""
    if block.closed_i:
        x[k, j, block.i0 - 1] = x[k, j, block.i1 - 1]
        x[k, j, block.i1] = x[k, j, block.i0]


@gw.jit
def close_plane(x: Any, k: int, block: Block) -> None:
    """Fill the ghosts on both sides of a plane, if they are cells of this block."""
    if block.closed_j:
        for i in range(block.i0 - 1, block.i1 + 1):
            x[k, block.j0 - 1, i] = x[k, block.j1 - 1, i]
        for i in range(block.i0 - 1, block.i1 + 1):
            x[k, block.j1, i] = x[k, block.j0, i]


@gw.jit
def residual(r: Any, v: Any, u: Any, k0: int, k1: int, block: Block) -> None:
    """Set r = v - A u."""
    for k in range(k0, k1):
        for j in range(block.j0, block.j1):
            f0, f1 = by_faces(u, k, j, block.i0 - 1), by_faces(u, k, j, block.i0)
            e0, e1 = by_edges(u, k, j, block.i0 - 1), by_edges(u, k, j, block.i0)
            for i in range(block.i0, block.i1):
                f2, e2 = by_faces(u, k, j, i + 1), by_edges(u, k, j, i + 1)
                edges, corners = e1 + f0 + f2, e0 + e2
                r[k, j, i] = v[k, j, i] - A0 * u[k, j, i] - A2 * edges - A3 * corners
                f0, f1, e0, e1 = f1, f2, e1, e2
            close_line(r, k, j, block)
        close_plane(r, k, block)


@gw.jit
def smooth(u: Any, r: Any, s: Smoother, k0: int, k1: int, block: Block) -> None:
    """Set u = u + S r."""
    for k in range(k0, k1):
        for j in range(block.j0, block.j1):
            f0, f1 = by_faces(r, k, j, block.i0 - 1), by_faces(r, k, j, block.i0)
            for i in range(block.i0, block.i1):
                f2 = by_faces(r, k, j, i + 1)
                faces = r[k, j, i - 1] + r[k, j, i + 1] + f1
                edges = by_edges(r, k, j, i) + f0 + f2
                u[k, j, i] += s.centre * r[k, j, i] + s.faces * faces + s.edges * edges
                f0, f1 = f1, f2
            close_line(u, k, j, block)
        close_plane(u, k, block)


@gw.jit
def restrict(coarse: Any, x: Any, k0: int, k1: int, half: Block, block: Block) -> None:
    """Set coarse = P x on coarse planes; `half` is the coarse block. P is half of (1/2, 1, 1/2) along each axis."""
    p = block.work
    for K in range(k0, k1):  # noqa: N806  (coarse cell K lies on k)
        for J in range(half.j0, half.j1):  # noqa: N806
            k, j = 2 * K + 1, 2 * J + 1
            for i in range(block.i0 - 1, block.i1 + 1):
                p[i] = 0.5 * x[k, j, i] + 0.25 * by_faces(x, k, j, i) + 0.125 * by_edges(x, k, j, i)
            for I in range(half.i0, half.i1):  # noqa: E741, N806
                coarse[K, J, I] = p[2 * I + 1] + 0.5 * (p[2 * I] + p[2 * I + 2])
            close_line(coarse, K, J, half)
        close_plane(coarse, K, half)


@gw.jit
def interpolate(u: Any, coarse: Any, k0: int, k1: int, half: Block, block: Block) -> None:
    """Set u = u + Q coarse, in the ghosts of these planes, too.

    Along each axis fine cell 2J + 1 takes coarse cell J, fine cell 2J the mean of J - 1 and J.
    """
    q, i0, i1 = half.work, half.i0, half.i1
    for k in range(k0, k1):
        below, above = (k - 1) // 2, k // 2
        for j in range(block.j0 - 1, block.j1 + 1):
            left, right = (j - 1) // 2, j // 2
            for i in range(i0 - 1, i1 + 1):
                q[i] = (
                    coarse[below, left, i] + coarse[below, right, i] + coarse[above, left, i] + coarse[above, right, i]
                )
            u[k, j, 2 * i0 - 1] += 0.25 * q[i0 - 1]
            for i in range(i0, i1):
                u[k, j, 2 * i] += 0.125 * (q[i - 1] + q[i])
                u[k, j, 2 * i + 1] += 0.25 * q[i]
            u[k, j, 2 * i1] += 0.125 * (q[i1 - 1] + q[i1])


@gw.jit(reassociate=True)
def sum_of_squares(r: Any, k0: int, k1: int, block: Block) -> float:
    """Return the sum of r^2, in any order, so that additions need not wait for each other."""
    total = 0.0
    for k in range(k0, k1):
        for j in range(block.j0, block.j1):
            for i in range(block.i0, block.i1):
                total += r[k, j, i] * r[k, j, i]
    return total


OPERATORS = (
    by_faces, by_edges, close_line, close_plane, residual, smooth, restrict, interpolate, sum_of_squares
)  # fmt: skip
