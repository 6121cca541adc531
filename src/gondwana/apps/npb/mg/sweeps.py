"""Several operators in one pass over memory.

An operator follows the one before it as closely as its stencil lets it, one plane behind, while the planes are still in
the cache. Each is the operator of `kernels` on single planes, so the results are the same bits. Planes that need ghosts
which other ranks are yet to send are left to be done afterwards.
"""

from __future__ import annotations

from typing import Any

import gondwana as gw
from gondwana.apps.npb.mg.kernels import Block, Smoother, interpolate, residual, restrict, smooth


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
def descend(coarse: Any, r: Any, v: Any, u: Any, k0: int, k1: int, half: Block, block: Block) -> None:
    """Set r = v - A u; coarse = P r but on the last coarse plane."""
    for k in range(k0, k1):
        residual(r, v, u, k, k + 1, block)
        if k >= k0 + 2 and k % 2 == 0:
            restrict(coarse, r, k // 2 - 1, k // 2, half, block)
