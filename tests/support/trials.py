"""Random tries with a seed, their outcomes by count, and commands that are judged by how they end."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support import jobs

FAILURES = ("crash", "hang", "orphan", "traceback", "wrong", "unclear")
"""Outcomes that must not happen: ended by a signal, never ended, left a process behind, printed a traceback for bad
input, gave a wrong result, failed without one line that says why."""

GONDWANA = (sys.executable, "-m", "gondwana.cli.main")

ONLY = "TORTURE_ONLY"
"""Names the variable with the number of the one try to make."""

_MARK = "TORTURE_TRY"
_FATAL = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGKILL)


class Trials:
    """Tries of one part of the torture until its minutes are over, counted by outcome.

    Args:
        part: name of the part, usually `__name__`.
        minutes: time during which new tries are begun.
        seed: seed which, with the number of a try, decides all that is random in this try.
        only: the number of the one try to make, whatever the minutes; None: $TORTURE_ONLY, or all.
    """

    def __init__(self, part: str, minutes: float, seed: int, only: int | None = None) -> None:
        named = os.environ.get(ONLY)
        self.part = part.rpartition(".")[2]
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self._end = time.monotonic() + 60 * minutes
        self._only = only if only is not None else int(named) if named else None
        self._number = 0

    def __iter__(self) -> Iterator[random.Random]:
        if self._only is not None:
            yield self._begin(self._only)
            return
        number = 0
        while time.monotonic() < self._end:
            yield self._begin(number)
            number += 1

    def record(self, outcome: str, details: str = "") -> None:
        """Count the outcome of this try; a failure is printed with the command that repeats it."""
        self.counts[outcome] += 1
        if outcome in FAILURES:
            print(f"{self.part}: seed {self.seed}, try {self._number}: {outcome.upper()}\n{details}", flush=True)

    def _begin(self, number: int) -> random.Random:
        self._number = number
        self.counts["tries"] += 1
        return random.Random(f"{self.part} {self.seed} {number}")


@dataclass(frozen=True)
class Judged:
    """The end of a command.

    Attributes:
        verdict: "ran" (status 0), "refused" (status 2 and one line), "failed" (another status and one line, or none but
            a result on standard output), "ended" (by a signal that was sent to it), or one of `FAILURES`.
        status: exit status; negative: the signal that ended it.
        stdout: standard output of all ranks together.
        stderr: standard error of all ranks together.
        command: command line in the syntax of a shell.
    """

    verdict: str
    status: int
    stdout: str
    stderr: str
    command: str

    def __str__(self) -> str:
        output = f"{self.stdout[-2000:]}{self.stderr[-6000:]}"
        return f"  {self.command}\n  status {self.status}\n" + "".join(f"  | {line}\n" for line in output.splitlines())


def judge(
    argv: Sequence[str],
    *,
    timeout: float = 120,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Judged:
    """Run a command to its end and judge it; none of its processes is left afterwards.

    Args:
        argv: the words of the command.
        timeout: seconds after which it hangs.
        cwd: the folder in which it works; None: the current one.
        variables: environment variables to set beside those that are there.
    """
    return Running(argv, cwd=cwd, variables=variables).end(timeout)


class Running:
    """A command that has been started, for tries that do something to it before it ends.

    Args:
        argv: the words of the command.
        cwd: the folder in which it works; None: the current one.
        variables: environment variables to set beside those that are there.

    Attributes:
        process: the process, in a process group of its own.
        mark: the same for all processes that it starts; see `marked`.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.process = jobs.start_command(argv, variables={**(variables or {}), _MARK: self.mark}, cwd=cwd)
        self._command = shlex.join(argv)

    def end(self, timeout: float) -> Judged:
        """Wait for its end and judge it; after so many seconds it hangs. None of its processes is left afterwards."""
        hangs = False
        try:
            stdout, stderr = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            hangs = True
            end_marked(self.mark)
            stdout, stderr = self.process.communicate()
        finally:
            left = jobs.left_behind(marked(self.mark))
            end_marked(self.mark)
        status = self.process.returncode
        verdict = "hang" if hangs else "orphan" if left else verdict_of(status, stdout, stderr)
        return Judged(verdict, status, stdout, stderr, self._command)


def verdict_of(status: int, stdout: str, stderr: str) -> str:
    """Return the verdict on the end of a command: see `Judged`."""
    if "Traceback (most recent call last)" in stderr + stdout:
        return "traceback"
    ended_by = -status if status < 0 else status - 128
    if ended_by in _FATAL or "Fatal Python error" in stderr:
        return "crash"
    if status < 0:
        return "ended"
    if status == 0:
        return "ran"
    errors = [line for line in stderr.splitlines() if line.startswith("gondwana: error: ")]
    if len(errors) == 1:
        return "refused" if status == 2 else "failed"
    return "failed" if status == 1 and not errors and stdout.strip() else "unclear"


def marked(mark: str) -> list[int]:
    """Return the processes of the try with this mark, also those that have another parent now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end_marked(mark: str) -> None:
    """Kill the processes of the try with this mark."""
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
