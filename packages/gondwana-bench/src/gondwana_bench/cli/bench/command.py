"""``gondwana bench``: our speed beside native programs that do the same, measured interleaved in one run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from gondwana.cli import launch
from gondwana.errors import UsageError
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
    options,
    pools,
    scaling,
    start,
)
from gondwana_bench.disturbance import QUIET_WAIT
from gondwana_bench.panels import Panels

bench = typer.Typer(
    help="Measure how fast we are, as a ratio to native programs in the same run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def measuring(name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what makes a function a command that measures, with the option that all of these share. Local.

    Args:
        name: of the command; None: that of the function.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        def waiting(*, quiet_wait: options.QuietWait = 0.0, **given: Any) -> None:
            if not 0.0 <= quiet_wait <= options.LONGEST_WAIT:
                raise UsageError(f"--quiet-wait {quiet_wait:g}: legal are seconds from 0 to {options.LONGEST_WAIT}")
            if quiet_wait:
                os.environ[QUIET_WAIT] = str(quiet_wait)  # for all processes that measure
            command(**given)

        return bench.command(name)(options.with_options(command, waiting))

    return add


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


@measuring()
@options.reporting
def stencil(
    report: Panels,
    sizes: options.Sizes = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Of sweep7, sweep27, gray_scott, sweep7_pair, gray_scott_pair, copy, triad, fsum [all].",
        ),
    ] = None,
    dtypes: options.Dtypes = None,
    threads: Annotated[str | None, typer.Option(metavar="T,T,...", help="How many [1 and all cores].")] = None,
    repeat: options.Repeat = 20,
    batch: options.Batch = 0.02,
) -> None:
    """Sweep cubes of 64, 128 and 256 cells a side in one process, beside C; exact sums (fsum) beside plain ones.

    The results are compared; the exit status is 0 only if all were equal. Above 1 the ratio says that ours is faster.
    """
    from gondwana_bench import build, stencil

    build.command()
    counts = options.numbers("--threads", threads) or sorted({1, launch.cores()})
    kept, types = options.names(kernels) or list(stencil.CASES), options.names(dtypes) or list(stencil.DTYPES)
    cells = options.numbers("--sizes", sizes) or list(stencil.SIZES)
    stencil.check(kept, cells, types, counts)
    rows = stencil.measure(kept, cells, types, counts, repeat=repeat, batch_seconds=batch)
    report.add("stencil", stencil.COLUMNS, rows, len(kept) * len(cells) * len(types) * len(counts))


@measuring()
@options.reporting
def loops(
    report: Panels,
    loops: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Of product, transposition, updates, histogram, prefix, ... [all]."),
    ] = None,
    sizes: Annotated[str | None, typer.Option(metavar="N,N,...", help="Elements, about [1048576,16777216].")] = None,
    repeat: options.Repeat = 20,
    batch: options.Batch = 0.02,
) -> None:
    """Run loops over sparse rows, tiles, random places, chains of sums beside C; random updates by two ranks, too.

    What each wrote is compared with NumPy's; the exit status is 0 only if all were equal. Above 1 the ratios say that
    the variant is faster than C, without and with -ffast-math.
    """
    from gondwana_bench import build
    from gondwana_bench import loops as bench

    build.command()
    kept, elements = options.names(loops) or list(bench.LOOPS), options.numbers("--sizes", sizes) or list(bench.SIZES)
    bench.check(kept, elements)
    on = {1: kept, 2: [name for name in kept if name in bench.TOGETHER]}
    rows = (
        row
        for ranks, some in on.items()
        for row in options.rows_on_ranks(ranks, "loops", loops=some, sizes=elements, repeat=repeat, batch_seconds=batch)
    )
    report.add("loops", bench.COLUMNS, rows, 4 * len(elements) * sum(map(len, on.values())))


@measuring()
@options.on_team("exchange")
def exchange(
    sizes: options.Sizes = None,
    fields: Annotated[str | None, typer.Option(metavar="N,N,...", help="Arrays exchanged in one call [1,2].")] = None,
) -> None:
    """Exchange ghosts of blocks of 64 and 128 cells a side between ranks, beside MPI in C on the same ranks."""


@measuring()
@options.on_team("rma.transfers")
def rma(
    sizes: options.Nbytes = None,
) -> None:
    """Reach the memory of another rank, in transfers of 8 bytes to 4 MiB, beside MPI in C, mpi4py and memcpy."""


@measuring()
@options.on_team("collectives")
def collectives(
    sizes: options.Nbytes = None,
) -> None:
    """Barriers, broadcasts and sums of 8 bytes to 8 MiB, compiled and from Python, beside MPI in C and mpi4py."""


@measuring()
@options.on_team("injection")
def injection(
    threads: Annotated[str | None, typer.Option(metavar="T,T,...", help="How many [1,2,4].")] = None,
) -> None:
    """Put, add and send from several threads of a rank at the same time, beside threads in C with MPI."""


@measuring()
def tasks(
    cases: options.Cases = None,
    ranks: options.Ranks = 2,
    repeat: options.Repeat = 20,
    batch: options.Batch = 0.02,
    file: options.File = None,
) -> None:
    """Run tasks and hand items through channels, in a rank and between two, beside rivals in Python and in C.

    Among them are greenlets, asyncio, threads, multiprocessing, mpi4py, and in C threads, OpenMP, condition variables.
    """
    from gondwana_bench import build

    kept = options.case_names(cases)
    options.check_common(batch, file)
    build.command()
    options.on_ranks(ranks, "tasks.durations", names=kept, repeat=repeat, batch_seconds=batch, file=file)


measuring("ping-pong")(messages.ping_pong)
_commands: tuple[Callable[..., None], ...] = (
    *(messages.ring, messages.osu, init.init, fib.fib, pools.pools, start.start, gpu.kinds, gpu.gpu),
    *(npb.npb, hpcg.hpcg, clustering.clustering, heat.heat, scaling.scaling, io.io),
)
for _command in _commands:
    measuring()(_command)
measuring("all")(every.every)
