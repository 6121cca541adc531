"""``gondwana bench io``: bandwidth of writing and reading, beside plain ADIOS2."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gondwana.cli.numbers import whole
from gondwana_bench.cli.bench.options import job, rank_counts, reporting, write_besides
from gondwana_bench.panels import Panels


@reporting
def io(
    report: Panels,
    ranks: Annotated[str | None, typer.Option("-n", "--ranks", metavar="N,N,...", help="Numbers [1,2,4].")] = None,
    size: Annotated[
        int, typer.Option(metavar="N", parser=whole(8, 4096), help="Cells a side of the cube of each rank.")
    ] = 128,
    steps: Annotated[int, typer.Option(metavar="N", parser=whole(1, 1000), help="Steps of a dataset.")] = 4,
    jobs: Annotated[int, typer.Option(metavar="N", parser=whole(1), help="Jobs on each number of ranks.")] = 5,
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where datasets are written, for a while.")] = Path(),
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw seconds and bandwidth, as PNG.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the seconds of every job.")] = None,
) -> None:
    """Write and read a cube of each rank: all in one dataset, and with plain ADIOS2 a dataset of each rank.

    Writing is timed until the files are closed, and until they are on the disk as well (fsync); what the system has in
    memory of them is forgotten before they are read. The exit status is 0 only if all was read as it was written.
    """
    from gondwana.io import adios
    from gondwana_bench.io import bandwidth as bench

    version = adios.version()
    wanted = rank_counts(ranks or bench.RANKS)
    bench.check(size, steps, max(wanted), folder)
    report.note(f"adios2 {version}")
    commands = {number: job(number, "io.job") for number in wanted}
    measured = report.run(bench.measure(commands, size, steps, folder.resolve(), jobs), jobs * len(commands), "io")
    rows = bench.rows(measured)
    report.put(f"{steps} steps of {size}^3 cells a rank", bench.COLUMNS, rows)
    write_besides(bench, rows, plot, table)
