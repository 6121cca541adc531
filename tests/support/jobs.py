"""Start real parallel jobs from tests: with a time limit that leaves no process behind."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from gondwana.bench.processes import descendants
from gondwana.cli import launch

ROOT = Path(__file__).resolve().parents[2]
MPICH_PYTHON = ROOT / ".venv-mpich" / "bin" / "python"

Program = Path | str | Callable[..., Any]
P = ParamSpec("P")
T = TypeVar("T")


NOT_STARTED = "The PMIx server's listener thread failed to start"


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    status: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def clean_environment() -> dict[str, str]:
    """The environment without what another launcher or another test may have left."""
    unwanted = ("OMPI_", "PMIX_", "PMI_", "GONDWANA_RANKS", "GONDWANA_MPI", "GONDWANA_TIME", "GONDWANA_THREADS")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


def run_command(
    argv: Sequence[str], *, timeout: float = 60, variables: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Outcome:
    """Run a command to its end; after ``timeout`` seconds its whole process group is killed and the test fails."""
    outcome = _run_once(argv, timeout, variables, cwd)
    # On a loaded machine, a launcher of Open MPI 5.0.11 may end so before it has started anything.
    return _run_once(argv, timeout, variables, cwd) if NOT_STARTED in outcome.stderr else outcome


def _run_once(argv: Sequence[str], timeout: float, variables: Mapping[str, str] | None, cwd: Path | None) -> Outcome:
    with start_command(argv, variables=variables, cwd=cwd) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_group(process)
            stdout, stderr = process.communicate()
            raise AssertionError(f"still running after {timeout} s: {argv}\n{stdout}\n{stderr}") from None
    return Outcome(process.returncode, stdout, stderr)


def start_command(
    argv: Sequence[str], *, variables: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Start a command in a process group of its own."""
    return subprocess.Popen(
        list(argv),
        env={**clean_environment(), **(variables or {})},
        cwd=cwd,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a command and all that it has started, ranks of a launcher included."""
    everybody = descendants(process.pid)
    for pid in (*everybody, process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run_ranks(
    ranks: int,
    program: Program,
    *arguments: str,
    timeout: float = 60,
    threads: int = 1,
    python: str | Path = sys.executable,
    variables: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a program on ``ranks`` ranks, started as ``gondwana run`` starts them.

    Args:
        ranks: how many; 1 runs without MPI unless GONDWANA_MPI=1 is among the variables.
        program: the path of a script, its source, or a function without parameters, which is called in a module of
            its own (so it imports what it needs).
        arguments: for the program.
        timeout: seconds until all of its processes are killed and the test fails.
        threads: per rank.
        python: the interpreter; its mpi4py decides which MPI is used.
        variables: environment variables of the job.
    """
    # The ranks say where they stand before they are killed.
    command = launch.command(
        ranks,
        [*python_arguments(program), *arguments],
        threads=threads,
        python=str(python),
        time_limit=max(1.0, timeout - 10),
        variables=variables,
    )
    return run_command(command.argv, timeout=timeout, variables=command.variables)


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
    """What the checks of a program found on so many ranks: problems by name of the check. Each job runs once.

    Args:
        ranks: as for `run_ranks`, like `python`, `variables` and `timeout`.
        program: calls `run_checks`.
        arguments: for the program, besides `--ranks`.
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


def python_arguments(program: Program) -> list[str]:
    """The arguments for an interpreter that runs ``program``."""
    if isinstance(program, Path):
        return [str(program)]
    if isinstance(program, str):
        return ["-c", textwrap.dedent(program)]
    return ["-c", f"{textwrap.dedent(inspect.getsource(program))}\n{program.__name__}()"]


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
