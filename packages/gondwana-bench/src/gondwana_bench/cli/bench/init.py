"""``gondwana bench init``: threads initialise an array, beside C and NumPy."""

from __future__ import annotations

from typing import Annotated

import typer

from gondwana.cli import launch
from gondwana_bench.cli.bench.options import Batch, Repeat, numbers, reporting
from gondwana_bench.panels import Panels


@reporting
def init(
    report: Panels,
    sizes: Annotated[str | None, typer.Option(metavar="N,N,...", help="Bytes of the array [50000000].")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="T,T,...", help="How many [1, 2, 4, ... and all cores].")
    ] = None,
    repeat: Repeat = 100,
    batch: Batch = 0.001,
) -> None:
    """Initialise an array of doubles by threads, beside OpenMP and threads in C, and NumPy.

    In memory that was touched before, then in fresh memory, whose pages the system provides meanwhile: usual ones, then
    huge ones. The exit status is 0 only if every element was set. Above 1 the ratio says that the variant is faster
    than OpenMP.
    """
    from gondwana_bench import build
    from gondwana_bench import initialisation as bench

    build.command()
    nbytes = numbers("--sizes", sizes) or [bench.NBYTES]
    counts = numbers("--threads", threads) or bench.thread_counts(launch.cores())
    bench.check(nbytes, counts)
    rows = bench.measure(nbytes, counts, repeat=repeat, batch_seconds=batch)
    report.add("init", bench.COLUMNS, rows, bench.total(nbytes, counts))
