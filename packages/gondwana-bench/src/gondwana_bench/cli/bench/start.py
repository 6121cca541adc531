"""``gondwana bench start``: what a rank costs before it computes, beside mpi4py and C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gondwana.cli import launch
from gondwana_bench.cli.bench.options import Repeat, counts, reporting
from gondwana_bench.panels import Panels


@reporting
def start(
    report: Panels,
    ranks: Annotated[str | None, typer.Option("-n", "--ranks", metavar="N,N,...", help="Numbers [1,2,4,8,16].")] = None,
    repeat: Repeat = 3,
) -> None:
    """Start jobs that only meet and end, and measure time and memory of a rank, beside mpi4py and C.

    "Used" ranks have also exchanged ghosts, put, signalled and called each other, and checked it. "Steps" are a hundred
    of README's program at 64^3; before the first ones the cache of machine code is empty.
    """
    from gondwana_bench.start import costs as bench

    numbers = sorted(set(counts(ranks or bench.RANKS)))
    for number in numbers:
        launch.command(number, [], threads=1, oversubscribe=True)
    rows = bench.measure(Path(launch.mpi_library().path), _native, numbers, repeat=repeat)
    report.add("start", bench.COLUMNS, rows, bench.PROGRAMS * len(numbers))


def _native(ranks: int, words: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str]]:
    command = launch.native(ranks, words, {}, oversubscribe=True)
    return command.argv, command.environment()
