"""``gondwana bench``: our speed beside native programs that do the same, measured interleaved in one run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gondwana.cli import launch
from gondwana_bench.cli.bench import (
    clustering,
    every,
    fib,
    gpu,
    heat,
    hpcg,
    init,
    io,
    messages,
    npb,
    pools,
    scaling,
    start,
)
from gondwana_bench.cli.bench.options import (
    Batch,
    Dtypes,
    File,
    Nbytes,
    PerNode,
    Ranks,
    Repeat,
    Sizes,
    case_names,
    check_common,
    finish,
    names,
    numbers,
    on_ranks,
    transfers_on_ranks,
)

bench = typer.Typer(
    help="Measure how fast we are, as a ratio to native programs in the same run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bench.callback(invoke_without_command=True)
def choose(
    context: typer.Context,
    list_: Annotated[bool, typer.Option("--list", help="Print the names of the benchmarks.")] = False,
) -> None:
    """Measure how fast we are, as a ratio to native programs in the same run."""
    if list_:
        print(every.listing(bench))
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


@bench.command()
def stencil(
    sizes: Sizes = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Of sweep7, sweep27, gray_scott, sweep7_pair, gray_scott_pair, copy, triad, fsum [all].",
        ),
    ] = None,
    dtypes: Dtypes = None,
    threads: Annotated[str | None, typer.Option(metavar="T,T,...", help="How many [1 and all cores].")] = None,
    repeat: Repeat = 20,
    batch: Batch = 0.02,
    file: File = None,
) -> None:
    """Sweep cubes of 64, 128 and 256 cells a side in one process, beside C; exact sums (fsum) beside plain ones.

    The results are compared; the exit status is 0 only if all were equal. Above 1 the ratio says that ours is faster.
    """
    from gondwana_bench import build, stencil
    from gondwana_bench.panels import Panels

    check_common(batch, file)
    build.command()
    counts = numbers("--threads", threads) or sorted({1, launch.cores()})
    kept, types = names(kernels) or list(stencil.CASES), names(dtypes) or list(stencil.DTYPES)
    cells = numbers("--sizes", sizes) or list(stencil.SIZES)
    stencil.check(kept, cells, types, counts)
    report = Panels("stencil", file)
    rows = stencil.measure(kept, cells, types, counts, repeat=repeat, batch_seconds=batch)
    report.add("stencil", stencil.COLUMNS, rows, len(kept) * len(cells) * len(types) * len(counts))
    finish(report)


@bench.command()
def exchange(
    sizes: Sizes = None,
    fields: Annotated[str | None, typer.Option(metavar="N,N,...", help="Arrays exchanged in one call [1,2].")] = None,
    ranks: Ranks = 2,
    ranks_per_node: PerNode = None,
    repeat: Repeat = 20,
    batch: Batch = 0.02,
    file: File = None,
) -> None:
    """Exchange ghosts of blocks of 64 and 128 cells a side between ranks, beside MPI in C on the same ranks."""
    from gondwana_bench import build, exchange

    check_common(batch, file)
    build.command()
    cells = numbers("--sizes", sizes) or list(exchange.SIZES)
    counts = numbers("--fields", fields) or list(exchange.FIELDS)
    exchange.check(ranks, cells, counts)
    options: dict[str, Any] = {"sizes": cells, "fields": counts, "repeat": repeat, "batch_seconds": batch}
    on_ranks(ranks, "exchange", ranks_per_node=ranks_per_node, file=file, **options)


@bench.command()
def rma(
    sizes: Nbytes = None,
    ranks: Ranks = 2,
    ranks_per_node: PerNode = None,
    repeat: Repeat = 20,
    batch: Batch = 0.02,
    file: File = None,
) -> None:
    """Reach the memory of another rank, in transfers of 8 bytes to 4 MiB, beside MPI in C, mpi4py and memcpy."""
    from gondwana_bench.rma import transfers

    transfers_on_ranks(transfers, sizes, ranks, ranks_per_node, repeat, batch, file)


@bench.command()
def collectives(
    sizes: Nbytes = None,
    ranks: Ranks = 2,
    ranks_per_node: PerNode = None,
    repeat: Repeat = 20,
    batch: Batch = 0.02,
    file: File = None,
) -> None:
    """Barriers, broadcasts and sums of 8 bytes to 8 MiB, compiled and from Python, beside MPI in C and mpi4py."""
    from gondwana_bench import collectives

    transfers_on_ranks(collectives, sizes, ranks, ranks_per_node, repeat, batch, file)


@bench.command()
def injection(
    threads: Annotated[str | None, typer.Option(metavar="T,T,...", help="How many [1,2,4].")] = None,
    ranks: Ranks = 2,
    ranks_per_node: PerNode = None,
    repeat: Repeat = 20,
    batch: Batch = 0.02,
    file: File = None,
) -> None:
    """Put, add and send from several threads of a rank at the same time, beside threads in C with MPI."""
    from gondwana_bench import build
    from gondwana_bench import injection as bench_injection

    check_common(batch, file)
    build.command()
    count = numbers("--threads", threads) or list(bench_injection.THREADS)
    bench_injection.check(ranks, count)
    options: dict[str, Any] = {"threads": count, "repeat": repeat, "batch_seconds": batch}
    on_ranks(ranks, "injection", ranks_per_node=ranks_per_node, file=file, **options)


@bench.command()
def tasks(
    cases: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Parts of names: task, channel, ... [all].")
    ] = None,
    ranks: Ranks = 2,
    repeat: Repeat = 20,
    batch: Batch = 0.02,
    file: File = None,
) -> None:
    """Run tasks and hand items through channels, in a rank and between two, beside rivals in Python and in C.

    Among them are greenlets, asyncio, threads, multiprocessing, mpi4py, and in C threads, OpenMP, condition variables.
    """
    from gondwana_bench import build

    kept = case_names(cases)
    check_common(batch, file)
    build.command()
    on_ranks(ranks, "tasks.durations", names=kept, repeat=repeat, batch_seconds=batch, file=file)


bench.command("ping-pong")(messages.ping_pong)
bench.command()(messages.ring)
bench.command()(messages.osu)
bench.command()(init.init)
bench.command()(fib.fib)
bench.command()(pools.pools)
bench.command()(start.start)
bench.command()(gpu.kinds)
bench.command()(gpu.gpu)
bench.command()(npb.npb)
bench.command()(hpcg.hpcg)
bench.command()(clustering.clustering)
bench.command()(heat.heat)
bench.command()(scaling.scaling)
bench.command()(io.io)
bench.command("all")(every.every)
