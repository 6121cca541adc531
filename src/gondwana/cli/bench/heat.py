"""``gondwana bench heat``: how fast and how regular time steps are, one-sided and two-sided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gondwana.cli import launch
from gondwana.cli.bench.options import File, Ranks, Sizes, check_common, numbers
from gondwana.cli.numbers import whole
from gondwana.results import check_writable, write_text

if TYPE_CHECKING:
    from gondwana.bench.heat.benchmark import Job


def heat(
    sizes: Sizes = None,
    ranks: Ranks = 2,
    steps: Annotated[int, typer.Option(metavar="N", parser=whole(10), help="Steps of a job that count.")] = 1000,
    jobs: Annotated[int, typer.Option(metavar="N", parser=whole(1), help="Jobs for each size.")] = 5,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw histograms, as PNG.")] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the seconds of every step on every rank.")
    ] = None,
    file: File = None,
) -> None:
    """Time steps of heat conduction on cubes of 16 and 100 cells a side of each rank, beside C with two-sided MPI.

    Each job runs all variants; C and the loops beside it have the same compiled sweep. The ratios have intervals; if 1
    is in one, that is a tie. The exit status is 0 only if all variants had the same temperatures.
    """
    from gondwana.bench import build
    from gondwana.bench.heat import benchmark as bench
    from gondwana.bench.panels import Panels
    from gondwana.bench.progress import with_progress

    check_common(0.02, file)
    for option, path in (("--plot", plot), ("--csv", table)):
        if path is not None:
            check_writable(path, f"{option} {path}")
    edges = numbers("--sizes", sizes) or list(bench.SIZES)
    bench.check(edges, ranks, steps)
    build.command()
    launch.command(ranks, [], threads=1)
    report = Panels("heat", file)
    measured: dict[int, list[Job]] = {}
    for size in edges:

        def runs(size: int = size) -> Iterator[Job]:
            for number in range(jobs):
                yield bench.run(size, ranks, steps, number)

        measured[size] = list(with_progress(runs(), jobs, f"{size}^3"))
        report.add(
            f"{size}^3 cells a rank", bench.COLUMNS, bench.rows(size, ranks, measured[size]), len(bench.VARIANTS)
        )
    if table is not None:
        write_text(table, bench.as_csv(measured), f"--csv {table}")
    if plot is not None:
        bench.draw(measured, str(plot))
    report.complete = True
    report.write()
    if not report.verified:
        raise typer.Exit(1)
