"""The V-cycle (NPB 3.4; NAS-91-002, section 2.2), and who does what of it.

With A the Laplacian, S the smoother, P restriction and Q interpolation, one iteration is

    r_c = P r              and so on, down to two cells a side
    u_c = M r_c            the same on the coarser levels, from zero
    u = u + Q u_c
    r = v - A u
    u = u + S r
    r = v - A u
"""

from __future__ import annotations

import math

import gondwana as gw
from gondwana.apps.npb.common.sections import Sections
from gondwana.apps.npb.mg import charges, sweeps
from gondwana.apps.npb.mg.blocks import Blocks
from gondwana.apps.npb.mg.division import Division, Plan
from gondwana.apps.npb.mg.kernels import Plane
from gondwana.apps.npb.mg.problem import MGProblem


class Level:
    """u and r on one level. Collective over team to make.

    Attributes:
        u: the correction; on the finest level the solution.
        r: the residual.
        plane: what kernels must know of this rank's planes.
        planes: the first of them, and the end.
    """

    def __init__(self, division: Division, team: gw.Team, variant: str) -> None:
        self.u = Blocks(division, team, variant)
        self.r = Blocks(division, team, variant)
        (k0, j0, i0), (k1, j1, i1) = self.u.owned.lo, self.u.owned.hi
        line = gw.RectDomain(i0 - 1, i1 + 1)
        wraps = division.grid[1] == 1, division.grid[2] == 1
        self.plane = Plane(j0, j1, i0, i1, *wraps, gw.Array.empty(line), gw.Array.empty(line))
        self.planes = k0, k1

    def rim(self, width: int) -> list[tuple[int, int]]:
        """The first and the last planes of this rank, so many at either end."""
        k0, k1 = self.planes
        return [(k0, min(k0 + width, k1)), (max(k1 - width, min(k0 + width, k1)), k1)]


class Multigrid:
    """The state of a run. Collective over team to make.

    Args:
        problem: which class.
        team: the ranks; those that get no block by the plan do not work.
        plan: how the levels are divided.
        variant: of the ghost update.
        sections: the timers.
    """

    def __init__(self, problem: MGProblem, team: gw.Team, plan: Plan, variant: str, sections: Sections) -> None:
        self.problem = problem
        self.team = team
        self.sections = sections
        self.works = team.rank < plan.ranks
        self._ranks = plan.ranks

        def levels(first: int, last: int, grid: tuple[int, int, int]) -> list[Level]:
            divisions = [Division(1 << k, grid, 1 << last) for k in range(first, last - 1, -1)]
            return [Level(division, team, variant) for division in divisions]

        self.levels = levels(problem.levels, plan.coarsest, plan.grid)
        """Those of this rank, the finest first."""
        self._alone = levels(plan.coarsest, 1, (1, 1, 1)) if plan.ranks > 1 else []
        """Those of rank 0, from the coarsest divided one on."""
        self._shared = self.levels[-1] if plan.ranks > 1 else None
        self._gathered, self._solved = gw.Signal(team), gw.Signal(team)
        self.v = Blocks(self.levels[0].u.division, team, variant)

    def start(self) -> None:
        """Set u = 0 and place the charges. Collective over team."""
        charges.place(self.v.local if self.works else None, self.v.owned, self.problem.cells, self.team)
        if self.works:
            self.levels[0].u.local.fill(0.0)

    def first_residual(self) -> None:
        """Set r = v - A u on the finest level, and r_c = P r. Collective over the ranks that work."""
        finest, coarse = self.levels[:2]
        self.residual(finest)
        self.restrict(finest, coarse)

    def iterate(self, *, last: bool = False) -> None:
        """One V-cycle and the residual after it. Collective over the ranks that work.

        Args:
            last: nothing follows, so that r_c is not needed.
        """
        finest, *coarser = self.levels
        self.solve(coarser)
        self.improve(finest, coarser[0], last)

    def solve(self, levels: list[Level]) -> None:
        """Set u = M r on the first of the levels, where r is given, by those that follow."""
        level, *coarser = levels
        if level is self._shared:
            self.solve_alone(level)
        elif not coarser:
            level.u.local.fill(0.0)
            self.smooth(level)
        else:
            self.restrict(level, coarser[0])
            self.solve(coarser)
            self.correct(level, coarser[0])

    def solve_alone(self, share: Level) -> None:
        """Set u = M r, by rank 0 for all: r is gathered there, and u is fetched from there, both with their ghosts."""
        whole = self._alone[0]
        whole.r.block(0).copy_from(share.r.local)  # where ghosts of one are cells of another, both bring the same
        self._gathered.add(0)
        if self.team.rank == 0:
            self._gathered.wait(self._ranks)
            self.solve(self._alone)
            for rank in range(self._ranks):
                self._solved.add(rank)
        self._solved.wait()
        share.u.local.copy_from(whole.u.block(0))

    def correct(self, level: Level, coarse: Level) -> None:
        """Set u = Q u_c; r = r - A u; u = u + S r."""
        with self.sections("interp"):
            sweeps.interpolate(level.u.local, coarse.u.local, *level.planes, coarse.plane, level.plane)
        with self.sections("resid"):
            sweeps.new_residual(level.r.local, level.u.local, *level.planes, level.plane)
        self.fill_ghosts(level.r)
        self.smooth(level)

    def improve(self, level: Level, coarse: Level, last: bool) -> None:
        """Set u = u + Q u_c; r = v - A u; u = u + S r; r = v - A u; r_c = P r for the next iteration."""
        with self.sections("interp"):
            sweeps.add_interpolated(level.u.local, coarse.u.local, *level.planes, coarse.plane, level.plane)
        self.residual(level)
        self.smooth(level)
        self.residual(level)
        if not last:
            self.restrict(level, coarse)

    def residual(self, finest: Level) -> None:
        """Set r = v - A u."""
        with self.sections("resid"):
            sweeps.residual(finest.r.local, self.v.local, finest.u.local, *finest.planes, finest.plane)
        self.fill_ghosts(finest.r)

    def smooth(self, level: Level) -> None:
        """Set u = u + S r."""
        with self.sections("psinv"):
            sweeps.smooth(level.u.local, level.r.local, self.problem.smoother, *level.planes, level.plane)
        self.fill_ghosts(level.u)

    def restrict(self, level: Level, coarse: Level) -> None:
        """r_c = P r."""
        k0, k1 = level.planes
        with self.sections("rprj3"):
            sweeps.restrict(coarse.r.local, level.r.local, k0 // 2, k1 // 2, coarse.plane, level.plane)
        self.fill_ghosts(coarse.r)

    def fill_ghosts(self, blocks: Blocks) -> None:
        """Let the neighbours' cells come."""
        with self.sections("comm3"):
            blocks.fill_ghosts()

    def norm(self) -> float:
        """Return the L2 norm of r on the finest level. Collective over team."""
        total = 0.0
        with self.sections("norm2u3"):
            if self.works:
                finest = self.levels[0]
                total = sweeps.sum_of_squares(finest.r.local, *finest.planes, finest.plane)
        with self.sections("rcomm"):
            total = self.team.allreduce(total)
        return math.sqrt(total / self.problem.cells**3)
