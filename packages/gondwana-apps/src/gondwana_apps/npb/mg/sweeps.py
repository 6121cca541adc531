"""Several operators in one pass over memory.

An operator follows the previous one as closely as its stencil allows, one plane behind, while the planes are still in
the cache. Each is the operator of `kernels` on single planes, so the results are the same bits. Planes that need ghosts
from other ranks that have not sent them yet are done afterwards.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana_apps.npb.mg.kernels import Block, Smoother, interpolate, residual, restrict, smooth


@gw.jit
def ascend(u: Any, r: Any, v: Any, coarse: Any, s: Smoother, k0: int, k1: int, half: Block, block: Block) -> None:
    """Set u = u + Q coarse; r = v - A u; u = u + S r but on the first and the last plane."""
    for k in range(k0 - 1, k1 + 1):
        interpolate(u, coarse, k, k + 1, half, block)
        if k >= k0 + 1:
            residual(r, v, u, k - 1, k, block)
        if k >= k0 + 3:
            smooth(u, r, s, k - 2, k - 1, block)


@gw.jit
def improve(
    u: Any, r: Any, v: Any, coarse_u: Any, coarse_v: Any, s: Smoother, k0: int, k1: int, half: Block, block: Block
) -> None:
    """Set u = u + Q coarse_u; r = v - A u; u = u + S r; r = v - A u; coarse_v = P r, but on planes at both ends.

    They are the first and the last of u, two of r, and the first and the last two of coarse_v.
    """
    for k in range(k0 - 1, k1 + 1):
        interpolate(u, coarse_u, k, k + 1, half, block)
        if k >= k0 + 1:
            residual(r, v, u, k - 1, k, block)
        if k >= k0 + 3:
            smooth(u, r, s, k - 2, k - 1, block)
        if k >= k0 + 5:
            residual(r, v, u, k - 3, k - 2, block)
        if k >= k0 + 7 and k % 2 == 1:
            restrict(coarse_v, r, (k - 5) // 2, (k - 3) // 2, half, block)


SWEEPS = (ascend, improve)
