"""Processes that ranks start: each is one rank of its own, below any launcher, however late or crowded all of it is."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path

from gondwana.cli import launch
from support import jobs
from support.trials import GONDWANA, Running, Trials

PROGRAM = Path(__file__).parents[2] / "packages" / "gondwana" / "tests" / "parallel" / "programs" / "children.py"
FOUND = (
    "child (0, 1) of None, grandchild (0, 1) status 0 status 0; spawn (0, 1, 5); forkserver (0, 1, 5); "
    "job grandchild (0, 2) grandchild (1, 2) status 0"
)
"""What each rank prints of its children."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        ranks, words, variables = command(rng)
        ended = Running(words, variables=variables).end(240)
        verdict = ended.verdict
        if verdict == "ran" and sorted(ended.stdout.splitlines()) != expected(ranks):
            verdict = "wrong"
        trials.record(verdict, str(ended))
    return trials.counts


def expected(ranks: int) -> list[str]:
    """The sorted output of a job."""
    return [f"rank ({rank}, {ranks}): {FOUND}" for rank in range(ranks)]


def command(rng: random.Random) -> tuple[int, list[str], Mapping[str, str]]:
    """How many ranks, the command that starts them, and its variables."""
    ranks, how = rng.randint(1, 4), rng.choice(("gondwana run", "MPI's launcher", "a shell"))
    python = str(jobs.MPICH_PYTHON) if rng.random() < 0.3 and jobs.MPICH_PYTHON.exists() else sys.executable
    program = [str(PROGRAM), rng.choice(("first", "rank"))]
    alone = {"GONDWANA_MPI": "1"} if ranks == 1 and rng.random() < 0.5 else {}
    if how == "gondwana run":
        return ranks, [python, *GONDWANA[1:], "run", "-n", str(ranks), "-t", "1", *program], alone
    job = launch.command(ranks, program, threads=1, python=python)
    words = list(job.argv)
    if how == "a shell":
        place = words.index(python)
        words[place:place] = ["sh", "-c", '"$@"; exit $?', "sh"]
    return ranks, words, {**job.variables, **alone}
