"""Stops (SIGSTOP) of rank 0 and of others at random moments: the time limit ends the job, with a report."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from gondwana.runtime.supervisor import descendants
from support import jobs
from support.trials import GONDWANA, Running, Trials

PROGRAM = Path(__file__).parents[2] / "packages" / "gondwana" / "tests" / "parallel" / "programs" / "endless_phase.py"
PHASES = ("computing", "writing", "receiving")
"""Those in which Python can answer."""
WHO = ("rank 0", "rank 0", "rank 1", "all ranks", "everything below")
SOON = 90.0
"""Seconds after twice the time limit, within which a job has ended on a loaded machine."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        limit, ranks, phase, who = rng.randint(3, 10), rng.randint(2, 4), rng.choice(PHASES), rng.choice(WHO)
        delay = rng.uniform(0.0, limit)
        mpich = rng.random() < 0.3 and jobs.MPICH_PYTHON.exists()
        python, ranks = (str(jobs.MPICH_PYTHON), min(ranks, 2)) if mpich else (sys.executable, ranks)
        with tempfile.TemporaryDirectory() as folder:
            words = [python, *GONDWANA[1:], "run", "-n", str(ranks), "-t", "1", "--time-limit", str(limit)]
            job = Running([*words, str(PROGRAM), phase, folder])
            time.sleep(delay)
            for pid in stopped(job.process.pid, who, rng):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            ended = job.end(2 * limit + SOON)
        reported = (
            "where the ranks stand (the time limit" in ended.stderr or "in spite of its time limit" in ended.stderr
        )
        verdict = "reported" if ended.status == 124 and reported else ended.verdict
        if verdict in ("failed", "ran", "ended"):
            verdict = "unclear"
        trials.record(verdict, f"  {who} of {ranks} after {delay:.1f} s, limit {limit} s\n{ended}")
    return trials.counts


def stopped(launcher: int, who: str, rng: random.Random) -> list[int]:
    """The processes to stop: those of them that are there already."""
    family = descendants(launcher)
    ranks = {rank: pid for pid in family if (rank := rank_of(pid)) is not None}
    if who == "everything below":
        return rng.sample(family, len(family)) if ranks else []
    return list(ranks.values()) if who == "all ranks" else [ranks[who[-1]]] if who[-1] in ranks else []


def rank_of(pid: int) -> str | None:
    """The number of a rank; None: the process is none."""
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if word.startswith((b"PMIX_RANK=", b"PMI_RANK=")):
                return word.partition(b"=")[2].decode()
    return None
