"""Kills of launchers and ranks at random moments: no process of the job is left a few seconds later.

Alone, with a number of tries instead of minutes: ``PYTHONPATH=tests python -m torture.orphans --tries 200 --seed 1``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gondwana.cli import launch
from gondwana.runtime.supervisor import descendants
from support import jobs
from support.trials import FAILURES, GONDWANA, Running, Trials, end_marked, marked

PROGRAM = Path(__file__).parents[2] / "packages" / "gondwana" / "tests" / "parallel" / "programs" / "endless_phase.py"
PHASES = ("starting", "computing", "compiling", "writing", "waiting", "spinning", "receiving", "stopping")
VICTIMS = ("launcher", "MPI's launcher", "rank", "launcher and rank", "MPI's launcher and rank", "all but a rank")
PATIENCE = 5.0
"""Seconds after which no process may be left."""

START = 90.0
"""Seconds that a job has to begin its phase."""


@dataclass(frozen=True)
class Case:
    """What is started, and what is killed."""

    ranks: int
    phase: str
    victims: str
    supervised: bool
    delay: float
    python: str = sys.executable
    wrapped: bool = False

    @classmethod
    def drawn(cls, rng: random.Random) -> Case:
        """A case of this try."""
        phase = rng.choice(PHASES)
        delay = rng.uniform(0.0, 2.5 if phase == "starting" else 1.0)
        case = cls(rng.randint(2, 6), phase, rng.choice(VICTIMS), rng.random() < 0.6, delay)
        if rng.random() < 0.2 and jobs.MPICH_PYTHON.exists():
            # Its ranks do not yield, so that many on few cores would take minutes to start.
            return replace(case, ranks=min(case.ranks, 3), python=str(jobs.MPICH_PYTHON))
        return case

    def command(self, folder: Path) -> tuple[list[str], Mapping[str, str]]:
        """Its command line and variables; unsupervised, it is that of MPI's launcher, as users have it.

        Wrapped, a shell stands between it and each rank.
        """
        program = [str(PROGRAM), "computing" if self.phase == "starting" else self.phase, str(folder)]
        if self.supervised:
            return [self.python, *GONDWANA[1:], "run", "-n", str(self.ranks), "-t", "1", *program], {}
        command = launch.command(self.ranks, program, threads=1, python=self.python)
        words = list(command.argv)
        if self.wrapped:
            place = words.index(self.python)
            words[place:place] = ["sh", "-c", '"$@"; exit $?', "sh"]
        return words, command.variables


def seconds_to_end(case: Case, patience: float = PATIENCE) -> tuple[float | None, str]:
    """Start a job, kill what the case says, and return after how long nothing of it was left, and the job's output.

    The time is None if something was left after the patience; it is killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        argv, variables = case.command(Path(folder))
        job = Running(argv, variables=variables)
        process, mark = job.process, job.mark
        begun = False
        try:
            begun = _wait_for_phase(case, Path(folder), process)
            time.sleep(case.delay)
            for pid in _victims(case, process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            process.poll()
            while (left := marked(mark)) and time.monotonic() < killed + patience:
                time.sleep(0.02)
                process.poll()
            passed = time.monotonic() - killed
            commands = "".join(f"  left: {pid} {_command_of(pid)}\n" for pid in left)
        finally:
            end_marked(mark)
            stdout, stderr = process.communicate()
    output = f"  {case}\n{commands}  | {(stdout + stderr)[-3000:]}"
    assert begun, f"the job has ended, or not begun in time:\n{output}"
    return None if left else passed, output


def _wait_for_phase(case: Case, folder: Path, process: subprocess.Popen[str]) -> bool:
    """Wait until all ranks are where they are to be; return whether they are."""
    end = time.monotonic() + START
    while case.phase != "starting" and len(list(folder.glob("here.*"))) < case.ranks:
        if time.monotonic() > end or process.poll() is not None:
            return False
        time.sleep(0.02)
    return True


def _victims(case: Case, pid: int) -> list[int]:
    """The processes to kill: those of them that are there already."""
    family = descendants(pid)
    ranks = [one for one in family if _is_rank(one)]
    mpi = family[:1] if case.supervised and family else [pid]
    return {
        "launcher": [pid],
        "MPI's launcher": mpi,
        "rank": ranks[-1:],
        "launcher and rank": [pid, *ranks[-1:]],
        "MPI's launcher and rank": [*mpi, *ranks[:1]],
        "all but a rank": [*ranks[1:], *mpi, pid],
    }[case.victims]


def _is_rank(pid: int) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return any(word.startswith((b"PMIX_RANK=", b"PMI_RANK=")) for word in words)
    return False


def _command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return "(ended now)"


def _try(trials: Trials, rng: random.Random) -> float:
    """Make one try, and return how long the job took to end."""
    case = Case.drawn(rng)
    if case.phase == "starting" and case.victims == "rank":
        case = replace(case, phase="computing")  # there may be none yet
    passed, output = seconds_to_end(case)
    trials.record("orphan" if passed is None else "ended", output)
    return PATIENCE if passed is None else passed


def main(minutes: float, seed: int) -> Mapping[str, int]:
    """The part of the torture."""
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        _try(trials, rng)
    return trials.counts


def count() -> int:
    """Make a number of tries, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    trials = Trials("orphans", float("inf"), options.seed)
    times = sorted(_try(trials, rng) for rng in itertools.islice(trials, options.tries))
    print(dict(trials.counts), f"median {times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s")
    return 1 if any(trials.counts[failure] for failure in FAILURES) else 0


if __name__ == "__main__":
    sys.exit(count())
