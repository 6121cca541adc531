"""``gondwana run``: start an application or a program on several ranks."""

from __future__ import annotations

import difflib
import enum
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from gondwana.cli import launch, programs
from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana.results import check_writable
from gondwana.runtime import tracing
from gondwana.runtime.placement.binding import Bind


class Device(enum.StrEnum):
    """Where the kernels run."""

    host = "host"
    cuda = "cuda"


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM", help="An application, the path of a program, or a command such as pytest; see -m."
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed to the program untouched.")
    ] = None,
    ranks: Annotated[int, typer.Option("-n", "--ranks", metavar="N", parser=whole(1), help="How many ranks.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            "-t", "--threads", metavar="N", parser=whole(1), help="Threads per rank [default: cores / ranks]."
        ),
    ] = None,
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
    module: Annotated[bool, typer.Option("-m", help="PROGRAM is a module, as for python -m.")] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="When over: say where every rank stands, and end the job."),
    ] = None,
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Start more than 8 threads a core (ranks x threads).")
    ] = False,
    timing: Annotated[bool, typer.Option("--timing", help="Print how long the start and the program took.")] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=tracing.VARIABLE,
            help="Record what every rank does and when, for ui.perfetto.dev; print where the time went.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command, and start nothing.")] = False,
) -> None:
    """Run an application or a Python program on N ranks, with the launcher of the installed MPI.

    This process becomes the supervisor of the job (or, for one rank, the program), so that signals and the exit status
    are those of the job.
    """
    arguments = [*device_option(target, device, module), *(arguments or [])]
    if module:
        check_module(target)
    else:
        check_target(target, arguments, ranks)
    if time_limit is not None and not 0 < time_limit < 1e7:
        raise UsageError(f"--time-limit {time_limit:g}: legal is a positive number of seconds")
    program, variables = launch.as_rank(target, arguments, module=module)
    variables |= {"GONDWANA_TIMING": f"{time.time():.3f}"} if timing else {}
    if trace is not None:
        variables[tracing.VARIABLE] = trace_file(trace)
    command = launch.command(
        ranks,
        program,
        threads=threads,
        ranks_per_node=ranks_per_node,
        bind=bind,
        time_limit=time_limit,
        variables=variables,
        oversubscribe=oversubscribe,
    )
    if dry_run:
        print(command)
        return
    launch.become(command)


def trace_file(path: Path) -> str:
    """Check where a trace is to go, and return its absolute path for the ranks. Local.

    Raises:
        UsageError: no file can be written there.
    """
    check_writable(path, f"--trace {path}", streams=False)
    return str(path.absolute())


def device_option(target: str, device: Device | None, module: bool) -> list[str]:
    """Return the device as an argument for the program. Local.

    Raises:
        UsageError: the program does not take one.
    """
    if device is None or not (module or programs.is_program(target) or os.path.exists(target)):
        return []  # `check` reports that there is no such program
    if module or not programs.is_program(target):
        raise UsageError(
            f"--device {device}: a program decides itself where its arrays lie, as in gw.zeros(..., kind=gw.cuda()); "
            "leave the option out"
        )
    devices = getattr(programs.program(target), "DEVICES", ())
    if device not in devices:
        legal = f"it takes {' or '.join(devices)}" if devices else "leave the option out"
        raise UsageError(f"--device {device}: {target} does not run there; {legal}")
    return ["--device", device.value]


def check_module(name: str) -> None:
    """Check that there is a module. Local: imports nothing.

    Raises:
        UsageError: there is none of this name.
    """
    if not programs.has_module(name):
        raise UsageError(f"-m {name}: there is no such module, neither in the current folder nor in this environment")


def check_target(target: str, arguments: list[str], ranks: int) -> None:
    """Check an application's settings, or that the program exists. Local: before any rank starts.

    Raises:
        UsageError: there is no such application, file or command, or the application refuses its settings.
    """
    shown = target if len(target) <= 100 else f"{target[:100]}..."
    if programs.is_program(target):
        programs.program(target).check(arguments, ranks)
    elif not os.path.exists(target):  # unlike that of a Path, whatever the name
        if programs.installed(target) is None:
            known = sorted(programs.added(programs.PROGRAMS))
            close = difflib.get_close_matches(target, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            listed = f"applications are {', '.join(known)}; " if known else ""
            raise UsageError(
                programs.missing(target, programs.PROGRAMS)
                or f"there is no application and no file {shown!r}: {hint}{listed}"
                "a program is given by its path, a module by -m"
            )
    elif os.path.isdir(target) and not os.path.exists(os.path.join(target, "__main__.py")):
        raise UsageError(f"{shown} is a folder: give the path of a program, such as one in it")
    elif not os.access(target, os.R_OK):
        raise UsageError(f"{shown} cannot be read: give yourself permission, or the path of another program")
