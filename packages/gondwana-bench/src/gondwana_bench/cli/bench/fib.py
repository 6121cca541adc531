"""``gondwana bench fib``: recursive calls and tasks that make them, beside C and Python."""

from __future__ import annotations

from typing import Annotated

import typer

from gondwana_bench.cli.bench.options import Batch, File, Ranks, Repeat, check_common, on_ranks
from gondwana_bench.cli.bench.options import numbers as listed


def fib(
    numbers: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Which Fibonacci numbers [0,10,20,25].")
    ] = None,
    ranks: Ranks = 2,
    repeat: Repeat = 100,
    batch: Batch = 0.01,
    file: File = None,
) -> None:
    """Compute Fibonacci numbers by recursive calls, in compiled code and by tasks of another rank, beside C and Python.

    The exit status is 0 only if every call has returned the right number.
    """
    from gondwana_bench import build
    from gondwana_bench.fibonacci import recursion as bench

    check_common(batch, file)
    build.command()
    places = listed("--numbers", numbers) or list(bench.NUMBERS)
    bench.check(places)
    on_ranks(ranks, "fibonacci.recursion", numbers=places, repeat=repeat, batch_seconds=batch, file=file)
