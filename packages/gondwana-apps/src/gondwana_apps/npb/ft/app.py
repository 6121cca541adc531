"""`gondwana run npb-ft`: the benchmark FT, verified."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

import gondwana as gw
from gondwana.fft import fftw
from gondwana_apps.npb.common import app as common
from gondwana_apps.npb.common.benchmark import Echo, Outcome
from gondwana_apps.npb.common.clock import Clock
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.ft import blocks, kernels, solver, transform, transposes
from gondwana_apps.npb.ft.layout import NAMES, Layout, choose
from gondwana_apps.npb.ft.problem import PROBLEMS, Problem


class FT:
    """The description of FT for the command line and the report."""

    name = "FT"
    program = "npb-ft"
    sections = ("setup", "fft", "evolve", "checksum", "fftlow", "transpose1_glo", "transpose2_glo")
    problems: Mapping[str, Problem] = PROBLEMS
    variants = tuple(transform.VARIANTS)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declare options that only this benchmark has. Local."""
        parser.add_argument(
            "--layout", choices=NAMES, help="slabs (1D) or pencils (2D) [1D if there are planes enough]"
        )
        parser.add_argument("--grid", metavar="NP1xNP2", help="ranks along both axes that are divided [chosen]")

    def check(self, problem: Problem, options: argparse.Namespace, ranks: int | None) -> None:
        """Raise UsageError for options that cannot run. Local."""
        fftw.require()
        if ranks is not None:
            _layout(problem, options, ranks)

    def needs(self, problem: Problem, options: argparse.Namespace, ranks: int) -> int:
        """Estimate the bytes of memory in all ranks together. Local."""
        stages = 2 if _layout(problem, options, ranks).np1 == 1 else 3
        buffers = stages if options.variant == "alltoall" else 0
        return 16 * problem.points * (stages + buffers) + ranks * 100 * 2**20

    def describe(self, problem: Problem, options: argparse.Namespace, team: gw.Team) -> list[str]:
        """Return the lines of the official output about the set-up. Local."""
        layout = _layout(problem, options, team.size)
        slow = options.variant == "pencils" and team.node_count > 1
        return [
            f" Size                : {problem.nx:4d}x{problem.ny:4d}x{problem.nz:4d}",
            f" Iterations          : {problem.iterations:14d}",
            f" Number of processes : {team.size:14d}",
            f" Processor array     : {layout.np1:9d}x{layout.np2:4d}",
            f" Layout type         : {layout.name:>14}",
            *([" Between nodes each put of pencils is waited for: --variant slabs is faster there"] if slow else []),
        ]

    def run(
        self, problem: Problem, options: argparse.Namespace, team: gw.Team, sections: Sections, echo: Echo
    ) -> Outcome:
        """Warm up, compute inside the clock, compare. Collective over team; `echo` prints on rank 0 only."""
        before, start = gw.compilation(), time.perf_counter()
        layout = _layout(problem, options, team.size)
        stages = blocks.stages(problem, layout, team)
        solving = solver.Solver(problem, stages, options.variant, sections)
        solving.warm_up()
        sections.clear()
        setup = time.perf_counter() - start
        compiled = (gw.compilation() - before).seconds
        echo(f" Initialization time :{setup:15.3f} seconds\n")
        with Clock(team) as clock:
            checksums = solving.solve(echo)
            error = problem.error(checksums)
        official = team.size & (team.size - 1) == 0
        right = problem.verified(error)
        return Outcome(
            seconds=clock.seconds,
            value=[[c.real, c.imag] for c in checksums],
            error=error,
            verified=right and official,
            reason=None if official or not right else _unofficial(team.size),
            active=team.size,
            seconds_setup=setup - compiled,
            seconds_compile=compiled,
            extra={"layout": layout.name, "grid": [layout.np1, layout.np2], "fftw": fftw.version()},
        )

    def mops(self, problem: Problem) -> float:
        """Return the nominal millions of operations in the timed region (NPB 3.4). Local."""
        return problem.mop

    def reference(self, problem: Problem) -> list[list[float]] | None:
        """Return the reference of the value. Local."""
        return None if problem.reference is None else [[c.real, c.imag] for c in problem.reference]

    def lines(self) -> Mapping[str, Sequence[object]]:
        """Return the timed region of the default variant by the purpose of its lines. Local."""
        pencils = transposes.Pencils
        return {
            "communication": (kernels.put_row, pencils.finish),
            "computation": (*kernels.TRANSFORMS, transform.Transform, transform.ones, solver.Solver, pencils),
            "declarations": (blocks.Blocks, kernels.Factors, kernels.Lines, kernels.Part, pencils._prepare),
        }


def _layout(problem: Problem, options: argparse.Namespace, ranks: int) -> Layout:
    return choose(problem, ranks, options.layout, options.grid)


def _unofficial(ranks: int) -> str:
    return f"The checksums are right, but officially FT runs on 1, 2, 4, 8, ... ranks only, not on {ranks}"


BENCHMARK = FT()


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse arguments that cannot run, before any rank starts. Local.

    Args:
        argv: arguments after `npb-ft` on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    common.check(BENCHMARK, argv, ranks)


def main(argv: list[str]) -> int:
    """Run FT. Collective over the world.

    Args:
        argv: arguments after `npb-ft` on the command line.

    Returns:
        The exit status: 0 if the result is verified or there is nothing to compare with, else 1.
    """
    return common.main(BENCHMARK, argv)
