"""The program of one rank of ``gondwana run``: ``python -P -m gondwana.cli.rank [-m] PROGRAM [ARGS]``."""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from gondwana.runtime import collector

with collector.paused():
    from gondwana.cli import programs
    from gondwana.runtime import beginning, exits, launcher, rank_words, start
    from gondwana.runtime.placement import binding, report
    from gondwana.runtime.watching import watchdog
    from gondwana.teams import mpi

PYTEST_OPTIONS = '-W "ignore:Module already imported:pytest.PytestAssertRewriteWarning"'
"""For pytest, which warns of plugins whose package runs already; with `filterwarnings = error` it would end."""


def main(target: str, arguments: list[str], *, module: bool = False) -> int:
    """Run an application or a program, and return the exit status. Collective over all ranks.

    Args:
        target: a module if ``module`` is true; else an application, the path of a script, or a command.
        arguments: arguments of the program.
        module: whether the target is a module.
    """
    beginning.all_is_imported()
    exits.install()
    beginning.receive_stdin(first=launcher.is_first())
    watchdog.arm(watchdog.time_limit(), first=launcher.is_first())
    place()
    if launcher.detect() is not None:
        mpi.configure()  # before the program, which may start MPI itself
    if Path(target).name in ("pytest", "py.test"):
        os.environ["PYTEST_ADDOPTS"] = f"{os.environ.get('PYTEST_ADDOPTS', '')} {PYTEST_OPTIONS}"
    started = time.time()
    try:
        return runner(target, module)(target, arguments)
    finally:
        if os.environ.get("GONDWANA_TIMING") and launcher.is_first():
            from gondwana.compiler import linker

            waited = started - float(os.environ["GONDWANA_TIMING"])
            print(f"gondwana: start {waited:.2f} s, program {time.time() - started:.2f} s", file=sys.stderr)
            print(f"gondwana: {linker.compilation()}", file=sys.stderr)


def place() -> None:
    """Bind this rank to its cores; rank 0 prints the places of all, once known. Local, before the program starts.

    Raises:
        UsageError: this host cannot bind it so.
    """
    if os.environ.get(binding.VARIABLE):
        binding.apply(_threads())
    report.record([report.own_location()])
    if binding.bound() is None or not launcher.is_first():
        return
    if launcher.detect() is None:
        print_placement(None)
    else:
        start.at_connect(print_placement)


def _threads() -> int:
    from gondwana.compiler.multithreading.pool import threads  # which most ranks do not load before their program

    return threads()


def print_placement(world: object) -> None:
    """Print the places of the ranks, all of which are known once the world is connected. Local."""
    print(report.table(_threads()), end="", file=sys.stderr, flush=True)


def runner(target: str, module: bool) -> Callable[[str, list[str]], int]:
    """Return the function that runs the target. Local."""
    if module:
        return run_module
    if programs.is_program(target):
        return run_app
    return run_command if not os.path.exists(target) and programs.installed(target) is not None else run_script


def run_app(name: str, arguments: list[str]) -> int:
    """Run the application ``name``; rank 0 checks its settings first. Collective over all ranks."""
    sys.argv = [f"gondwana run {name}", *arguments]  # stored in datasets as their origin
    exits.report_in_one_line()
    app = programs.program(name)
    if launcher.is_first():
        launch = launcher.detect()
        app.check(arguments, 1 if launch is None else launch.size)
    status: int = app.main(arguments)
    # Output that cannot be written is an error of this run, not one for Python's exit to find.
    sys.stdout.flush()
    return status


def run_script(path: str, arguments: list[str]) -> int:
    """Run a Python program as ``python path arguments`` would. Collective over all ranks.

    It finds modules in its own folder first, and not in the current one.
    """
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder
    if not os.path.isdir(path):  # `runpy` enters a folder itself
        sys.path.insert(0, str(Path(path).resolve().parent))
    runpy.run_path(path, run_name="__main__")
    return 0


def run_module(name: str, arguments: list[str]) -> int:
    """Run a module as ``python -m name arguments`` would. Collective over all ranks."""
    sys.argv = [name, *arguments]
    if sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def run_command(name: str, arguments: list[str]) -> int:
    """Run a command of this environment, such as pytest, and return its exit status. Collective over all ranks."""
    sys.argv = [name, *arguments]
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder
    entry = programs.installed(name)
    assert entry is not None
    return exits.status_of(SystemExit(entry.load()()))


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames between Python's start and the user's program. Local."""
    ours = (__file__, runpy.__file__)
    part = trace
    while part is not None and (
        part.tb_frame.f_code.co_filename in ours or "runpy" in part.tb_frame.f_code.co_filename
    ):
        part = part.tb_next
    return part or trace


if __name__ == "__main__":
    try:
        _module = sys.argv[1] == "-m"
        _target, *_arguments = rank_words.unquote(sys.argv[1 + _module :])
        rank_words.forget_words()
        sys.exit(main(_target, _arguments, module=_module))
    except SystemExit as leaving:
        exits.set_status(exits.status_of(leaving))
        raise
    except BaseException as error:
        sys.excepthook(type(error), error, users_part(error.__traceback__))
        sys.exit(exits.status_of(error))
