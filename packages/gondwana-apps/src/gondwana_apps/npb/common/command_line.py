"""The options of the benchmarks, and the checks before any rank starts."""

from __future__ import annotations

import argparse
from typing import TypeVar

from gondwana.errors import UsageError
from gondwana.results import check_writable
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.npb.common.benchmark import Benchmark, Problem
from gondwana_apps.options import Parser

P = TypeVar("P", bound=Problem)


def parse(benchmark: Benchmark[P], argv: list[str]) -> argparse.Namespace:
    """Read the command line. Local.

    Raises:
        UsageError: one line that says what to change.
    """
    parser = Parser(benchmark.program, f"The NAS Parallel Benchmark {benchmark.name}.")
    classes, variants = ", ".join(benchmark.problems), ", ".join(benchmark.variants)
    parser.add_argument("--class", dest="letter", metavar="K", default="S", help=f"size, of {classes} [S]")
    parser.add_argument(
        "--variant",
        metavar="V",
        default=benchmark.variants[0],
        help=f"how ranks communicate, of {variants} [{benchmark.variants[0]}]",
    )
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


def _needs(benchmark: Benchmark[P], options: argparse.Namespace, letter: str, ranks: int | None) -> int:
    return benchmark.needs(benchmark.problems[letter], options, ranks or 1)
