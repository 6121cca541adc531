"""The V-cycle with several operators in one pass over memory: see `sweeps`. The same bits as `Multigrid`."""

from __future__ import annotations

from gondwana.apps.npb.mg import kernels, sweeps
from gondwana.apps.npb.mg.multigrid import Level, Multigrid


class Pipelined(Multigrid):
    """Multigrid for blocks that are divided along the slowest axis only."""

    def ascend(self, level: Level, coarse: Level) -> None:
        """Set u = u + Q u_c; r = v - A u; u = u + S r."""
        u, r, v, (k0, k1) = level.u.local, level.r.local, level.v.local, level.planes
        sweeps.ascend(u, r, v, coarse.u.local, self.smoother, k0, k1, coarse.block, level.block)
        self.fill_ghosts(level.r)
        for k in {k0, k1 - 1}:
            kernels.smooth(u, r, self.smoother, k, k + 1, level.block)
        self.fill_ghosts(level.u)

    def descend(self, level: Level, coarse: Level) -> None:
        """Set r = v - A u; v_c = P r."""
        v, r, (k0, k1) = coarse.v.local, level.r.local, level.planes
        sweeps.descend(v, r, level.v.local, level.u.local, k0, k1, coarse.block, level.block)
        self.fill_ghosts(level.r)
        kernels.restrict(v, r, k1 // 2 - 1, k1 // 2, coarse.block, level.block)
        self.fill_ghosts(coarse.v)
