"""`gondwana run npb-mg`: the benchmark MG, verified."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.npb.common import app as common
from gondwana_apps.npb.common.benchmark import Echo, Outcome
from gondwana_apps.npb.common.clock import Clock
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.mg import blocks, kernels, multigrid, pipelined, sweeps
from gondwana_apps.npb.mg.division import Plan
from gondwana_apps.npb.mg.problem import PROBLEMS, MGProblem
from gondwana_apps.options import whole

SIDE = 4
"""Cells along each side of a block below which a level is solved by one rank."""


class MG:
    """The description of MG for the command line and the report."""

    name = "MG"
    program = "npb-mg"
    sections = ("init", "psinv", "resid", "rprj3", "interp", "norm2u3", "comm3", "rcomm")
    problems: Mapping[str, MGProblem] = PROBLEMS
    variants = blocks.VARIANTS

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declare options that only this benchmark has. Local."""
        parser.add_argument(
            "--side",
            type=whole,
            default=SIDE,
            metavar="CELLS",
            help=f"levels whose blocks would have fewer cells along a side are solved by one rank [{SIDE}]",
        )

    def check(self, problem: MGProblem, options: argparse.Namespace, ranks: int | None) -> None:
        """Raise UsageError for options that cannot run. Local."""
        if not 2 <= options.side <= problem.cells:
            raise UsageError(
                f"npb-mg: --side {options.side}: legal are 2 to {problem.cells}, the cells along a side of class "
                f"{problem.letter}"
            )

    def needs(self, problem: MGProblem, options: argparse.Namespace, ranks: int) -> int:
        """Estimate the bytes of memory in all ranks together. Local."""
        plan = Plan.of(problem.levels, ranks, options.side)
        finest = math.prod(problem.cells + 2 * parts for parts in plan.grid)
        return int(8 * finest * (1 + 2 * 8 / 7)) + ranks * 80 * 2**20

    def describe(self, problem: MGProblem, options: argparse.Namespace, team: gw.Team) -> list[str]:
        """Return the lines of the official output about the set-up. Local."""
        plan = Plan.of(problem.levels, team.size, options.side)
        lines = [
            f" Size: {problem.cells:4d}x{problem.cells:4d}x{problem.cells:4d}  (class {problem.letter})",
            f" Iterations: {problem.iterations:4d}",
            f" Number of processes: {team.size:6d}",
        ]
        if plan.ranks < team.size:
            lines.append(f" {team.size - plan.ranks} processes have no work: blocks would be too small")
        return lines

    def run(
        self, problem: MGProblem, options: argparse.Namespace, team: gw.Team, sections: Sections, echo: Echo
    ) -> Outcome:
        """Warm up, compute inside the clock, compare. Collective over team; `echo` prints on rank 0 only."""
        before, start = gw.compilation(), time.perf_counter()
        plan = Plan.of(problem.levels, team.size, options.side)
        pipelines = plan.grid[1:] == (1, 1) and not sections.enabled
        kind = pipelined.Pipelined if pipelines else multigrid.Multigrid
        solver = kind(problem, team, plan, options.variant, sections)
        solver.start()
        _solve(solver, 2, lambda _: None)
        solver.start()
        sections.clear()
        setup = time.perf_counter() - start
        compiled = (gw.compilation() - before).seconds
        echo(f" Initialization time: {setup:15.3f} seconds")
        with Clock(team) as clock:
            norm = _solve(solver, problem.iterations, echo)
        sections.add("init", setup)
        return Outcome(
            seconds=clock.seconds,
            value=norm,
            error=problem.error(norm),
            verified=problem.verified(norm),
            active=plan.ranks,
            seconds_setup=setup - compiled,
            seconds_compile=compiled,
            extra={"grid": list(plan.grid), "coarsest_divided": plan.coarsest, "pipelined": pipelines},
        )

    def mops(self, problem: MGProblem) -> float:
        """Return the nominal millions of operations in the timed region (NPB 3.4). Local."""
        return 58e-6 * problem.iterations * problem.cells**3

    def reference(self, problem: MGProblem) -> float | None:
        """Return the reference of the value. Local."""
        return problem.norm

    def lines(self) -> Mapping[str, Sequence[object]]:
        """Return functions and classes of the timed region by the purpose of their lines. Local."""
        cycle = multigrid.Multigrid
        return {
            "communication": (blocks.Blocks, cycle.solve_alone, cycle.fill_ghosts),
            "computation": (*kernels.OPERATORS, *sweeps.SWEEPS, cycle, pipelined.Pipelined, pipelined.ends, _solve),
            "declarations": (kernels.Smoother, kernels.Block, multigrid.Level, cycle.__init__),
        }


def _solve(solver: multigrid.Multigrid, iterations: int, echo: Echo) -> float:
    """The timed region: return the norm of the last residual. Collective."""
    if solver.works:
        solver.first_residual()
    solver.norm()
    for iteration in range(1, iterations + 1):
        if iteration == 1 or iteration % 5 == 0 or iteration == iterations:
            echo(f"  iter {iteration:3d}")
        if solver.works:
            solver.iterate()
    return solver.norm()


BENCHMARK = MG()


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse arguments that cannot run, before any rank starts. Local. Arguments and errors as for all benchmarks."""
    common.check(BENCHMARK, argv, ranks)


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status. Collective over the world."""
    return common.main(BENCHMARK, argv)
