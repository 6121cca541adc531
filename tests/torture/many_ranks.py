"""Jobs of many more ranks than cores: they use all that ranks have between them, fail, hang, or lose a rank.

A job ends within its time, with one report of what went wrong, and leaves no process and no file in memory behind.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from support.trials import FAILURES, GONDWANA, Judged, Running, Trials

PROGRAM = """
import os, sys, time
import gondwana as gw
from gondwana_bench.start import job

what, victim = sys.argv[1], int(sys.argv[2])
gw.world.barrier()
if what == "use":
    job.main(job.USED)
elif gw.world.rank == victim:
    if what == "raise":
        raise ValueError("the only one")
    if what == "leave":
        os._exit(3)
    time.sleep(1000)
gw.world.barrier()
"""
RANKS = (16, 24, 32, 48, 64)
ENDS = {"use": "", "raise": "ValueError: the only one", "leave": "terminated abnormally", "hang": "the time limit of"}
"""What a job does, and what is reported then."""

LONGEST = 300.0
LIMIT = 120.0
"""Seconds of a job, and of those that hang."""

MEMORY = Path("/dev/shm")
"""Where a job has a folder for the files of Open MPI, named by the process that has started it; ours have no name."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        ranks, what = rng.choice(RANKS), rng.choice(list(ENDS))
        per_node = rng.choice([0, *(size for size in (4, 8, 16) if ranks % size == 0)])
        with TemporaryDirectory() as root:
            job = start(rng, ranks, what, per_node, Path(root))
            ended = job.end(1.5 * LONGEST)
        verdict = verdict_of(ended, what)
        left = [path.name for path in MEMORY.glob(f"gondwana-{job.process.pid}-*")]
        trials.record("orphan" if left and verdict not in FAILURES else verdict, f"  left in memory: {left}\n{ended}")
    return trials.counts


def start(rng: random.Random, ranks: int, what: str, per_node: int, folder: Path) -> Running:
    (folder / "program.py").write_text(PROGRAM)
    limit = ["--time-limit", f"{LIMIT if what == 'hang' else LONGEST:g}"]
    words = [*GONDWANA, "run", "-n", str(ranks), "-t", "1", "--oversubscribe", *limit, "program.py", what]
    variables = {"GONDWANA_RANKS_PER_NODE": str(per_node)} if per_node else {}
    return Running([*words, str(rng.randrange(ranks))], cwd=folder, variables=variables)


def verdict_of(ended: Judged, what: str) -> str:
    """Whether a job did what it was to do: "ran", or "ended" with one report."""
    if ended.verdict in ("hang", "orphan", "crash"):
        return ended.verdict
    if what == "use":
        return ended.verdict
    traces = ended.stderr.count("Traceback (most recent call last)")
    if ended.status == 0 or ENDS[what] not in ended.stderr or traces != (what == "raise"):
        return "unclear"
    return "ended"
