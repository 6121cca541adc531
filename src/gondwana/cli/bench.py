"""``gondwana bench``: our kernels, exchanges and transfers beside native programs, measured in turns in one run."""

from __future__ import annotations

import enum
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gondwana.cli import launch
from gondwana.errors import UsageError


class Benchmark(enum.StrEnum):
    """What can be measured."""

    stencil = "stencil"
    exchange = "exchange"
    rma = "rma"


def bench(
    benchmark: Annotated[
        Benchmark,
        typer.Argument(help="Sweeps of one process, ghost exchange between ranks, or access to a rank's memory."),
    ],
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Cells a side of the cube [64,128,256; exchange: 64,128]; rma: bytes of a transfer [8 to 4 Mi].",
        ),
    ] = None,
    kernels: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Stencil: of sweep7, sweep27, gray_scott, copy, triad [all]."),
    ] = None,
    dtypes: Annotated[str | None, typer.Option(metavar="TYPE,...", help="Stencil: of float64, float32 [both].")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="T,T,...", help="Stencil: numbers of threads [1 and all cores].")
    ] = None,
    fields: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Exchange: arrays exchanged in one call [1,2].")
    ] = None,
    ranks: Annotated[int | None, typer.Option("-n", "--ranks", help="Exchange and rma: how many ranks [2].")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds; each times every variant once.")] = 20,
    batch: Annotated[float, typer.Option(metavar="SECONDS", help="Length of one sample.")] = 0.02,
    file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures.")] = None,
) -> None:
    """Measure how fast we are, as a ratio to native programs that are compiled here and now.

    Both sides run in turns in the same process on the same sizes, and their results are compared. The speed is that of
    C over ours: above 1, ours is faster. The exit status is 0 only if all results were equal.
    """
    from gondwana.bench import build
    from gondwana.bench.report import check_writable

    if not 0.0 < batch <= 10.0:
        raise UsageError(f"--batch {batch:g}: legal is a number of seconds above 0, at most 10")
    if file is not None:
        check_writable(file)
    build.command()
    if benchmark is Benchmark.stencil:
        _refuse(benchmark, fields=fields, ranks=ranks)
        _stencil(sizes, kernels, dtypes, threads, repeat, batch, file)
        return
    _refuse(benchmark, kernels=kernels, dtypes=dtypes, threads=threads)
    options = {"repeat": repeat, "batch_seconds": batch, "file": None if file is None else str(file)}
    ranks = 2 if ranks is None else ranks
    if benchmark is Benchmark.exchange:
        _launch(benchmark, ranks, _exchange(sizes, fields, ranks) | options)
    _refuse(benchmark, fields=fields)
    _launch(benchmark, ranks, _rma(sizes, ranks) | options)


def _stencil(
    sizes: str | None,
    kernels: str | None,
    dtypes: str | None,
    threads: str | None,
    repeat: int,
    batch: float,
    file: Path | None,
) -> None:
    from gondwana.bench import stencil
    from gondwana.bench.report import Report

    counts = _numbers("--threads", threads) or sorted({1, launch.cores()})
    names, types = _names(kernels) or list(stencil.CASES), _names(dtypes) or list(stencil.DTYPES)
    cells = _numbers("--sizes", sizes) or list(stencil.SIZES)
    stencil.check(names, cells, types, counts)
    report = Report("stencil")
    rows = stencil.measure(names, cells, types, counts, repeat=repeat, batch_seconds=batch)
    report.rows.extend(_with_progress(rows, len(names) * len(cells) * len(types) * len(counts)))
    report.show(stencil.COLUMNS)
    if file is not None:
        report.write(file)
    if not all(row["verified"] for row in report.rows):
        raise typer.Exit(1)


def _exchange(sizes: str | None, fields: str | None, ranks: int) -> dict[str, object]:
    from gondwana.bench import exchange

    cells = _numbers("--sizes", sizes) or list(exchange.SIZES)
    counts = _numbers("--fields", fields) or list(exchange.FIELDS)
    exchange.check(ranks, cells, counts)
    return {"sizes": cells, "fields": counts}


def _rma(sizes: str | None, ranks: int) -> dict[str, object]:
    from gondwana.bench import rma

    nbytes = _numbers("--sizes", sizes) or list(rma.SIZES)
    rma.check(ranks, nbytes)
    return {"sizes": nbytes}


def _launch(benchmark: Benchmark, ranks: int, options: dict[str, object]) -> NoReturn:
    """Start the ranks: this process becomes their launcher."""
    words = ["-m", f"gondwana.bench.{benchmark.value}", json.dumps({**options, "command": sys.argv})]
    command = launch.command(ranks, words, threads=1)
    sys.stdout.flush()
    os.execve(command.argv[0], command.argv, command.environment())


def _refuse(benchmark: Benchmark, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name} has no meaning for `gondwana bench {benchmark.value}`; leave it out")


def _names(text: str | None) -> list[str]:
    return [] if text is None else text.split(",")


def _numbers(option: str, text: str | None) -> list[int]:
    if text is not None and not all(part.strip().isdecimal() for part in text.split(",")):
        raise UsageError(f"{option} {text}: legal are whole numbers with commas between, such as 64,128")
    return [int(part) for part in _names(text)]


def _with_progress(rows: Iterable[dict[str, Any]], total: int) -> Iterator[dict[str, Any]]:
    """Pass rows on, with a bar on the terminal if standard error is one."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(rows, "measuring", total=total, console=console, disable=not console.is_terminal, transient=True)
