"""Processes that benchmarks start."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gondwana.cli import launch
from gondwana.errors import UsageError
from gondwana.runtime import exits

PRETENDED = "GONDWANA_RANKS_PER_NODE"
"""The variable by which ranks of a host are nodes."""
OTHER_MPI = "if it was built with another MPI than that of the launcher, give its own, such as --mpirun /usr/bin/mpirun"
"""The advice where a user's program does not start."""
_LAST_LINES = 3
_BLANK = "\0 \t"
"""Characters that are not text: Open MPI's launcher ends its reports with a zero byte."""


class Command(NamedTuple):
    """A command and its whole environment."""

    argv: Sequence[str]
    variables: Mapping[str, str]


class Nodes(NamedTuple):
    """The nodes of a job: those of the launcher where it has enough, else pretended ones on this host.

    Attributes:
        per_node: number of ranks of a node for the launcher; None: it decides.
        variables: environment variables to set for the job.
    """

    per_node: int | None
    variables: Mapping[str, str]

    def options(self) -> list[str]:
        """Return the options of `gondwana run`. Local."""
        return [] if self.per_node is None else ["--ranks-per-node", str(self.per_node)]

    def environment(self) -> dict[str, str]:
        """Return the whole environment of the job; pretended nodes are on this host. Local."""
        without = (PRETENDED, *launch.HOST_LISTS) if self.variables else (PRETENDED,) if self.per_node else ()
        return {name: value for name, value in os.environ.items() if name not in without} | dict(self.variables)

    def kind(self, number: int) -> str:
        """Return what a number of nodes of a job are: "one", or several "real" or "pretended" ones. Local."""
        return "one" if number == 1 else "pretended" if PRETENDED in self.environment() else "real"


StartNative = Callable[[int, Sequence[str]], Command]
"""Returns the command that starts the words of a program that is not ours on a number of ranks."""


def our_command(ranks: int, *words: str, threads: int = 1) -> list[str]:
    """Return the command that runs one of our programs on a number of ranks. Local.

    Args:
        ranks: number of ranks.
        words: the program and its options, after options of `gondwana run`.
        threads: number of threads of each rank.
    """
    return [sys.executable, "-P", "-m", "gondwana.cli.main", "run", "-n", str(ranks), "-t", str(threads), *words]


def nodes_for(ranks: int, per_node: int | None) -> Nodes:
    """Return the nodes of a job whose ranks are divided over them. Local.

    Args:
        ranks: number of ranks.
        per_node: number of ranks of a node; None: the launcher, or the environment, decides.

    Raises:
        UsageError: the ranks do not fill nodes of so many.
    """
    if per_node is None or ranks <= per_node:
        return Nodes(per_node and ranks, {})
    if ranks % per_node:
        raise UsageError(f"--ranks-per-node {per_node}: {ranks} ranks do not fill nodes of {per_node}")
    return Nodes(per_node, {}) if ranks <= per_node * launch.nodes() else Nodes(None, {PRETENDED: str(per_node)})


def shared_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder that all nodes of a job see: below the current one if there are several. Local."""
    return tempfile.TemporaryDirectory(dir=Path.cwd() if launch.nodes() > 1 else None)


def job_options() -> dict[str, Any]:
    """Return the options of a program of ranks, its only argument; its errors are one line from now on. Local."""
    exits.install()
    exits.report_in_one_line()
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found


def bench_command(name: str, *words: str) -> list[str]:
    """Return the command that runs another benchmark. Local."""
    return [sys.executable, "-P", "-m", "gondwana.cli.main", "bench", name, *words]


def run(
    argv: Sequence[str], variables: Mapping[str, str] = os.environ, folder: str | Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its status. Local.

    Args:
        argv: the words of the command.
        variables: complete environment of the command.
        folder: working folder; None: the current one.

    Raises:
        UsageError: the command cannot be started.
    """
    with starting(argv[0]):
        return subprocess.run(
            argv, env=dict(variables), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )


def result(
    what: str,
    argv: Sequence[str],
    file: Path,
    variables: Mapping[str, str] = os.environ,
    folder: str | Path | None = None,
    *,
    successful: bool = False,
) -> Any:
    """Run a command to its end and return the JSON data in the file that it writes. Local.

    Args:
        what: name of the job in messages.
        argv: the words of the command.
        file: the file.
        variables: complete environment of the command.
        folder: working folder; None: the current one.
        successful: whether its status must be 0; else it only has to write the file.

    Raises:
        UsageError: the command cannot be started, or failed.
    """
    done = run(argv, variables, folder)
    if (successful and done.returncode) or not file.exists():
        raise UsageError(f"{what} ended with status {done.returncode}: {last_words(done.stdout, done.stderr)}")
    return json.loads(file.read_text())


@contextlib.contextmanager
def starting(program: str) -> Iterator[None]:
    """Check that a program can be started. Local.

    Raises:
        UsageError: it cannot be started.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{program} cannot be started ({error.strerror}): name a command that can") from None


def last_words(output: str, errors: str) -> str:
    r"""Return the last lines that a program printed, as one line, without those of its launcher. Local.

    Open MPI's launcher reports between two lines of dashes that a program has failed; where the program itself printed
    nothing, its report is returned.

    Args:
        output: standard output of the command.
        errors: standard error of the command, which is preferred.

    Example:
        >>> last_words("", "no such file\n----\nmpirun has exited\n----\n\0")
        'no such file'
    """
    said, reports = _without_reports(errors)
    said = said or _without_reports(output)[0] or reports
    return " | ".join(said[-_LAST_LINES:]) or "it printed nothing"


def _without_reports(text: str) -> tuple[list[str], list[str]]:
    """Return the lines outside and inside of pairs of lines of dashes, without empty ones."""
    parts: tuple[list[str], list[str]] = ([], [])
    inside = False
    for line in filter(None, (line.strip(_BLANK) for line in text.splitlines())):
        if line.strip("-="):
            parts[inside].append(line)
        else:
            inside = not inside
    return parts


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on: groups do not show those of a launcher. Local.

    Args:
        pid: number of the process; without such a process the list is empty.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found
