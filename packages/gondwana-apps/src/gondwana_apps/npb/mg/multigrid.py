"""The V-cycle (NPB 3.4; NAS-91-002, section 2.2), and the work of the ranks in it.

With A the Laplacian, S the smoother, P restriction and Q interpolation, one iteration is

    v_c = P r                  r = v - A u from the iteration before
    u_c = M v_c                the same on the coarser levels, each from u = 0, where r = v
    u = u + Q u_c
    r = v - A u
    u = u + S r
    r = v - A u

and on the coarsest level, of two cells a side, M = S.
"""

from __future__ import annotations

import math

import gondwana as gw
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.mg import charges, kernels
from gondwana_apps.npb.mg.blocks import Blocks
from gondwana_apps.npb.mg.division import Division, Plan
from gondwana_apps.npb.mg.problem import MGProblem


class Level:
    """Solution u, right-hand side v and residual r on one level. Collective over team to make.

    Attributes:
        planes: the first plane of this rank, and the end.
        block: further data of its cells for the kernels.
    """

    def __init__(self, division: Division, team: gw.Team, variant: str) -> None:
        self.u, self.v, self.r = (Blocks(division, team, variant) for _ in range(3))
        (k0, j0, i0), (k1, j1, i1) = self.u.owned.lo, self.u.owned.hi
        work = gw.Array.empty(gw.RectDomain(i0 - 1, i1 + 1))
        self.planes = k0, k1
        self.block = kernels.Block(j0, j1, i0, i1, division.grid[1] == 1, division.grid[2] == 1, work)


class Multigrid:
    """The state of a run. Collective over team to make, as `start` and `norm`; the rest over the ranks that work.

    Args:
        problem: class of the problem.
        team: the ranks; those without a block by the plan do not work.
        plan: division of the levels.
        variant: variant of the ghost update.
        sections: the timers.
    """

    def __init__(self, problem: MGProblem, team: gw.Team, plan: Plan, variant: str, sections: Sections) -> None:
        self.cells = problem.cells
        self.smoother = problem.smoother
        self.team = team
        self.sections = sections
        self.ranks = plan.ranks
        self.works = team.rank < plan.ranks

        def levels(first: int, last: int, grid: tuple[int, int, int]) -> list[Level]:
            divisions = [Division(1 << k, grid, 1 << last) for k in range(first, last - 1, -1)]
            return [Level(division, team, variant) for division in divisions]

        self.levels = levels(problem.levels, plan.coarsest, plan.grid)
        """The finest first."""
        self.alone = levels(plan.coarsest, 1, (1, 1, 1)) if plan.ranks > 1 else []
        """Those of rank 0, from the coarsest divided one on."""
        self.shared = self.levels[-1] if plan.ranks > 1 else None
        self.gathered, self.solved = gw.Signal(team), gw.Signal(team)

    def start(self) -> None:
        """Set u = 0 and place the charges. Collective over team."""
        finest = self.levels[0]
        charges.place(finest.v.local if self.works else None, finest.v.owned, self.cells, self.team)
        if self.works:
            finest.u.local.fill(0.0)

    def first_residual(self) -> None:
        """Set r = v - A u on the finest level, and the next right-hand side by it."""
        self.descend(*self.levels[:2])

    def iterate(self) -> None:
        """Do one V-cycle, and set r = v - A u after it, and the next right-hand side."""
        finest, *coarser = self.levels
        self.solve(coarser)
        self.improve(finest, coarser[0])

    def solve(self, levels: list[Level]) -> None:
        """Set u = M v on the first of the levels, by those that follow."""
        level, *coarser = levels
        if level is self.shared:
            return self.solve_alone(level)
        level.u.local.fill(0.0)
        if not coarser:
            return self.smooth(level, level.v)
        self.restrict(level.v, level, coarser[0])
        self.solve(coarser)
        return self.ascend(level, coarser[0])

    def solve_alone(self, share: Level) -> None:
        """Set u = M v, by rank 0 for all: v is gathered there, and u is fetched from there, both with their ghosts."""
        whole = self.alone[0]
        with self.sections("comm3"):  # where ghosts of one are cells of another, both copy the same values
            whole.v.block(0).copy_from(share.v.local)
            self.gathered.add(0)
        if self.team.rank == 0:
            self.gathered.wait(self.ranks)
            self.solve(self.alone)
            for rank in range(self.ranks):
                self.solved.add(rank)
        with self.sections("comm3"):
            self.solved.wait()
            share.u.local.copy_from(whole.u.block(0))

    def ascend(self, level: Level, coarse: Level) -> None:
        """Set u = u + Q u_c; r = v - A u; u = u + S r."""
        k0, k1 = level.planes
        with self.sections("interp"):
            kernels.interpolate(level.u.local, coarse.u.local, k0 - 1, k1 + 1, coarse.block, level.block)
        self.residual(level)
        self.smooth(level, level.r)

    def improve(self, level: Level, coarse: Level) -> None:
        """Set u = u + Q u_c; r = v - A u; u = u + S r; r = v - A u; v_c = P r."""
        self.ascend(level, coarse)
        self.descend(level, coarse)

    def descend(self, level: Level, coarse: Level) -> None:
        """Set r = v - A u; v_c = P r."""
        self.residual(level)
        self.restrict(level.r, level, coarse)

    def residual(self, level: Level) -> None:
        """Set r = v - A u."""
        with self.sections("resid"):
            kernels.residual(level.r.local, level.v.local, level.u.local, *level.planes, level.block)
        self.fill_ghosts(level.r)

    def smooth(self, level: Level, r: Blocks) -> None:
        """Set u = u + S r."""
        with self.sections("psinv"):
            kernels.smooth(level.u.local, r.local, self.smoother, *level.planes, level.block)
        self.fill_ghosts(level.u)

    def restrict(self, r: Blocks, level: Level, coarse: Level) -> None:
        """v_c = P r."""
        k0, k1 = level.planes
        with self.sections("rprj3"):
            kernels.restrict(coarse.v.local, r.local, k0 // 2, k1 // 2, coarse.block, level.block)
        self.fill_ghosts(coarse.v)

    def fill_ghosts(self, blocks: Blocks) -> None:
        """Fill the ghosts from the cells of the neighbours."""
        with self.sections("comm3"):
            blocks.fill_ghosts()

    def norm(self) -> float:
        """Return the L2 norm of r on the finest level. Collective over team."""
        finest, total = self.levels[0], 0.0
        with self.sections("norm2u3"):
            if self.works:
                total = kernels.sum_of_squares(finest.r.local, *finest.planes, finest.block)
        with self.sections("rcomm"):
            total = self.team.allreduce(total)
        return math.sqrt(total / self.cells**3)
