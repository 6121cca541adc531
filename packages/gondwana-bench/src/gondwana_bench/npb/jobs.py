"""Running of a parallel job while measuring the memory of its ranks."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gondwana_bench.processes import descendants, starting

LONGEST_PAUSE = 0.1
"""Seconds between two measurements of the memory of a long job, which must not be disturbed."""

IsRank = Callable[[Sequence[str]], bool]
"""Returns whether the process with a command line is a rank rather than a launcher."""


@dataclass(frozen=True)
class Job:
    """A command that starts ranks.

    Attributes:
        argv: words of the command.
        environment: all of its variables.
        is_rank: function that returns whether a process is a rank.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    is_rank: IsRank


@dataclass(frozen=True)
class Finished:
    """A job that has ended.

    Attributes:
        status: exit status of the command.
        output: standard output.
        errors: standard error.
        peak_rss: the sum over the ranks of the most bytes that each had in memory; None if the system has none.
        peak_memory: the most bytes that all ranks had in memory together, pages that several have counted once, as
            sampled; None if it was not measured, because that takes time of the ranks.
    """

    status: int
    output: str
    errors: str
    peak_rss: int | None
    peak_memory: int | None


def run(job: Job, *, with_peak_memory: bool = False) -> Finished:
    """Run a job to its end. Local.

    Args:
        job: the job.
        with_peak_memory: whether to measure `peak_memory`.

    Raises:
        UsageError: the command cannot be started.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        with starting(job.argv[0]):
            process = subprocess.Popen(
                list(job.argv), env=dict(job.environment), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )
        with process:
            peak_rss, peak_memory = _watch(process, job.is_rank, with_peak_memory)
        return Finished(process.returncode, _text(output), _text(errors), peak_rss or None, peak_memory or None)


def _watch(process: subprocess.Popen[bytes], is_rank: IsRank, with_peak_memory: bool) -> tuple[int, int]:
    """Return the two peaks of `Finished` in bytes. The system records each rank's maximum of the first."""
    peaks: dict[int, int] = {}
    peak_together = 0
    start = time.monotonic()
    while process.poll() is None:
        together = 0
        for pid in (process.pid, *descendants(process.pid)):
            with contextlib.suppress(OSError):
                if is_rank(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")):
                    peaks[pid] = max(peaks.get(pid, 0), _bytes(pid, "status", "VmHWM:"))
                    together += _bytes(pid, "smaps_rollup", "Pss:") if with_peak_memory else 0
        peak_together = max(peak_together, together)
        time.sleep(min(LONGEST_PAUSE, 0.002 + (time.monotonic() - start) / 20))
    return sum(peaks.values()), peak_together


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _bytes(pid: int, file: str, key: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return 0
