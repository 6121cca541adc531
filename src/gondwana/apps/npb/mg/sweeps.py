"""Sweeps over the planes of a block: one operator after the other, or several in one pass over memory.

In a pipelined sweep an operator follows the one before it as closely as its stencil lets it, one plane behind, while
the planes are still in the cache. Each is the plane operator of `kernels`, so the results are the same bits. What needs
ghosts that are yet to be exchanged, the rim, is left to be done afterwards by the plain sweeps.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana.apps.npb.mg import kernels
from gondwana.apps.npb.mg.kernels import Plane, Smoother


@gw.jit
def residual(r: Any, v: Any, u: Any, k0: int, k1: int, plane: Plane) -> None:
    """Set r = v - A u on the planes [k0, k1)."""
    for k in range(k0, k1):
        kernels.residual(r, v, u, k, plane)


@gw.jit
def new_residual(r: Any, u: Any, k0: int, k1: int, plane: Plane) -> None:
    """Set r = r - A u on the planes [k0, k1)."""
    for k in range(k0, k1):
        kernels.new_residual(r, u, k, plane)


@gw.jit
def smooth(u: Any, r: Any, s: Smoother, k0: int, k1: int, plane: Plane) -> None:
    """Set u = u + S r on the planes [k0, k1)."""
    for k in range(k0, k1):
        kernels.smooth(u, r, s, k, plane)


@gw.jit
def restrict(coarse: Any, r: Any, k0: int, k1: int, half: Plane, plane: Plane) -> None:
    """Set coarse = P r on the coarse planes [k0, k1)."""
    for k in range(k0, k1):
        kernels.restrict(coarse, r, k, half, plane)


@gw.jit
def interpolate(u: Any, coarse: Any, k0: int, k1: int, half: Plane, plane: Plane) -> None:
    """Set u = Q coarse on the planes [k0, k1) and the ghosts around them."""
    for k in range(k0 - 1, k1 + 1):
        kernels.interpolate(u, coarse, k, half, plane)


@gw.jit
def add_interpolated(u: Any, coarse: Any, k0: int, k1: int, half: Plane, plane: Plane) -> None:
    """Set u = u + Q coarse on the planes [k0, k1) and the ghosts around them."""
    for k in range(k0 - 1, k1 + 1):
        kernels.add_interpolated(u, coarse, k, half, plane)


@gw.jit
def correct(u: Any, r: Any, coarse: Any, s: Smoother, k0: int, k1: int, half: Plane, plane: Plane) -> None:
    """Set u = Q coarse; r = r - A u; u = u + S r but for the rim."""
    for k in range(k0 - 1, k1 + 1):
        kernels.interpolate(u, coarse, k, half, plane)
        if k >= k0 + 1:
            kernels.new_residual(r, u, k - 1, plane)
        if k >= k0 + 3:
            kernels.smooth(u, r, s, k - 2, plane)


@gw.jit
def improve(u: Any, r: Any, v: Any, uc: Any, rc: Any, s: Smoother, k0: int, k1: int, half: Plane, plane: Plane) -> None:
    """Set u = u + Q uc; r = v - A u; u = u + S r; r = v - A u; rc = P r, unless that is None: all but for the rims."""
    for k in range(k0 - 1, k1 + 1):
        kernels.add_interpolated(u, uc, k, half, plane)
        if k >= k0 + 1:
            kernels.residual(r, v, u, k - 1, plane)
        if k >= k0 + 3:
            kernels.smooth(u, r, s, k - 2, plane)
        if k >= k0 + 5:
            kernels.residual(r, v, u, k - 3, plane)
        if rc is not None:  # noqa: SIM102  (decided when this is compiled)
            if k >= k0 + 7 and k % 2 == 1:
                kernels.restrict(rc, r, (k - 4) // 2, half, plane)


@gw.jit
def sum_of_squares(r: Any, k0: int, k1: int, plane: Plane) -> float:
    """The sum of r^2 on the planes [k0, k1), each line in four parts."""
    total = 0.0
    for k in range(k0, k1):
        for j in range(plane.j0, plane.j1):
            f = plane.f
            for i in range(plane.i0, plane.i1):
                f[i] = r[k, j, i] * r[k, j, i]
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for q in range((plane.i1 - plane.i0) // 4):
                i = plane.i0 + 4 * q
                a += f[i]
                b += f[i + 1]
                c += f[i + 2]
                d += f[i + 3]
            for i in range(plane.i1 - (plane.i1 - plane.i0) % 4, plane.i1):
                a += f[i]
            total += a + b + c + d
    return total
