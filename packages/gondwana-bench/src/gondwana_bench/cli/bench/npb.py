"""``gondwana bench npb``: our NAS benchmarks beside official programs of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gondwana.cli.programs import program as application
from gondwana.errors import UsageError
from gondwana_bench.cli.bench.options import Mpirun, Repeat, counts, names, official, reporting
from gondwana_bench.panels import Panels
from gondwana_bench.rows import check_names

if TYPE_CHECKING:
    from gondwana_bench.npb.comparison import Case
    from gondwana_bench.npb.jobs import Job

DEFAULT_CLASSES = "SWA"
"""Classes that are run by default; larger ones must be named."""


@reporting
def npb(
    report: Panels,
    against: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Official programs: mg.A.x, ft.A.x, cg.A.x, ... [ours alone].")
    ] = None,
    benchmarks: Annotated[str | None, typer.Option(metavar="NAME,...", help="Of mg, ft, cg [all].")] = None,
    classes: Annotated[
        str | None, typer.Option(metavar="K,...", help="Such as A,B [those of S, W, A that are there, else all].")
    ] = None,
    ranks: Annotated[str, typer.Option("-n", "--ranks", metavar="N,...", help="Numbers of ranks.")] = "1,2",
    variants: Annotated[bool, typer.Option("--variants", help="All of them, not the default only.")] = False,
    repeat: Repeat = 5,
    mpirun: Mpirun = None,
) -> None:
    """Run our NAS benchmarks, and the official ones in turns with them, on the same ranks, one thread a rank.

    The table has the ratio of our time to theirs, so below 1 ours is faster; the exit status is 0 only if all results
    were verified.
    """
    from gondwana_bench.npb import comparison as bench
    from gondwana_bench.npb.binaries import BENCHMARKS, find

    wanted = names(benchmarks) or list(BENCHMARKS)
    check_names("--benchmarks", wanted, BENCHMARKS)
    on = sorted(set(counts(ranks)))
    letters = names(classes) or list(DEFAULT_CLASSES)
    programs: Mapping[tuple[str, str], Path | None]
    if against is None:
        programs = dict.fromkeys((name, letter) for name in wanted for letter in letters)
        report.note("no official programs to compare with: --against names a folder of them")
    else:
        programs = find(against, wanted, letters, all_=classes is not None)
    cases = [
        _case(report, name, letter, count, path, every=variants)
        for (name, letter), path in programs.items()
        for count in on
    ]
    rows = bench.measure(cases, lambda *what: _official(mpirun, *what), repeat)
    report.add("time", bench.TIME, rows, sum(len(case.variants) for case in cases))
    measured = report.panels["time"]
    for panel, columns, shown in (
        ("communication", bench.COMMUNICATION, bench.communication(measured)),
        ("scaling", bench.SCALING, bench.scaling(measured)),
    ):
        if shown:
            report.put(panel, columns, shown)


def _case(report: Panels, name: str, letter: str, ranks: int, program: Path | None, *, every: bool) -> Case:
    """Return the variants that run on a number of ranks; those other than the default that cannot are left out."""
    from gondwana_bench.npb.comparison import Case

    app = application(f"npb-{name}")
    kept = []
    for variant in app.BENCHMARK.variants if every else app.BENCHMARK.variants[:1]:
        try:
            app.check(["--class", letter, "--variant", variant], ranks)
            kept.append(variant)
        except UsageError as error:
            if variant == app.BENCHMARK.variants[0]:
                raise
            report.note(f"left out {name} {letter} {variant} on {ranks} ranks: {error}")
    return Case(name, letter, ranks, tuple(kept), program)


def _official(mpirun: str | None, ranks: int, program: Path, variables: Mapping[str, str]) -> Job:
    from gondwana_bench.npb.jobs import Job

    argv, environment = official(mpirun, ranks, [str(program)], variables)
    return Job(argv, environment, lambda words: str(program) in words[:2])
