"""``gondwana run``: start an application or a program on several ranks."""

from __future__ import annotations

import enum
import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gondwana.cli import launch, programs, slurm
from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana.runtime import later, tracing
from gondwana.runtime.launcher import BEGAN, restarted
from gondwana.runtime.placement.binding import Bind
from gondwana.runtime.watching.restarts import RESTARTED, RESTARTS

if TYPE_CHECKING:
    from gondwana.cli.run_options import run as run

__getattr__, __dir__ = later.later(__name__, {"gondwana.cli.run_options": "run"})


class Device(enum.StrEnum):
    """The place where the kernels run."""

    host = "host"
    cuda = "cuda"


_VALUES: dict[str, tuple[str, Callable[[str], object]]] = {
    "-n": ("ranks", whole(1)),
    "--ranks": ("ranks", whole(1)),
    "-t": ("threads", whole(1)),
    "--threads": ("threads", whole(1)),
    "--ranks-per-node": ("ranks_per_node", whole(1)),
    "--bind": ("bind", Bind),
    "--device": ("device", Device),
    "--time-limit": ("time_limit", float),
    "--restarts": ("restarts", whole(1)),
    "--trace": ("trace", Path),
    "--record": ("record", Path),
    "--replay": ("replay", Path),
}
"""Options with a value: the arguments of `start`, and the functions that convert their words."""

_FLAGS = {
    "-m": "module",
    "--oversubscribe": "oversubscribe",
    "--timing": "timing",
    "--live": "live",
    "--dry-run": "dry_run",
}


def read(words: Sequence[str]) -> Callable[[], None] | None:
    """Return a function that starts the program in the words after `gondwana run`. Local.

    None: typer must read them, since they ask for help, are wrong, or are written in a rare way.
    """
    found: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        option, _, value = word.partition("=")
        if not word.startswith("-"):
            if os.environ.get(tracing.VARIABLE):
                found.setdefault("trace", Path(os.environ[tracing.VARIABLE]))
            return functools.partial(start, word, list(left), **found)
        if word in _FLAGS:
            found[_FLAGS[word]] = True
            continue
        if option not in _VALUES or not (value or word == option):
            return None
        name, make = _VALUES[option]
        try:
            found[name] = make(value if value and option.startswith("--") else next(left))
        except Exception:
            return None
    return None


def start(
    target: str,
    arguments: list[str],
    *,
    ranks: int | None = None,
    threads: int | None = None,
    ranks_per_node: int | None = None,
    bind: Bind | None = None,
    device: Device | None = None,
    module: bool = False,
    time_limit: float | None = None,
    restarts: int | None = None,
    oversubscribe: bool = False,
    timing: bool = False,
    trace: Path | None = None,
    record: Path | None = None,
    replay: Path | None = None,
    live: bool = False,
    dry_run: bool = False,
) -> None:
    """Start a program on several ranks, or print the command: see the options of `gondwana.cli.run_options`. Local.

    Raises:
        UsageError: an argument is wrong, or a setting that the program refuses.
        LaunchError: no launcher can start this number of ranks.
    """
    ranks = ranks or launch.default_ranks()
    arguments = [*device_option(target, device, module), *arguments]
    if module:
        check_module(target)
    else:
        check_target(target, arguments, ranks)
    if time_limit is not None and not 0 < time_limit < 1e7:
        raise UsageError(f"--time-limit {time_limit:g}: legal is a positive number of seconds")
    program, variables = launch.as_rank(target, arguments, module=module)
    variables |= {"GONDWANA_TIMING": f"{time.time():.3f}"} if timing else {}
    if restarts is not None:
        began = 0 if restarted() else time.time_ns()  # in a job that Slurm has started again, before that
        variables |= {RESTARTS: str(restarts), RESTARTED: "0", BEGAN: str(began)}
    if trace is not None and restarts is not None:
        raise UsageError("--trace with --restarts: a trace has one start of a job; give one of the two options")
    if trace is not None:
        variables[tracing.VARIABLE] = trace_file(trace)
    detector: tuple[str, ...] = ()
    several_hosts = slurm.there() or any(name in os.environ for name in launch.HOST_LISTS)
    if os.environ.get("GONDWANA_CHECK", "").partition(":")[0] == "races":
        from gondwana.races import listening

        reports, detector = listening.listen(several_hosts=several_hosts)
        variables |= reports
    if record is not None or replay is not None:
        from gondwana.cli import recorded

        variables |= recorded.variables(record, replay, [*["-m"] * module, target, *arguments], ranks, dry_run=dry_run)
    if live and not dry_run:
        from gondwana.liveview import serving
        from gondwana.runtime.watching.live import VARIABLE

        address, variables[VARIABLE] = serving.start(several_hosts=several_hosts)
        print(f"gondwana: live view at {address}", file=sys.stderr)
    command = launch.command(
        ranks,
        program,
        threads=threads,
        ranks_per_node=ranks_per_node,
        bind=bind,
        time_limit=time_limit,
        variables=variables,
        oversubscribe=oversubscribe,
        supervised=restarts is not None,
    )
    if dry_run:
        print(command)
        return
    launch.become(command, detector)


def trace_file(path: Path) -> str:
    """Check the name of a trace, and return its absolute path for the ranks. Local.

    Raises:
        UsageError: no file can be written there.
    """
    from gondwana.results import check_writable

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
    """Check that a module exists. Local: imports nothing.

    Raises:
        UsageError: no module has this name.
    """
    if not programs.has_module(name):
        raise UsageError(f"-m {name}: there is no such module, neither in the current folder nor in this environment")


def check_target(target: str, arguments: list[str], ranks: int) -> None:
    """Check an application's settings, or that the program exists. Local: before any rank starts.

    Raises:
        UsageError: no such application, file or command exists, or the application refuses its settings.
    """
    shown = target if len(target) <= 100 else f"{target[:100]}..."
    if programs.is_program(target):
        programs.program(target).check(arguments, ranks)
    elif not os.path.exists(target):  # unlike that of a Path, whatever the name
        if programs.installed(target) is None:
            import difflib

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
