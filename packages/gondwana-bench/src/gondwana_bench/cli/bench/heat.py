"""``gondwana bench heat``: how fast and how regular time steps are, one-sided and two-sided."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana_bench.cli.bench import options
from gondwana_bench.panels import Panels
from gondwana_bench.rows import Row

if TYPE_CHECKING:
    from gondwana_bench.heat.regularity import Job


@options.reporting
def heat(
    report: Panels,
    sizes: options.Sizes = None,
    ranks: options.Ranks = 2,
    steps: Annotated[int, typer.Option(metavar="N", parser=whole(10), help="Steps of a job that count.")] = 1000,
    jobs: Annotated[int, typer.Option(metavar="N", parser=whole(1), help="Jobs for each size.")] = 5,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw histograms, as PNG.")] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the seconds of every step on every rank.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="PROGRAM", help="The Kokkos tutorial's program: compare with it instead.")
    ] = None,
    repeat: options.Repeat = 5,
    mpirun: options.Mpirun = None,
) -> None:
    """Time steps of heat conduction on cubes of 16 and 100 cells a side of each rank, beside C with two-sided MPI.

    Each job runs all variants; C and the loops beside it have the same compiled sweep. The ratios have intervals; if 1
    is in one, that is a tie. The exit status is 0 only if all variants had the same temperatures.

    With --against, cubes of 20, 100 and 200 cells a side in all, in turns with a user's program.
    """
    for option, path in (("--plot", plot), ("--csv", table)):
        if path is not None and against is not None:
            raise UsageError(f"{option} {path}: --against has no record of steps; leave one of them out")
    if against is None:
        _variants(report, options.numbers("--sizes", sizes), ranks, steps, jobs, plot, table)
    else:
        _beside(report, options.numbers("--sizes", sizes), ranks, against, repeat, mpirun)


def _variants(
    report: Panels, sizes: list[int], ranks: int, steps: int, jobs: int, plot: Path | None, table: Path | None
) -> None:
    """Run the variants, and show and record their panels."""
    from gondwana_bench import build
    from gondwana_bench.heat import regularity as bench

    edges = sizes or list(bench.SIZES)
    bench.check(edges, ranks, steps)
    build.command()
    command = options.job(ranks, "heat.job")
    measured: dict[int, list[Job]] = {}
    for size in edges:
        runs = (bench.run(size, command, steps, number) for number in range(jobs))
        measured[size] = report.run(runs, jobs, f"{size}^3")
        report.put(f"{size}^3 cells a rank", bench.COLUMNS, bench.rows(size, ranks, measured[size]))
        report.write()
    options.write_besides(bench, measured, plot, table)


def _beside(report: Panels, sizes: list[int], ranks: int, program: Path, repeat: int, mpirun: str | None) -> None:
    """Run a user's program and ours in turns."""
    from gondwana_bench.heat import against
    from gondwana_bench.processes import Command, our_command

    if not program.is_file():
        raise UsageError(f"--against {program}: there is no such file; name the executable of the original")

    def rows() -> Iterator[Row]:
        for edge in sizes or against.EDGES:
            words = against.options_of(edge)
            ours = Command(our_command(ranks, "heat", *words), os.environ)
            theirs = options.official(mpirun, ranks, [str(program.resolve()), *words])
            yield from against.measure(edge, ranks, ours, theirs, repeat)

    report.add("against", against.COLUMNS, rows(), len(sizes or against.EDGES))
