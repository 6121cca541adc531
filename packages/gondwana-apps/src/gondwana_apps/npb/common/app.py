"""A benchmark as an application: its options, the checks before any rank starts, and its run."""

from __future__ import annotations

import argparse
import math
import resource
from dataclasses import asdict, replace
from typing import Any, TypeVar

import msgspec

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.results import check_writable, count_lines, write_application
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.npb.common import report, sections
from gondwana_apps.npb.common.benchmark import Benchmark, Outcome, Problem
from gondwana_apps.options import Parser
from gondwana_apps.sentences import say
from gondwana_apps.timers import spread

P = TypeVar("P", bound=Problem)


def parse(benchmark: Benchmark[P], argv: list[str]) -> argparse.Namespace:
    """Read the command line. Local.

    Raises:
        UsageError: one line that says what to change.
    """
    parser = Parser(benchmark.program, f"The NAS Parallel Benchmark {benchmark.name}.")
    classes, variants = ", ".join(benchmark.problems), ", ".join(benchmark.variants)
    parser.add_argument("--class", dest="letter", metavar="K", default="S", help=f"size, of {classes} [S]")
    first = benchmark.variants[0]
    how = f"how ranks communicate, of {variants} [{first}]"
    parser.add_argument("--variant", metavar="V", default=first, help=how)
    benchmark.add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")
    options = parser.parse_args(argv)
    if options.letter not in benchmark.problems:
        raise UsageError(f"{benchmark.program}: there is no --class {options.letter}: legal are {classes}")
    if options.variant not in benchmark.variants:
        raise UsageError(f"{benchmark.program}: there is no --variant {options.variant}: legal are {variants}")
    return options


def check(benchmark: Benchmark[P], argv: list[str], ranks: int | None = None) -> None:
    """Refuse options that cannot run, before any rank starts. Local.

    Args:
        benchmark: benchmark to run.
        argv: arguments after its name on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    options = parse(benchmark, argv)
    if options.json is not None:
        check_writable(options.json)
    benchmark.check(benchmark.problems[options.letter], options, ranks)
    needed, free = _needs(benchmark, options, options.letter, ranks), available_memory()
    if needed > free:
        fit = [k for k in benchmark.problems if _needs(benchmark, options, k, ranks) <= free]
        advice = f"take --class {' or '.join(fit)}" if fit else "free some memory"
        raise UsageError(
            f"{benchmark.program}: --class {options.letter} needs {in_gib(needed)} of memory and "
            f"{in_gib(free)} are free; {advice}"
        )


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
        result["sections"] = {name: found._asdict() for name, found in spreads.items()}
        for line in report.ending(benchmark.name, problem.iterations, result):
            say(line)
        for line in sections.table(spreads, team.size) if spreads else []:
            say(line)
        if options.json is not None:
            # JSON has no NaN and no infinity: null stands for them.
            write_application(options.json, msgspec.json.decode(msgspec.json.encode(result, enc_hook=float)))
    return 1 if outcome.verified is False else 0


def _needs(benchmark: Benchmark[P], options: argparse.Namespace, letter: str, ranks: int | None) -> int:
    return benchmark.needs(benchmark.problems[letter], options, ranks or 1)


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
    if team.rank:
        return {}
    seconds, setup, compile_, memory = zip(*ranks, strict=True)
    own = asdict(outcome)
    return {
        **own.pop("extra"),
        **own,
        "app": benchmark.program,
        "version": gw.__version__,
        "class": problem.letter,
        "size": problem.size_text(),
        "iterations": problem.iterations,
        "ranks": team.size,
        "threads": gw.threads(),
        "variant": options.variant,
        "seconds": max(seconds),
        "seconds_min": min(seconds),
        "step_seconds_over_ranks": spread([each / problem.iterations for each in seconds]),
        "seconds_setup": max(setup),
        "seconds_compile": max(compile_),
        "mops": benchmark.mops(problem) / max(seconds) if max(seconds) else 0.0,
        "reference": benchmark.reference(problem),
        "peak_memory": sum(memory),
        "lines": count_lines(benchmark.lines(), sections.TIMERS),
        "config": {key: value for key, value in vars(options).items() if key != "json"},
    }


def _peak_memory() -> int:
    """The most bytes that this rank ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
