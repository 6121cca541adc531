"""``gondwana bench pools``: our pools of workers beside those of the standard library, mpi4py and Dask."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from gondwana.cli.numbers import whole
from gondwana_bench.cli.bench.options import Cases, Repeat, case_names, official, reporting
from gondwana_bench.panels import Panels


@reporting
def pools(
    report: Panels,
    cases: Cases = None,
    tasks: Annotated[
        int, typer.Option(metavar="N", parser=whole(1, 10**8), help="Null tasks of a map in batches; others are fewer.")
    ] = 100_000,
    repeat: Repeat = 5,
) -> None:
    """Submit tasks to pools of workers, beside ProcessPoolExecutor, multiprocessing, mpi4py's, and Dask if installed.

    Each pool runs in a program of its own; ours both starts processes and works in a job of ranks.
    """
    from gondwana_bench.pools import uses as bench

    kept = case_names(cases)
    bench.check(kept)
    rows = bench.measure(partial(official, None), report.note, cases=kept, tasks=tasks, repeat=repeat)
    report.add("pools", bench.COLUMNS, rows, bench.total(kept))
