"""``gondwana bench scaling``: seconds a step of the applications on several numbers of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gondwana.cli.numbers import whole
from gondwana.cli.programs import program
from gondwana.errors import UsageError
from gondwana_bench.cli.bench.options import PerNode, chosen, rank_counts, reporting, write_besides
from gondwana_bench.panels import Panels
from gondwana_bench.processes import nodes_for, shared_folder

if TYPE_CHECKING:
    from gondwana_bench.scaling.applications import Application
    from gondwana_bench.scaling.steps import Case, Run


@reporting
def scaling(
    report: Panels,
    apps: Annotated[
        list[str] | None, typer.Argument(metavar="[APP]...", help="Of heat, gray-scott, npb-cg|mg|ft, hpcg [all].")
    ] = None,
    ranks: Annotated[str | None, typer.Option("-n", "--ranks", metavar="N,N,...", help="Numbers [1,2,4].")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND,...", help="Of strong, weak [both].")] = None,
    size: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=whole(4, 10**5), help="Cells a side of the cube: of all ranks (strong), of each (weak)."
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", parser=whole(1), help="Steps of heat and gray-scott that count.")
    ] = None,
    letter: Annotated[
        str | None, typer.Option("--class", metavar="K", help="Size of the npb-*, of S to D [W].")
    ] = None,
    ranks_per_node: PerNode = None,
    jobs: Annotated[int, typer.Option(metavar="N", parser=whole(1), help="Jobs of each case.")] = 3,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw seconds and efficiency, as PNG.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the seconds of every job.")] = None,
) -> None:
    """Time steps of applications on several numbers of ranks: the same box (strong), the same box a rank (weak).

    Each figure is of the fastest, the median and the slowest rank, in jobs that take turns. With --ranks-per-node the
    nodes are those of the launcher; where it has too few, ranks pretend to be on several, and the table says which. The
    exit status is 0 only if the applications verified their results, and these were the same on all numbers of ranks.
    """
    from gondwana_bench.scaling import steps as bench

    chosen = _applications(apps, kind, (size, steps, letter))
    wanted = rank_counts(ranks or bench.RANKS)
    for number in wanted:
        nodes_for(number, ranks_per_node)
    with shared_folder() as folder:
        cases = [_cases(*pair, wanted, (size, steps, letter), Path(folder), ranks_per_node) for pair in chosen]
        for (application, kinds), own in zip(chosen, cases, strict=True):
            runs: dict[Case, list[Run]] = {}
            for case, run in report.run(bench.measure(own, jobs), jobs * len(own), application.name):
                runs.setdefault(case, []).append(run)
            for of_kind in kinds:
                report.put(f"{application.name}, {of_kind}", bench.COLUMNS, bench.rows(of_kind, runs))
            report.write()
    found = [row for rows in report.panels.values() for row in rows]
    write_besides(bench, found, plot, table)


_Given = tuple[int | None, int | None, str | None]
"""Values of --size, --steps and --class."""


def _applications(apps: list[str] | None, kind: str | None, given: _Given) -> list[tuple[Application, list[str]]]:
    """Return the applications to run, with the kinds of scaling of each.

    Raises:
        UsageError: an unknown name, or an option for an application that is not run.
    """
    from gondwana_bench.scaling.applications import APPLICATIONS, CLASSES, KINDS

    wanted = list(dict.fromkeys(apps or APPLICATIONS))
    for name in wanted:
        if name not in APPLICATIONS:
            raise UsageError(f"bench scaling {name}: legal are {', '.join(APPLICATIONS)}")
    kinds = chosen("--kind", kind, KINDS)
    size, steps, letter = given
    if letter is not None and (len(letter) != 1 or letter not in CLASSES):
        raise UsageError(f"--class {letter}: legal are {', '.join(CLASSES)}")
    of = [APPLICATIONS[name] for name in wanted]
    for option, value, used in (
        ("--size", size, any(application.edges for application in of)),
        ("--steps", steps, any(application.steps for application in of)),
        ("--class", letter, any(application.edges is None for application in of)),
    ):
        if value is not None and not used:
            raise UsageError(f"{option} {value}: {', '.join(wanted)} has no such option; leave it out")
    found = [(application, [name for name in kinds if name in application.kinds]) for application in of]
    without = [application.name for application, own in found if not own]
    if apps and without:
        raise UsageError(f"--kind {kind}: {', '.join(without)} has strong scaling only; give --kind strong")
    return [(application, own) for application, own in found if own]


def _cases(
    application: Application, kinds: list[str], ranks: list[int], given: _Given, folder: Path, per_node: int | None
) -> list[Case]:
    """Return the cases of an application; refuse those that it would refuse."""
    from gondwana_bench.scaling.applications import Size
    from gondwana_bench.scaling.steps import Case

    size, steps, letter = given
    found = []
    for kind in kinds:
        edge = size or (application.edges or (0, 0))[application.kinds.index(kind)]
        for number in ranks:
            chosen = Size(edge, steps or application.steps, letter or "W", folder)
            problem = application.problem(kind, chosen, number)
            program(application.name).check(list(problem.words[1:]), number)
            found.append(Case(application, kind, number, problem, per_node))
    return found
