"""``gondwana bench hpcg``: our HPCG beside an official program of the user's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana_bench.cli.bench.options import Mpirun, Repeat, Sizes, counts, numbers, official, reporting
from gondwana_bench.panels import Panels
from gondwana_bench.processes import Command


@reporting
def hpcg(
    report: Panels,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The official program, xhpcg of HPCG 3.1 [ours alone].")
    ] = None,
    sizes: Sizes = None,
    ranks: Annotated[str | None, typer.Option("-n", "--ranks", metavar="N,...", help="Ranks [1,2,4].")] = None,
    seconds: Annotated[
        int, typer.Option("--rt", metavar="N", parser=whole(0), help="Seconds of a timed phase; 0: one set.")
    ] = 10,
    repeat: Repeat = 3,
    mpirun: Mpirun = None,
) -> None:
    """Run our HPCG, and an official HPCG 3.1 in turns with it.

    The boxes of a rank are cubes of 16, 32 and 64 points a side, on 1, 2 and 4 ranks.

    Above 1 the ratios say that ours is faster; those of kernels are of seconds an iteration. The exit status is 0 only
    if all runs were valid.
    """
    from gondwana_apps.hpcg import app
    from gondwana_bench import hpcg as bench

    if against is not None and not (against.is_file() and os.access(against, os.X_OK)):
        raise UsageError(f"--against {against}: there is no such program; build HPCG 3.1 and name its xhpcg")
    sides = numbers("--sizes", sizes) or list(bench.SIZES)
    on = list(bench.RANKS) if ranks is None else counts(ranks)
    cases = [(side, count) for side in sides for count in on]
    for side, count in cases:
        app.check([f"--n{axis}={side}" for axis in "xyz"], count)
    if against is None:
        report.note("no official program to compare with: --against names one")

    def start(count: int, words: Sequence[str]) -> Command:
        return official(mpirun, count, [str(Path(against or "").resolve()), *words])

    rows = bench.measure(cases, start if against else None, seconds=seconds, repeat=repeat)
    report.add("rating", bench.RATING, rows, len(cases))
    report.show("time of an iteration", bench.ITERATION, report.panels["rating"])
