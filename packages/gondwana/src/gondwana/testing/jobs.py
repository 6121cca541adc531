"""Parallel jobs started from tests: each has a time limit, after which none of its processes is left.

Nothing here needs pytest, so that any test runner, and any script, can use it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gondwana.cli import launch
from gondwana.runtime import supervisor

Program: TypeAlias = Path | str | Callable[..., Any]
"""The path of a script, its source, or a function without parameters."""

_FOREIGN = (
    *("OMPI_", "PMIX_", "PMI_", "PYTEST_", "GONDWANA_BIND", "GONDWANA_MPI", "GONDWANA_RANKS", "GONDWANA_THREADS"),
    *("GONDWANA_TIME", "GONDWANA_TRACE"),
)
"""Prefixes of variables that another launcher, another test or the runner of the tests may have left."""

_STRAY = "\0"
"""Stray output of Open MPI's launcher among the errors when it ends a job; `gondwana run` leaves it out, too."""

REPORT_TIME = 10.0
"""Seconds before the end in which the ranks report where they stand."""


@dataclass(frozen=True)
class Outcome:
    """The end of a job.

    Args:
        status: the exit status.
        stdout: its standard output, all ranks together.
        stderr: its standard error.
    """

    status: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


class JobTimeoutError(AssertionError):
    """A job was still running at its time limit and has been killed."""


def run_ranks(
    ranks: int,
    program: Program,
    *arguments: str,
    timeout: float = 60,
    threads: int = 1,
    python: str | Path = sys.executable,
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Outcome:
    """Run a program on ``ranks`` ranks, started as ``gondwana run`` starts them. Local; blocks until the job has ended.

    Args:
        ranks: number of ranks; 1 runs without MPI unless GONDWANA_MPI=1 is among the variables.
        program: path of a script, its source, or a function without parameters, which is called in its own module
            (so it imports what it needs).
        arguments: arguments of the program.
        timeout: seconds until all of its processes are killed; 10 seconds earlier, the ranks report where they stand.
        threads: threads of each rank.
        python: the interpreter; its mpi4py decides which MPI is used.
        variables: environment variables of the job.
        cwd: working folder of the job; None: the current one.

    Raises:
        JobTimeoutError: the job was killed at its time limit; the message holds its whole output.

    Example:
        >>> from gondwana.testing.jobs import run_ranks
        >>> outcome = run_ranks(1, "import gondwana as gw; print(gw.world.size)")
        >>> outcome.status, outcome.stdout.split()
        (0, ['1'])
    """
    command = launch.command(
        ranks,
        [*python_arguments(program), *arguments],
        threads=threads,
        python=str(python),
        time_limit=max(1.0, timeout - REPORT_TIME),
        variables=variables,
        oversubscribe=True,
    )
    return run_command(command.argv, timeout=timeout, variables=command.variables, cwd=cwd)


def run_command(
    argv: Sequence[str], *, timeout: float = 60, variables: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Outcome:
    """Run a command to its end. Local; blocks. An interrupt, too, kills all processes that it has started.

    Args:
        argv: words of the command.
        timeout: seconds until it and its children are killed.
        variables: environment variables to set beside the present ones.
        cwd: its working folder; None: the current one.

    Raises:
        JobTimeoutError: the command was killed at its time limit.

    Example:
        >>> from gondwana.testing.jobs import run_command
        >>> run_command(["echo", "here"]).stdout.split()
        ['here']
    """
    with start_command(argv, variables=variables, cwd=cwd) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_group(process)
            stdout, stderr = process.communicate()
            raise JobTimeoutError(f"still running after {timeout} s: {argv}\n{stdout}\n{stderr}") from None
        except BaseException:
            kill_group(process)
            process.wait()  # after an interrupt, `with` does not
            raise
    return Outcome(process.returncode, stdout, stderr.replace(_STRAY, ""))


def start_command(
    argv: Sequence[str], *, variables: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Start a command in its own process group and return it. Local.

    Args:
        argv: words of the command.
        variables: environment variables to set beside the present ones.
        cwd: its working folder; None: the current one.
    """
    session = {supervisor.SESSIONS: f"{_sessions()}/{next(_numbers)}"}
    return subprocess.Popen(
        list(argv),
        env={**clean_environment(), **session, **_sharing_cores(), **(variables or {})},
        cwd=cwd,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _sharing_cores() -> dict[str, str]:
    """Have waiting ranks yield the processor if pytest-xdist runs several jobs at a time."""
    jobs = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return {"OMPI_MCA_mpi_yield_when_idle": "1"} if jobs > 1 else {}


@functools.cache
def _sessions() -> str:
    """Make the folder for Open MPI's sessions of the jobs of this process, which may be killed: see `SESSIONS`."""
    folder = tempfile.mkdtemp(prefix="gondwana-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_numbers = itertools.count()


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a command and all its children, ranks of a launcher included. Local."""
    for pid in (*supervisor.descendants(process.pid), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that another launcher or another test may have left. Local."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}


def python_arguments(program: Program) -> list[str]:
    """Return the arguments for an interpreter that runs ``program``. Local."""
    if isinstance(program, Path):
        return [str(program)]
    if isinstance(program, str):
        return ["-c", textwrap.dedent(program)]
    return ["-c", f"{textwrap.dedent(inspect.getsource(program))}\n{program.__name__}()"]
