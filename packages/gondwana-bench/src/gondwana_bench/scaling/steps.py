"""Seconds a step of applications on several numbers of ranks, in jobs that take turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gondwana.runtime import cores
from gondwana_apps.pictures import figure, in_unit, legend, plain, save, style
from gondwana_bench import processes
from gondwana_bench.rows import Row, as_csv as rows_as_csv, relative
from gondwana_bench.scaling.applications import Application, Problem

RANKS = "1,2,4"
COLUMNS = {
    "ranks": "ranks", "nodes": "nodes", "node_kind": "they are", "beyond_cores": "beyond cores", "problem": "problem",
    "min": "s a step: fastest rank", "median": "median", "max": "slowest",
    "slowest_over_fastest": "slowest / fastest", "efficiency": "efficiency (95 %)", "verified": "verified",
}  # fmt: skip

_SPREAD = ("min", "median", "max")
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Case:
    """An application on a number of ranks."""

    application: Application
    kind: str
    ranks: int
    problem: Problem
    per_node: int | None = None


@dataclass(frozen=True)
class Run:
    """The results of a job.

    Attributes:
        seconds: a step: minimum, median and maximum over the ranks.
        verified: the application's own verification; None: it has nothing to compare with.
        value: result that must be the same on any number of ranks, or None.
        nodes: number of nodes, and the most ranks of one.
        node_kind: what they are: "one", or several "real" or "pretended" ones.
        first: the same of the first step, which may compile, of an application that has it.
    """

    seconds: Mapping[str, float]
    verified: bool | None
    value: float | None
    nodes: tuple[int, int] = (1, 1)
    node_kind: str = "one"
    first: Mapping[str, float] | None = None


Runs = Mapping[Case, Sequence[Run]]


def measure(cases: Sequence[Case], jobs: int) -> Iterator[tuple[Case, Run]]:
    """Run every case in every round, in an order that rotates. Local: starts jobs one after another.

    Raises:
        UsageError: a job failed.
    """
    for number in range(jobs):
        for position in range(len(cases)):
            case = cases[(number + position) % len(cases)]
            yield case, _run(case)


def rows(kind: str, runs: Runs) -> list[Row]:
    """Return a row for each number of ranks, from the fewest. Local.

    The efficiency is the work for each rank and second of the slowest rank, relative to the fewest ranks, round by
    round. So it is t(1)/(n*t(n)) for the same box, t(1)/t(n) for the same box on each rank.

    Args:
        kind: kind of scaling.
        runs: runs of one application; the first case of a kind that has the fewest ranks is the base.
    """
    cases = sorted((case for case in runs if case.kind == kind), key=lambda case: case.ranks)
    base = cases[0]
    found = []
    for case in cases:
        own = runs[case]
        share = case.problem.cells * base.ranks / (base.problem.cells * case.ranks)
        slowest = [run.seconds["max"] for run in own]
        nodes, of_node = own[0].nodes
        on_host = of_node if own[0].node_kind == "real" else case.ranks
        found.append({
            "app": case.application.name, "kind": kind, "ranks": case.ranks, "nodes": nodes,
            "node_kind": own[0].node_kind, "beyond_cores": on_host > cores.count(), "cores": cores.count(),
            "problem": case.problem.text, "jobs": len(own),
            **_over_jobs("", [run.seconds for run in own]),
            "slowest_over_fastest": statistics.median(run.seconds["max"] / run.seconds["min"] for run in own),
            **_over_jobs("first_seconds_", [run.first for run in own]),
            **relative([share * run.seconds["max"] for run in runs[base]], slowest, "efficiency"),
            "samples": [dict(run.seconds) for run in own],
            "verified": all(run.verified is not False for run in own) and _agree(case, runs),
        })  # fmt: skip
    return found


def _over_jobs(prefix: str, spreads: Sequence[Mapping[str, float] | None]) -> Row:
    """The medians over jobs of the fastest, the median and the slowest rank; None of what was not measured."""
    found = [spread for spread in spreads if spread is not None]
    return {prefix + name: statistics.median(spread[name] for spread in found) if found else None for name in _SPREAD}


def as_csv(found: Sequence[Row]) -> str:
    """Return the seconds of every job as CSV. Local.

    Args:
        found: rows of all applications.
    """
    keys = ["app", "kind", "ranks", "beyond_cores", "problem"]
    lines = (
        [*(row[key] for key in keys), number, *(f"{sample[name]:.9f}" for name in _SPREAD)]
        for row in found
        for number, sample in enumerate(row["samples"])
    )
    return rows_as_csv([*keys, "job", *(f"{name}_s" for name in _SPREAD)], lines)


def draw(found: Sequence[Row], file: str) -> None:
    """Draw a column for each kind of scaling: above seconds a step, below the efficiency. Local.

    Bars go from the fastest to the slowest rank; hollow marks have more ranks than cores.

    Args:
        found: rows of all applications.
        file: the picture, PNG.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    kinds = list(dict.fromkeys(row["kind"] for row in found))
    apps = list(dict.fromkeys(row["app"] for row in found))
    drawn = figure(5.0 * len(kinds), 7.0)
    factor, unit = in_unit(max(row["max"] for row in found))
    for (seconds, efficiency), kind in zip(drawn.subplots(2, len(kinds), squeeze=False).T, kinds, strict=True):
        for number, app in enumerate(apps):
            own = [row for row in found if (row["app"], row["kind"]) == (app, kind)]
            scaled = [{**row, **{key: factor * row[key] for key in _SPREAD}} for row in own]
            if own:
                _series(seconds, scaled, "median", ("min", "max"), number, app)
                _series(efficiency, own, "efficiency", ("efficiency_low", "efficiency_high"), number, app)
        ranks = sorted({row["ranks"] for row in found if row["kind"] == kind})
        for axes in (seconds, efficiency):
            over_ranks(axes, ranks, f"ranks (hollow: more than {found[0]['cores']} cores)")
        seconds.set_title(f"{kind} scaling")
        seconds.set_yscale("log")
        plain(seconds.yaxis)
        seconds.set_ylabel(f"{unit} a step, log axis\nbars: fastest, slowest rank")
        efficiency.axhline(1.0, color="black", linewidth=0.8)
        efficiency.set_ylim(bottom=0.0)
        efficiency.set_ylabel("efficiency (95 %)")
    legend(drawn, [drawn.axes[0].plot([], [], **style(number), label=app)[0] for number, app in enumerate(apps)])
    save(drawn, file, f"--plot {file}")


