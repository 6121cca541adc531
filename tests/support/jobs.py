"""Jobs of the tests of this repository: programs whose checks are tests, each job once; see gondwana.testing.jobs."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from gondwana.compiler import sources
from gondwana.runtime.cache_folder import cache_folder
from gondwana.testing.jobs import (
    Outcome as Outcome,
    Program as Program,
    clean_environment as clean_environment,
    kill_group as kill_group,
    python_arguments as python_arguments,
    run_command as run_command,
    run_ranks as run_ranks,
    start_command as start_command,
)

ROOT = Path(__file__).resolve().parents[2]
MPICH_PYTHON, INTEL_PYTHON = (Path(f"{sys.prefix}-{mpi}", "bin", "python") for mpi in ("mpich", "intel"))

P = ParamSpec("P")
T = TypeVar("T")


def rewrite(file: Path, text: str) -> None:
    """Write a module anew. Python would take the byte code of one of the same size and second for that of this one."""
    file.write_text(text)
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def own_cache(folder: Path) -> Path:
    """A cache of machine code with nothing in it, but where the library's sources are known as in that of this process.

    To read the syntax of all of them takes as long as to compile several kernels.
    """
    sources.digest(sources.OVERLOADS)
    known = cache_folder("sources")
    inner = folder / "sources"
    inner.mkdir(mode=0o700, parents=True)
    for file in known.glob("*.json") if known is not None else ():
        shutil.copy(file, inner)
    return folder


def once(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function once for the same arguments and keep its result; a failure is kept and raised again, too.

    So a job that fails or hangs costs its time once, not once for each of its checks.
    """

    @functools.cache
    def ending(*args: Any, **kwargs: Any) -> Callable[[], T]:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            return functools.partial(fail_again, error, error.__traceback__)
        return lambda: result

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return ending(*args, **kwargs)()

    return call


def fail_again(error: Exception, trace: TracebackType | None) -> NoReturn:
    """Raise an error as it was raised first."""
    raise error.with_traceback(trace)


def reports(
    ranks: int,
    program: Path,
    *arguments: str,
    per_node: int = 0,
    python: str | Path = sys.executable,
    variables: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> dict[str, list[str]]:
    """The problems that the checks of a program found on so many ranks, by name of the check. Each job runs once.

    Args:
        ranks: number of ranks, as for `run_ranks`, like `python`, `variables` and `timeout`.
        program: calls `run_checks`.
        arguments: arguments of the program, besides `--ranks`.
        per_node: ranks that take each other to be on one node; 0: all.
    """
    settings = dict(variables or {})
    if per_node:
        settings["GONDWANA_RANKS_PER_NODE"] = str(per_node)
    return _reports(ranks, program, arguments, str(python), tuple(settings.items()), timeout)


@once
def _reports(
    ranks: int,
    program: Path,
    arguments: tuple[str, ...],
    python: str,
    settings: tuple[tuple[str, str], ...],
    timeout: float,
) -> dict[str, list[str]]:
    words = "--ranks", str(ranks), *arguments
    return by_check(run_ranks(ranks, program, *words, timeout=timeout, python=python, variables=dict(settings)))


def by_check(outcome: Outcome) -> dict[str, list[str]]:
    """The problems by name of the check that a job has printed, which must have ended well."""
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


def check_names(program: Path) -> list[str]:
    """The names of the checks in a program: its functions `check_*`, and those of other programs that it lists."""
    return re.findall(r'^(?:def |    ")(check_\w+)', program.read_text(encoding="utf-8"), re.MULTILINE)


def left_behind(pids: Sequence[int], patience: float = 5) -> list[int]:
    """Those of ``pids`` that still run after ``patience`` seconds: a launcher may end a moment before its ranks."""
    end = time.monotonic() + patience
    while (running := _alive(pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return running


def _alive(pids: Sequence[int]) -> list[int]:
    running = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                running.append(pid)
    return running
