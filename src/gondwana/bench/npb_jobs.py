"""Running a parallel job to its end while looking at how much memory its ranks take."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gondwana.errors import UsageError

LONGEST_PAUSE = 0.1
"""Seconds between two looks at the memory of a long job, which must not be disturbed."""

IsRank = Callable[[Sequence[str]], bool]
"""Tells from the words of a command line whether the process is a rank, and no launcher."""


@dataclass(frozen=True)
class Job:
    """A command that starts ranks.

    Attributes:
        argv: its words.
        environment: all of its variables.
        is_rank: which of the processes are ranks.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    is_rank: IsRank


@dataclass(frozen=True)
class Finished:
    """A job that has ended.

    Attributes:
        status: of the command.
        output: standard output.
        errors: standard error.
        peak_memory: the sum over the ranks of the most bytes that each had in memory; None where the system does not
            tell.
    """

    status: int
    output: str
    errors: str
    peak_memory: int | None


def run(job: Job) -> Finished:
    """Run a job to its end. Local.

    Raises:
        UsageError: the command cannot be started.
    """
    try:
        return _run(job)
    except OSError as error:
        raise UsageError(f"{job.argv[0]} cannot be started ({error.strerror}); name a command that can") from None


def _run(job: Job) -> Finished:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            list(job.argv), env=dict(job.environment), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        ) as process:
            peaks = _watch(process, job.is_rank)
        memory = sum(peaks.values()) if peaks else None
        return Finished(process.returncode, _text(output), _text(errors), memory)


def _watch(process: subprocess.Popen[bytes], is_rank: IsRank) -> dict[int, int]:
    """Bytes by process. The system keeps the maximum of each, so that the last look before the end tells all."""
    peaks: dict[int, int] = {}
    start = time.monotonic()
    while process.poll() is None:
        for pid in (process.pid, *_descendants(process.pid)):
            with contextlib.suppress(OSError):
                if is_rank(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")):
                    peaks[pid] = max(peaks.get(pid, 0), _most(pid))
        time.sleep(min(LONGEST_PAUSE, 0.002 + (time.monotonic() - start) / 20))
    return peaks


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _most(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found
