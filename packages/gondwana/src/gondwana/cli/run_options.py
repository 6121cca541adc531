"""The options of ``gondwana run`` as its help has them; `gondwana.cli.run` reads them without this where it can."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from gondwana.cli import programs
from gondwana.cli.numbers import whole
from gondwana.cli.run import Device, start
from gondwana.runtime import tracing
from gondwana.runtime.placement.binding import Bind

Arguments: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed to the program untouched.")
]
Ranks: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "-n", "--ranks", metavar="N", parser=whole(1), help="How many ranks [default: Slurm's tasks, else 1]."
    ),
]
Threads: TypeAlias = Annotated[
    int | None,
    typer.Option("-t", "--threads", metavar="N", parser=whole(1), help="Threads per rank [default: cores / ranks]."),
]
Module: TypeAlias = Annotated[bool, typer.Option("-m", help="PROGRAM is a module, as for python -m.")]
Oversubscribe: TypeAlias = Annotated[
    bool, typer.Option("--oversubscribe", help="Start more than 8 threads a core (ranks x threads).")
]


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="An application, the path of a program, or a command such as pytest; see -m.",
            autocompletion=programs.beginning_with,
        ),
    ],
    arguments: Arguments = None,
    ranks: Ranks = None,
    threads: Threads = None,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(metavar="P", parser=whole(1), help="Ranks on each node [default: the launcher's choice]."),
    ] = None,
    bind: Annotated[
        Bind | None,
        typer.Option(help="Give each thread a core, or the threads of a rank a socket, a NUMA domain, or all cores."),
    ] = None,
    device: Annotated[
        Device | None, typer.Option(help="Where the kernels of an application run [default: its settings say it].")
    ] = None,
    module: Module = False,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="When over: say where every rank stands, and end the job."),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=whole(1),
            help="Start again after a lost rank or host, N times at most [default: 0].",
        ),
    ] = None,
    oversubscribe: Oversubscribe = False,
    timing: Annotated[bool, typer.Option("--timing", help="Print how long the start and the program took.")] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=tracing.VARIABLE,
            help="Record what every rank does and when, for ui.perfetto.dev; print where the time went.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Record the order of calls, messages, items and tasks, for --replay."),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Run in the order that --record has recorded.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Print the address of a page, on this host, that shows what the job does.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command, and start nothing.")] = False,
) -> None:
    """Run an application or a Python program on N ranks, with the launcher of the installed MPI.

    This process becomes the supervisor of the job (or, for one rank, the program), so that signals and the exit status
    are those of the job.
    """
    start(
        target,
        arguments or [],
        ranks=ranks,
        threads=threads,
        ranks_per_node=ranks_per_node,
        bind=bind,
        device=device,
        module=module,
        time_limit=time_limit,
        restarts=restarts,
        oversubscribe=oversubscribe,
        timing=timing,
        trace=trace,
        record=record,
        replay=replay,
        live=live,
        dry_run=dry_run,
    )
