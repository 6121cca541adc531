"""``gondwana bench``: our speed beside native programs that do the same, measured interleaved in one run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gondwana.cli import launch
from gondwana.cli.help_by_package import Sentences
from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana_bench.cli.bench import (
    clustering,
    every,
    gpu,
    heat,
    hpcg,
    io,
    messages,
    npb,
    options,
    scaling,
)
from gondwana_bench.disturbance import QUIET_WAIT
from gondwana_bench.panels import Panels
from gondwana_bench.rows import WIDE

bench = typer.Typer(
    help="Measure how fast we are, as a ratio to native programs in the same run.",
    cls=Sentences,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def measuring(name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that turns a function into a command that measures, with the options that all share. Local.

    Args:
        name: name of the command; None: that of the function.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        def waiting(*, quiet_wait: options.QuietWait = 0.0, wide: options.Wide = False, **given: Any) -> None:
            if not 0.0 <= quiet_wait <= options.LONGEST_WAIT:
                raise UsageError(f"--quiet-wait {quiet_wait:g}: legal are seconds from 0 to {options.LONGEST_WAIT}")
            if quiet_wait:
                os.environ[QUIET_WAIT] = str(quiet_wait)  # for all processes that measure
            if wide:
                os.environ[WIDE] = "1"  # for all processes that print
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
            help="Of sweep7, sweep27, gray_scott, gray_scott_one, sweep7_pair, gray_scott_pair, copy, triad, fsum "
            "[all].",
        ),
    ] = None,
    dtypes: options.Dtypes = None,
    threads: Annotated[str | None, typer.Option(metavar="T,T,...", help="How many [1 and all cores].")] = None,
    ranks: Annotated[
        int | None,
        typer.Option("-n", "--ranks", metavar="N", parser=whole(1), help="Steps on so many ranks [one process]."),
    ] = None,
    ranks_per_node: options.PerNode = None,
    second_cc: options.SecondCc = None,
    repeat: options.Repeat = 20,
    batch: options.Batch = 0.02,
) -> None:
    """Sweep cubes of 64, 128 and 256 cells a side in one process, beside C; exact sums (fsum) beside plain ones.

    With --ranks, time steps of periodic cubes of 256 cells a side on ranks of one thread, which exchange ghosts, beside
    a program with Numba and mpi4py as a user writes it by hand: sweep7, sweep7_pair, gray_scott, gray_scott_pair [all].

    The results are compared; the exit status is 0 only if all were equal. Above 1 the ratio says that ours is faster.
    """
    from gondwana_bench import stencil, stencil_on_ranks

    if ranks is not None:
        for option, text in (("--dtypes", dtypes), ("--threads", threads), ("--second-cc", second_cc)):
            if text is not None:
                raise UsageError(f"{option} {text}: ranks compute doubles on one thread; leave out this or --ranks")
        kept = options.names(kernels) or list(stencil_on_ranks.KERNELS)
        cells = options.numbers("--sizes", sizes) or list(stencil_on_ranks.SIZES)
        stencil_on_ranks.check(ranks, kept, cells)
        given: dict[str, Any] = {"kernels": kept, "sizes": cells, "repeat": repeat, "batch_seconds": batch}
        options.on_ranks(ranks, "stencil_on_ranks", file=report.file, ranks_per_node=ranks_per_node, **given)
    if ranks_per_node is not None:
        raise UsageError(f"--ranks-per-node {ranks_per_node}: one process has no ranks; give --ranks, too")
    counts = options.numbers("--threads", threads) or sorted({1, launch.cores()})
    kept, types = options.names(kernels) or list(stencil.CASES), options.names(dtypes) or list(stencil.DTYPES)
    cells = options.numbers("--sizes", sizes) or list(stencil.SIZES)
    stencil.check(kept, cells, types, counts)
    compilers = options.take_compilers(report, second_cc, max(counts))
    rows = stencil.measure(kept, cells, types, counts, repeat=repeat, batch_seconds=batch)
    report.add("stencil", stencil.COLUMNS, rows, compilers * len(kept) * len(cells) * len(types) * len(counts))


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
    from gondwana_bench import build, loops as bench

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
@options.on_team("tasks.durations", nodes=False)
def tasks(cases: options.Cases = None) -> dict[str, Any]:
    """Run tasks and hand items through channels, in a rank and between two, beside rivals in Python and in C.

    Among them are greenlets, asyncio, threads, multiprocessing, mpi4py, and in C threads, OpenMP, condition variables.
    """
    return {"names": options.case_names(cases)}


measuring("ping-pong")(messages.ping_pong)
measuring()(messages.ring)
measuring()(messages.osu)


@measuring()
@options.reporting
def init(
    report: Panels,
    sizes: Annotated[str | None, typer.Option(metavar="N,N,...", help="Bytes of the array [50000000].")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="T,T,...", help="How many [1, 2, 4, ... and all cores].")
    ] = None,
    workers: Annotated[
        str | None, typer.Option(metavar="W,W,...", help="Processes that share the array, 0: none [as threads].")
    ] = None,
    second_cc: options.SecondCc = None,
    repeat: options.Repeat = 100,
    batch: options.Batch = 0.001,
) -> None:
    """Initialise an array of doubles by threads, beside OpenMP and threads in C, and NumPy; and by worker processes.

    In memory that was touched before, then in fresh memory, whose pages the system provides meanwhile: usual ones, then
    huge ones. The processes are ranks of a node, or a pool; how long it takes to start a pool's work without waiting
    for it has rows of its own, since a study measured that. The exit status is 0 only if every element was set. Above 1
    the ratio says that the variant is faster than OpenMP.
    """
    from gondwana.runtime import cores
    from gondwana_bench import initialisation as bench

    nbytes = options.numbers("--sizes", sizes) or [bench.NBYTES]
    counts = options.numbers("--threads", threads) or bench.thread_counts(launch.cores())
    bench.check(nbytes, counts)
    options.take_compilers(report, second_cc, max(counts))
    jobs = [number for number in options.numbers("--workers", workers) or counts if number]
    rows = bench.measure(nbytes, counts, repeat=repeat, batch_seconds=batch)
    report.add("init", bench.COLUMNS, rows, bench.total(nbytes, counts))
    given: dict[str, Any] = {"sizes": nbytes, "cores": sorted(cores.own()), "repeat": repeat, "batch_seconds": batch}
    rows = (
        row
        for number in jobs
        for in_pool in (False, True)
        for row in options.rows_on_ranks(number + in_pool, "initialisation", in_pool=in_pool, **given)
    )
    if jobs:
        report.add("workers", bench.COLUMNS_OF_WORKERS, rows, bench.total_of_workers(nbytes, jobs))


@measuring()
@options.reporting
def fib(
    report: Panels,
    numbers: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Which Fibonacci numbers [0,10,20,25].")
    ] = None,
    ranks: Annotated[
        str, typer.Option("-n", "--ranks", metavar="N,N,...", help="Ranks of jobs, and workers of pools.")
    ] = "2",
    second_cc: options.SecondCc = None,
    repeat: options.Repeat = 100,
    batch: options.Batch = 0.01,
) -> None:
    """Compute Fibonacci numbers by recursive calls, in compiled code and by tasks of other ranks, beside C and Python.

    The tasks are those of any other rank of a job, and of pools of processes. The exit status is 0 only if every call
    has returned the right number.
    """
    from gondwana_bench.fibonacci import recursion as bench

    sizes, wanted = options.rank_counts(ranks), options.numbers("--numbers", numbers) or list(bench.NUMBERS)
    bench.check(wanted)
    compilers = options.take_compilers(report, second_cc)
    timing: dict[str, Any] = {"numbers": wanted, "repeat": repeat, "batch_seconds": batch}
    rows = itertools.chain.from_iterable(
        itertools.chain(
            options.rows_on_ranks(size, "fibonacci.recursion", called=size == sizes[0], **timing),
            bench.measure_in_pool(size, **timing),
        )
        for size in sizes
    )
    report.add("fib", bench.COLUMNS, rows, len(wanted) * (1 + compilers) * (1 + 2 * len(sizes)))


@measuring()
@options.reporting
def pools(
    report: Panels,
    cases: options.Cases = None,
    tasks: Annotated[
        int, typer.Option(metavar="N", parser=whole(1, 10**8), help="Null tasks of a map in batches; others are fewer.")
    ] = 100_000,
    repeat: options.Repeat = 5,
) -> None:
    """Submit tasks to pools of workers, beside ProcessPoolExecutor, multiprocessing, mpi4py's, and Dask if installed.

    Each pool runs in a program of its own; ours both starts processes and works in a job of ranks.
    """
    from gondwana_bench.pools import uses as bench

    kept = options.case_names(cases)
    bench.check(kept)
    rows = bench.measure(partial(options.official, None), report.note, cases=kept, tasks=tasks, repeat=repeat)
    report.add("pools", bench.COLUMNS, rows, bench.total(kept))


@measuring()
@options.reporting
def start(
    report: Panels,
    ranks: Annotated[str | None, typer.Option("-n", "--ranks", metavar="N,N,...", help="Numbers [1,2,4,8,16].")] = None,
    repeat: options.Repeat = 3,
) -> None:
    """Start jobs that only connect and end, and measure time and memory of a rank, beside mpi4py and C.

    "Used" ranks have also exchanged ghosts, put, signalled and called each other, and checked it. "Steps" are a hundred
    of README's program at 64^3; before the first ones the cache of machine code is empty.
    """
    from gondwana_bench.start import costs as bench

    wanted = sorted(set(options.counts(ranks or bench.RANKS)))
    for number in wanted:
        launch.command(number, [], threads=1, oversubscribe=True)
    mpi, native = Path(launch.mpi_library().path), partial(options.official, None, oversubscribe=True)
    rows = bench.measure(mpi, native, wanted, repeat=repeat)
    report.add("start", bench.COLUMNS, rows, bench.PROGRAMS * len(wanted))


for _command in (gpu.kinds, gpu.gpu, npb.npb, hpcg.hpcg, clustering.clustering, heat.heat, scaling.scaling, io.io):
    measuring()(_command)
measuring("all")(every.every)
