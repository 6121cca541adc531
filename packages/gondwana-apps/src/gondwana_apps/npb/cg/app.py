"""`gondwana run npb-cg --class K`: the NAS Parallel Benchmark CG, verified."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

import gondwana as gw
from gondwana.errors import GondwanaError, UsageError
from gondwana_apps.npb.cg import sums
from gondwana_apps.npb.cg.grid import Grid
from gondwana_apps.npb.cg.makea import BYTES_A_NONZERO, BYTES_AN_ELEMENT, make_matrix
from gondwana_apps.npb.cg.partners import CONJG, NCOMM, RCOMM, Partners, Piece, connect
from gondwana_apps.npb.cg.problem import PROBLEMS, CGProblem
from gondwana_apps.npb.cg.solver import UPDATES, solver
from gondwana_apps.npb.common import app as common
from gondwana_apps.npb.common.benchmark import Echo, Outcome
from gondwana_apps.npb.common.clock import Clock
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.vectors import dot

TOLERANCE = 1e-10


class CG:
    """The description of CG for the command line and the report."""

    name = "CG"
    program = "npb-cg"
    sections = ("total", "conjg", "rcomm", "ncomm", "totcomp", "totcomm")
    problems: Mapping[str, CGProblem] = PROBLEMS
    variants = tuple(sums.WAYS)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declare none. Local."""

    def check(self, problem: CGProblem, options: argparse.Namespace, ranks: int | None) -> None:
        """Refuse ranks that would have no column of the matrix. Local."""
        if ranks is not None and ranks > problem.n:
            raise UsageError(
                f"npb-cg: --class {problem.letter} has {problem.n} columns, too few for {ranks} ranks; "
                f"take {problem.n} ranks or less"
            )

    def needs(self, problem: CGProblem, options: argparse.Namespace, ranks: int) -> int:
        """Estimate the bytes of memory in all ranks together. Local."""
        drawn = problem.n * (problem.nonzer + 1) * BYTES_AN_ELEMENT
        return problem.expected_nonzeros() * BYTES_A_NONZERO + ranks * drawn

    def describe(self, problem: CGProblem, options: argparse.Namespace, team: gw.Team) -> list[str]:
        """Return the lines of the official output about the set-up. Local."""
        grid = Grid(problem.n, 0, team.size)
        return [
            f" Size: {problem.n:10d}  (class {problem.letter})",
            f" Iterations:                  {problem.iterations:5d}",
            f" Number of active processes:  {team.size:5d}, {grid.rows} x {grid.columns}",
            f" Number of nonzeroes per row: {problem.nonzer:5d}",
            f" Eigenvalue shift: {problem.shift:12.3e}",
        ]

    def run(
        self, problem: CGProblem, options: argparse.Namespace, team: gw.Team, sections: Sections, echo: Echo
    ) -> Outcome:
        """Make the matrix, iterate once to warm up, then inside the clock. Collective over team."""
        begin, before = time.perf_counter(), gw.compilation()
        grid = Grid(problem.n, team.rank, team.size)
        a, nonzeros = make_matrix(problem, grid.block)
        nonzeros = team.allreduce(nonzeros)
        if problem.nonzeros not in (None, nonzeros):
            raise GondwanaError(f"the matrix of class {problem.letter} has {nonzeros} nonzeros, not {problem.nonzeros}")
        partners = connect(team, grid)
        x, z, r, p, q = (gw.Array.zeros(grid.block[1]) for _ in range(5))
        iterate = solver(options.variant)
        x.fill(1.0)
        iterate(a, x, z, r, p, q, partners)
        compiling = (gw.compilation() - before).seconds
        setup = time.perf_counter() - begin - compiling
        echo(f"\n Initialization time = {setup:15.3f} seconds\n")
        echo("   iteration           ||r||                 zeta")
        zeta = 0.0
        x.fill(1.0)
        partners.seconds.fill(0.0)
        sections.clear()
        with Clock(team) as clock:
            for iteration in range(1, problem.iterations + 1):
                residual, xz = iterate(a, x, z, r, p, q, partners)
                zeta = problem.shift + 1.0 / xz
                echo(f"    {iteration:5d}       {residual:20.14E}{zeta:20.13f}")
        sections.add("conjg", partners.seconds[CONJG] - partners.seconds[RCOMM])
        sections.add("rcomm", partners.seconds[RCOMM])
        sections.add("ncomm", partners.seconds[NCOMM])
        error = abs(zeta - problem.zeta) / problem.zeta
        return Outcome(
            seconds=clock.seconds,
            value=zeta,
            error=error,
            verified=error <= TOLERANCE,
            active=team.size,
            seconds_setup=setup,
            seconds_compile=compiling,
            extra={"grid": [grid.rows, grid.columns], "panels": a.panels},
        )

    def mops(self, problem: CGProblem) -> float:
        """Return the nominal millions of operations in the timed region. Local."""
        return problem.operations()

    def reference(self, problem: CGProblem) -> float:
        """Return the reference of zeta. Local."""
        return problem.zeta

    def lines(self) -> Mapping[str, Sequence[object]]:
        """Return the parts of the timed region, with the default way to add up. Local."""
        return {
            "communication": (sums.vector_with_flags, sums.scalar_with_flags, *sums.ONE_SIDED),
            "computation": (solver, dot, *UPDATES),
            "declarations": (Piece, Partners),
        }


BENCHMARK = CG()


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse arguments that cannot run, before any rank starts. Local.

    Args:
        argv: arguments after `npb-cg` on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    common.check(BENCHMARK, argv, ranks)


def main(argv: list[str]) -> int:
    """Run the benchmark. Collective over the world.

    Args:
        argv: arguments after `npb-cg` on the command line.

    Returns:
        The exit status: 0 if the result is verified, else 1.
    """
    return common.main(BENCHMARK, argv)
