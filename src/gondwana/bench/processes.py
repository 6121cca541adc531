"""Processes that benchmarks start."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gondwana.errors import UsageError


class Command(NamedTuple):
    """A command and its whole environment."""

    argv: Sequence[str]
    variables: Mapping[str, str]


def our_command(ranks: int, *words: str, threads: int = 1) -> list[str]:
    """Return the command that runs one of our programs on a number of ranks. Local.

    Args:
        ranks: how many.
        words: the program and its options, after options of `gondwana run`.
        threads: of each rank.
    """
    return [sys.executable, "-P", "-m", "gondwana.cli.main", "run", "-n", str(ranks), "-t", str(threads), *words]


def run(
    argv: Sequence[str], variables: Mapping[str, str] = os.environ, folder: str | Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its status. Local.

    Args:
        argv: the words of the command.
        variables: its whole environment.
        folder: where it works; None: here.

    Raises:
        UsageError: it cannot be started.
    """
    with starting(argv[0]):
        return subprocess.run(
            argv, env=dict(variables), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )


@contextlib.contextmanager
def starting(program: str) -> Iterator[None]:
    """Check that a program can be started. Local.

    Raises:
        UsageError: it cannot.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{program} cannot be started ({error.strerror}): name a command that can") from None


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a command printed, of stderr if there is one. Local."""
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
