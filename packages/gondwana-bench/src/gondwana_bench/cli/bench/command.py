"""``gondwana bench``: our speed beside native programs that do the same, measured interleaved in one run."""

from __future__ import annotations

import functools
import inspect
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
    pools,
    scaling,
    start,
)
from gondwana_bench.cli.bench.options import (
    LONGEST_WAIT,
    Batch,
    Dtypes,
    File,
    Nbytes,
    PerNode,
    QuietWait,
    Ranks,
    Repeat,
    Sizes,
    case_names,
    check_common,
    checked_on_ranks,
    finish,
    names,
    numbers,
    on_ranks,
)
from gondwana_bench.disturbance import QUIET_WAIT

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
        @functools.wraps(command)
        def waiting(*, quiet_wait: float, **options: Any) -> None:
            if not 0.0 <= quiet_wait <= LONGEST_WAIT:
                raise UsageError(f"--quiet-wait {quiet_wait:g}: legal are seconds from 0 to {LONGEST_WAIT}")
            if quiet_wait:
                os.environ[QUIET_WAIT] = str(quiet_wait)  # for all processes that measure
            command(**options)

        own = inspect.signature(command, eval_str=True)
        wait = inspect.Parameter("quiet_wait", inspect.Parameter.KEYWORD_ONLY, default=0.0, annotation=QuietWait)
        parameters = [*own.parameters.values(), wait]
        waiting.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        vars(waiting)["__signature__"] = own.replace(parameters=parameters)
        return bench.command(name)(waiting)

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


@measuring()
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
    from gondwana_bench import exchange

    checked_on_ranks(exchange, ranks, ranks_per_node, repeat, batch, file, sizes=sizes, fields=fields)


@measuring()
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

    checked_on_ranks(transfers, ranks, ranks_per_node, repeat, batch, file, sizes=sizes)


@measuring()
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

    checked_on_ranks(collectives, ranks, ranks_per_node, repeat, batch, file, sizes=sizes)


@measuring()
def injection(
    threads: Annotated[str | None, typer.Option(metavar="T,T,...", help="How many [1,2,4].")] = None,
    ranks: Ranks = 2,
    ranks_per_node: PerNode = None,
    repeat: Repeat = 20,
    batch: Batch = 0.02,
    file: File = None,
) -> None:
    """Put, add and send from several threads of a rank at the same time, beside threads in C with MPI."""
    from gondwana_bench import injection

    checked_on_ranks(injection, ranks, ranks_per_node, repeat, batch, file, threads=threads)


@measuring()
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


measuring("ping-pong")(messages.ping_pong)
_commands: tuple[Callable[..., None], ...] = (
    *(messages.ring, messages.osu, init.init, fib.fib, pools.pools, start.start, gpu.kinds, gpu.gpu),
    *(npb.npb, hpcg.hpcg, clustering.clustering, heat.heat, scaling.scaling, io.io),
)
for _command in _commands:
    measuring()(_command)
measuring("all")(every.every)
