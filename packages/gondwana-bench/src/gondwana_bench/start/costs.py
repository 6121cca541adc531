"""Start and end of a job, and the resources of its ranks, beside mpi4py and a C program that only connect."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from gondwana.errors import UsageError
from gondwana_bench import build
from gondwana_bench.measure import in_turns
from gondwana_bench.processes import Command, StartNative, last_words, our_command, starting
from gondwana_bench.rows import Row, relative
from gondwana_bench.start.job import FIRST, MPI4PY, OURS, STEPS, USED
from gondwana_bench.statistics import summarize

RANKS = "1,2,4,8,16"
C = "C"
"""The rival."""

COLUMNS = {
    "ranks": "ranks", "program": "program", "job_seconds": "s", "processor_seconds": "processor s a rank",
    "megabytes": "MB a rank", "descriptors": "most descriptors", "ratio": "C's time/its (95 %)", "verified": "right",
}  # fmt: skip

PROGRAMS = 6

_PROGRAM = str(Path(__file__).with_name("job.py"))


@dataclass(frozen=True)
class Run:
    """The resources of a job.

    Attributes:
        seconds: seconds from its command to its end.
        processor_seconds: processor time of all its processes, the launcher included.
        megabytes: memory of all ranks; shared pages count once.
        descriptors: largest number of open descriptors of a rank; None if it was not measured.
    """

    seconds: float
    processor_seconds: float
    megabytes: float
    descriptors: int | None


def measure(mpi: Path, native: StartNative, counts: Sequence[int], *, repeat: int = 3) -> Iterator[Row]:
    """Run all programs in every round, in an order that rotates. Local: starts one job after another.

    Args:
        mpi: the file of the MPI library.
        native: starts programs that are not ours.
        counts: numbers of ranks.
        repeat: rounds; one more before them does not count, in which the machine code is compiled.

    Returns:
        A row for each program and number of ranks.

    Raises:
        UsageError: a job failed, or no C compiler was found.
    """
    in_c = str(build.program_with_mpi("start.c", mpi))
    with tempfile.TemporaryDirectory() as folder:
        empty = {**os.environ, "GONDWANA_CACHE_DIR": os.path.join(folder, "cache")}
        ours = {OURS: os.environ, USED: os.environ, STEPS: os.environ, FIRST: empty}
        for ranks in counts:
            commands: dict[str, Command] = {
                **{name: Command(our_command(ranks, "--oversubscribe", _PROGRAM, name), ours[name]) for name in ours},
                MPI4PY: native(ranks, [sys.executable, "-P", _PROGRAM, MPI4PY]),
                C: native(ranks, [in_c]),
            }
            jobs = {name: partial(_run, name, ranks, *command) for name, command in commands.items()}
            runs = in_turns(jobs, repeat, discard=1)
            yield from (row_of(ranks, name, runs) for name in runs)


def row_of(ranks: int, name: str, runs: Mapping[str, Sequence[Run]]) -> Row:
    """Return the row of a program from its jobs and those of C. Local."""
    own = runs[name]
    seconds = summarize([run.seconds for run in own])
    descriptors = [run.descriptors for run in own if run.descriptors is not None]
    return {
        "ranks": ranks,
        "program": name,
        "job_seconds": seconds.median,
        "processor_seconds": summarize([run.processor_seconds / ranks for run in own]).median,
        "megabytes": summarize([run.megabytes / ranks for run in own]).median,
        "descriptors": max(descriptors, default=None),
        **relative(None if name == C else [run.seconds for run in runs[C]], [run.seconds for run in own]),
        "verified": True,
        "seconds": asdict(seconds),
    }


def _run(name: str, ranks: int, argv: Sequence[str], variables: Mapping[str, str]) -> Run:
    """Run a job to its end.

    Raises:
        UsageError: the job failed.
    """
    if name == FIRST:
        shutil.rmtree(variables["GONDWANA_CACHE_DIR"], ignore_errors=True)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors, starting(argv[0]):
        start = time.perf_counter()
        process = subprocess.Popen(argv, env=dict(variables), stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text = output.read()
        if process.returncode:
            raise UsageError(f"{name} on {ranks} ranks failed: {last_words(text, errors.read())}")
    found = json.loads(text.split("\n", 1)[0])
    kib, descriptors = (found, None) if name == C else found
    return Run(seconds, usage.ru_utime + usage.ru_stime, kib / 1024, descriptors)