def over_ranks(axes: Any, ranks: Sequence[int], label: str) -> None:
    """Make numbers of ranks the horizontal axis of a drawing. Local."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, map(str, ranks))
    axes.set_xlabel(label)


def _series(axes: Any, rows: Sequence[Row], key: str, ends: tuple[str, str], number: int, name: str) -> None:
    ranks, own = [row["ranks"] for row in rows], style(number)
    color, marker = own["color"], own.pop("marker")
    axes.plot(ranks, [row[key] for row in rows], **own, linewidth=1, label=name)
    for row in rows:
        face = "white" if row["beyond_cores"] else color
        low, high = (max(0.0, sign * (row[end] - row[key])) for sign, end in zip((-1, 1), ends, strict=True))
        axes.errorbar(
            row["ranks"], row[key], [[low], [high]], fmt=marker, color=color, markerfacecolor=face, markersize=5,
            capsize=3,
        )  # fmt: skip


def _agree(case: Case, runs: Runs) -> bool:
    """Whether all jobs with the same problem, on any number of ranks, had the same value."""
    value = runs[case][0].value
    same = [run.value for other in runs if other.problem.words == case.problem.words for run in runs[other]]
    if value is None:
        return True
    return all(other is not None and math.isclose(other, value, rel_tol=_TOLERANCE) for other in same)


def _run(case: Case) -> Run:
    places = processes.nodes_for(case.ranks, case.per_node)
    with processes.shared_folder() as folder:
        argv = processes.our_command(case.ranks, *places.options(), *case.problem.words, "--json", "result.json")
        what = f"{case.application.name} on {case.ranks} ranks"
        result = processes.result(what, argv, Path(folder) / "result.json", places.environment(), folder)
    key = case.application.value
    _, of_node, nodes = map(int, result["environment"]["placement"]["pattern"].split("x"))
    value = None if key is None else result[key]
    seconds, verified = result["step_seconds_over_ranks"], result["verified"]
    first = result.get("first_step_seconds_over_ranks")
    return Run(seconds, verified, value, (nodes, of_node), places.kind(nodes), first)
