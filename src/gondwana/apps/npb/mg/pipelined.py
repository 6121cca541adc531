"""The V-cycle with several operators in one pass over memory: see `sweeps`. The same bits as `Multigrid`."""

from __future__ import annotations

from gondwana.apps.npb.mg import sweeps
from gondwana.apps.npb.mg.multigrid import Level, Multigrid


class Pipelined(Multigrid):
    """Multigrid for blocks that are divided along the slowest axis only.

    The rims, planes at both ends of a block for which an operator needs ghosts of what the one before it left, follow
    when the ghosts are there.
    """

    def correct(self, level: Level, coarse: Level) -> None:
        """Set u = Q u_c; r = r - A u; u = u + S r."""
        u, r, s = level.u.local, level.r.local, self.problem.smoother
        sweeps.correct(u, r, coarse.u.local, s, *level.planes, coarse.plane, level.plane)
        self.fill_ghosts(level.r)
        for planes in level.rim(1):
            sweeps.smooth(u, r, s, *planes, level.plane)
        self.fill_ghosts(level.u)

    def improve(self, level: Level, coarse: Level, last: bool) -> None:
        """Set u = u + Q u_c; r = v - A u; u = u + S r; r = v - A u; r_c = P r for the next iteration."""
        u, r, v, s = level.u.local, level.r.local, self.v.local, self.problem.smoother
        rc = None if last else coarse.r.local
        sweeps.improve(u, r, v, coarse.u.local, rc, s, *level.planes, coarse.plane, level.plane)
        self.fill_ghosts(level.r)
        for planes in level.rim(1):
            sweeps.smooth(u, r, s, *planes, level.plane)
        self.fill_ghosts(level.u)
        for planes in level.rim(2):
            sweeps.residual(r, v, u, *planes, level.plane)
        self.fill_ghosts(level.r)
        if rc is not None:
            k0, k1 = level.planes
            for planes in (k0 // 2, k0 // 2 + 1), (max(k1 // 2 - 2, k0 // 2 + 1), k1 // 2):
                sweeps.restrict(rc, r, *planes, coarse.plane, level.plane)
            self.fill_ghosts(coarse.r)
