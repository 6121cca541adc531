"""``gondwana bench clustering``: davs and pwc over threads, ranks and nodes, beside scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gondwana.cli import launch
from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana_bench.cli.bench.options import Repeat, chosen, reporting
from gondwana_bench.panels import Panels
from gondwana_bench.processes import shared_folder

if TYPE_CHECKING:
    from gondwana_bench.clustering.cases import Case
    from gondwana_bench.clustering.speedup import Pattern


@reporting
def clustering(
    report: Panels,
    app: Annotated[str | None, typer.Option(metavar="NAME,...", help="Of davs, pwc [both].")] = None,
    preset: Annotated[str | None, typer.Option(metavar="NAME", help="The points of davs [charge6].")] = None,
    points: Annotated[
        int | None, typer.Option(metavar="N", parser=whole(200, 10**5), help="The points of pwc [1000].")
    ] = None,
    patterns: Annotated[
        str | None,
        typer.Option(
            metavar="TxPxN,...", help="Threads of a rank x ranks of a node x nodes [1x1x1,2x1x1,1x2x1,1x1x2]."
        ),
    ] = None,
    repeat: Repeat = 3,
) -> None:
    """Cluster the same data on threads, ranks and nodes, and by scikit-learn (DBSCAN, average linkage, KMeans).

    Nodes are those of the launcher (a list of hosts, an allocation); where it has too few, ranks of this host pretend
    to be on several, and the table says which. The folder of the data is below the current one then, which all nodes
    must see. The exit status is 0 only if all patterns gave the same labels, and the
    applications verified them.
    """
    from gondwana_bench.clustering import cases, speedup as bench

    apps = _apps(app, preset, points)
    wanted = bench.parse(patterns or bench.PATTERNS)
    for pattern in wanted:
        _check_start(pattern)
    if "davs" in apps:
        _check_davs(preset or cases.PRESET, max(pattern.ranks for pattern in wanted))
    if "pwc" in apps:
        cases.check_memory(points or cases.POINTS)
    if not cases.has_rivals():
        report.note("left out scikit-learn: the package is not installed")
    for name in apps:
        with shared_folder() as folder:
            place = Path(folder)
            case = cases.davs(preset or cases.PRESET) if name == "davs" else cases.pwc(points or cases.POINTS, place)
            _compare(report, case, wanted, place, repeat)


def _apps(app: str | None, preset: str | None, points: int | None) -> list[str]:
    """Return the applications to run.

    Raises:
        UsageError: an unknown name, or an option for an application that is not run.
    """
    from gondwana_bench.clustering.cases import APPS

    apps = chosen("--app", app, APPS)
    for option, given, owner in (("--preset", preset, "davs"), ("--points", points, "pwc")):
        if given is not None and owner not in apps:
            raise UsageError(f"{option} {given}: only {owner} has this; leave the option out, or add {owner} to --app")
    return apps


def _check_start(pattern: Pattern) -> None:
    """Refuse runs that this machine cannot start."""
    try:
        launch.command(pattern.ranks, [], threads=pattern.threads)
    except UsageError as error:
        raise UsageError(f"--patterns {pattern}: {error}") from None


def _check_davs(preset: str, ranks: int) -> None:
    from gondwana_apps.davs import app
    from gondwana_apps.davs.presets import PRESETS

    if preset not in PRESETS:
        raise UsageError(f"--preset {preset}: legal are {', '.join(PRESETS)}")
    app.check(["--preset", preset], ranks)


def _compare(report: Panels, case: Case, patterns: list[Pattern], folder: Path, repeat: int) -> None:
    """Run a case, and show and record its panels."""
    from gondwana_bench.clustering import speedup as bench

    print(f"{case.app}: {case.title}", flush=True)
    runs: dict[str, list[bench.Run]] = {}
    measured = bench.measure(case, patterns, folder, repeat)
    for name, run in report.run(measured, bench.total(case, patterns, repeat), case.app):
        runs.setdefault(name, []).append(run)
    rows = bench.scaling(case, patterns, runs)
    panels = {"speed-up": (bench.scaling_columns(case), rows)}
    for panel, key in bench.MEANS.items():
        panels[panel] = bench.averages_columns(case, key), bench.averages(case, rows, key)
    panels["beside scikit-learn"] = bench.QUALITY, bench.quality(case, rows, runs)
    for panel, (columns, shown) in panels.items():
        report.put(f"{case.app}, {panel}", columns, shown)
    report.write()
