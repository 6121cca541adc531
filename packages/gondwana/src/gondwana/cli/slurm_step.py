"""The supervisor of a job that `srun` starts as a step of an allocation of Slurm.

At SIGTERM, srun kills all ranks at once, wherever they are. So they are asked by `scancel`, which reaches all hosts.
Slurm ends the ranks itself when it ends the allocation. Executed by its path, like `gondwana.runtime.supervisor`, with
the same arguments.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING or __name__ != "__main__":
    from gondwana.runtime import supervisor
else:
    # At the end, so that none of its files hides a module of Python's.
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "runtime"))
    import supervisor

NAME = "--job-name="
"""Prefix of the word of srun that names the step."""

ANSWER = 30.0
"""Seconds that Slurm has to answer."""


class Step(supervisor.Supervisor):
    """A step, its process and its signals. Local; starts srun.

    Args:
        command: srun with its arguments, of which one names the step.
        end_signal: signal that makes srun end the step.
    """

    grants = ", less if Slurm ends the job"

    def __init__(self, command: Sequence[str], end_signal: int) -> None:
        self._name = next(word.removeprefix(NAME) for word in command if word.startswith(NAME))
        # From here it cannot be seen whether the ranks write.
        super().__init__(command, end_signal, supervisor.LONGEST)

    def prepare(self) -> list[str]:
        """Leave the standard input to srun, which passes it on to rank 0, wherever that is. Local."""
        return []

    def without(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts the step again, on the nodes of the allocation that are left. Local."""
        found, words = list(command), self.lost.split()
        if words[:1] == ["host"]:
            left = str(int(os.environ.get("SLURM_JOB_NUM_NODES", "2")) - 1)
            found = [word for word in found if not word.startswith("--ntasks-per-node=")]
            if "-N" in found:
                found[found.index("-N") + 1] = left
            else:
                found[1:1] = ["-N", left]
            # Slurm keeps the lost step until its node is back, on the others, too.
            found[1:1] = [f"--exclude={words[1]}", "--overcommit", "--overlap"]
            os.environ.update(dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), left))
        return found

    def ask(self, number: int) -> bool:
        """Have Slurm send SIGTERM to all ranks, and return whether it does; those that do not handle it end. Local."""
        job = f"--jobs={os.environ.get('SLURM_JOB_ID', '')}"
        listed = _output("squeue", "--steps", "--noheader", job, "--format=%i %j")
        steps = [words[0] for line in listed.splitlines() if (words := line.split())[1:] == [self._name]]
        if steps:
            _output("scancel", f"--signal={signal.SIGTERM:d}", *steps)
            return True
        # Slurm ends the job, which is why this process has the signal, and the ranks have it already.
        return _output("squeue", "--noheader", job, "--format=%T").strip() not in ("RUNNING", "")


def _output(*words: str) -> str:
    """The output of a command of Slurm, "" if it fails."""
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=ANSWER, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


if __name__ == "__main__":
    sys.exit(supervisor.supervise(Step))
