"""The program of one rank of ``gondwana run``: ``python -P -m gondwana.cli.rank APP|SCRIPT [ARGS]``."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import time
from pathlib import Path
from types import TracebackType

from gondwana.apps import registry
from gondwana.compiler import compilation
from gondwana.runtime import exits, launcher, watchdog


def main(target: str, arguments: list[str]) -> int:
    """Run an application or a program, and return the exit status. Collective over all ranks."""
    exits.install()
    watchdog.arm(watchdog.time_limit(), first=launcher.is_first())
    start = time.time()
    try:
        return run_app(target, arguments) if target in registry else run_script(target, arguments)
    finally:
        if os.environ.get("GONDWANA_TIMING") and launcher.is_first():
            waited = start - float(os.environ["GONDWANA_TIMING"])
            print(f"gondwana: start {waited:.2f} s, program {time.time() - start:.2f} s", file=sys.stderr)
            print(f"gondwana: {compilation()}", file=sys.stderr)


def run_app(name: str, arguments: list[str]) -> int:
    """Run the application ``name``; rank 0 checks its settings first. Collective over all ranks."""
    sys.argv = [f"gondwana run {name}", *arguments]  # stored in datasets as their origin
    exits.report_in_one_line()
    app = importlib.import_module(registry[name])
    if launcher.is_first():
        launch = launcher.detect()
        app.check(arguments, 1 if launch is None else launch.size)
    status: int = app.main(arguments)
    # Output that cannot be written is an error of this run, not one that Python's exit finds.
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
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except SystemExit as leaving:
        exits.set_status(exits.status_of(leaving))
        raise
    except BaseException as error:
        sys.excepthook(type(error), error, users_part(error.__traceback__))
        sys.exit(exits.status_of(error))
