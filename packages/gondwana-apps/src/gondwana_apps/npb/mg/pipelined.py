"""The V-cycle with several operators in one pass over memory: see `sweeps`. The same bits as `Multigrid`."""

from __future__ import annotations

from gondwana_apps.npb.mg import kernels, sweeps
from gondwana_apps.npb.mg.multigrid import Level, Multigrid


class Pipelined(Multigrid):
    """Multigrid for blocks that are divided along the slowest axis only."""

    def ascend(self, level: Level, coarse: Level) -> None:
        """Set u = u + Q u_c; r = v - A u; u = u + S r."""
        u, r, v, (k0, k1) = level.u.local, level.r.local, level.v.local, level.planes
        sweeps.ascend(u, r, v, coarse.u.local, self.smoother, k0, k1, coarse.block, level.block)
        self.fill_ghosts(level.r)
        for k in ends(k0, k1, 1, 1):
            kernels.smooth(u, r, self.smoother, k, k + 1, level.block)
        self.fill_ghosts(level.u)

    def improve(self, level: Level, coarse: Level) -> None:
        """Set u = u + Q u_c; r = v - A u; u = u + S r; r = v - A u; v_c = P r."""
        u, r, v, v_c, (k0, k1) = level.u.local, level.r.local, level.v.local, coarse.v.local, level.planes
        sweeps.improve(u, r, v, coarse.u.local, v_c, self.smoother, k0, k1, coarse.block, level.block)
        self.fill_ghosts(level.r)
        for k in ends(k0, k1, 1, 1):
            kernels.smooth(u, r, self.smoother, k, k + 1, level.block)
        self.fill_ghosts(level.u)
        for k in ends(k0, k1, 2, 2):
            kernels.residual(r, v, u, k, k + 1, level.block)
        self.fill_ghosts(level.r)
        for k in ends(k0 // 2, k1 // 2, 1, 2):
            kernels.restrict(v_c, r, k, k + 1, coarse.block, level.block)
        self.fill_ghosts(coarse.v)


def ends(begin: int, end: int, first: int, last: int) -> list[int]:
    """Return the first and the last planes of a range, each once. Local."""
    return [k for k in range(begin, end) if k < begin + first or k >= end - last]
