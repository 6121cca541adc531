"""A benchmark as an application: its `check` and `main`."""

from __future__ import annotations

import argparse
import math
import resource
import sys
from dataclasses import replace
from typing import Any, TypeVar

import gondwana as gw
from gondwana.results import count_lines, write_application
from gondwana_apps.npb.common import report, sections
from gondwana_apps.npb.common.benchmark import Benchmark, Outcome, Problem
from gondwana_apps.npb.common.command_line import check as check, parse
from gondwana_apps.timers import over_ranks

P = TypeVar("P", bound=Problem)


def main(benchmark: Benchmark[P], argv: list[str]) -> int:
    """Run a benchmark, print the official output and write the result. Collective over the world.

    Args:
        benchmark: benchmark to run.
        argv: arguments after its name on the command line.

    Returns:
        The exit status: 0 if the result is verified or there is nothing to compare with, else 1.
    """
    options, team = parse(benchmark, argv), gw.world
    problem = benchmark.problems[options.letter]
    timers = sections.Sections(team, benchmark.sections, team.bcast(sections.wanted()))

    def echo(line: str) -> None:
        if team.rank == 0:
            print(line, flush=True)

    echo(report.banner(benchmark.name))
    for line in benchmark.describe(problem, options, team):
        echo(line)
    outcome = _finite_or_failed(benchmark.run(problem, options, team, timers, echo))
    result = _result(benchmark, problem, options, team, outcome)
    spreads = timers.spreads(outcome.seconds) if timers.enabled else {}
    if team.rank == 0:
        result["sections"] = {name: spread._asdict() for name, spread in spreads.items()}
        for line in report.ending(benchmark.name, problem.iterations, result):
            echo(line)
        for line in sections.table(spreads, team.size) if spreads else []:
            echo(line)
        if options.json is not None:
            write_application(options.json, _without_nan(result))
    return 1 if outcome.verified is False else 0


def _finite_or_failed(outcome: Outcome) -> Outcome:
    """NaN compares with nothing, so no rule that forgot it passes here."""
    parts = outcome.value if isinstance(outcome.value, list) else [[outcome.value]]
    finite = math.isfinite(outcome.error) and all(math.isfinite(number) for part in parts for number in part)
    return outcome if finite or outcome.verified is None else replace(outcome, verified=False)


def _result(
    benchmark: Benchmark[P], problem: P, options: argparse.Namespace, team: gw.Team, outcome: Outcome
) -> dict[str, Any]:
    """The contents of the JSON file, on rank 0; nothing on the others. Collective."""
    ranks = team.allgather((outcome.seconds, outcome.seconds_setup, outcome.seconds_compile, _peak_memory()))
    spread = over_ranks(outcome.seconds / problem.iterations, team)
    if team.rank:
        return {}
    seconds, setup, compile_, memory = zip(*ranks, strict=True)
    return {
        "app": benchmark.program,
        "version": gw.__version__,
        "class": problem.letter,
        "size": problem.size_text(),
        "iterations": problem.iterations,
        "ranks": team.size,
        "active": outcome.active,
        "threads": gw.threads(),
        "device": "host",
        "variant": options.variant,
        "verified": outcome.verified,
        "reason": outcome.reason,
        "seconds": max(seconds),
        "seconds_min": min(seconds),
        "step_seconds_over_ranks": spread,
        "seconds_setup": max(setup),
        "seconds_compile": max(compile_),
        "mops": benchmark.mops(problem) / max(seconds) if max(seconds) else 0.0,
        "value": outcome.value,
        "reference": benchmark.reference(problem),
        "error": outcome.error,
        "peak_memory": sum(memory),
        "lines": count_lines(benchmark.lines(), sections.TIMERS),
        "config": {key: value for key, value in vars(options).items() if key != "json"},
        **outcome.extra,
    }


def _peak_memory() -> int:
    """The most bytes that this rank ever had in memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _without_nan(content: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(content, float) and not math.isfinite(content):
        return None
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    return [_without_nan(value) for value in content] if isinstance(content, list | tuple) else content
