"""Jobs that go on: a job is started again when a rank, a host or the launcher is lost, on the hosts that are left.

An error of the program ends it for good, as do a signal from outside and the time limit. The program learns how often
it was started (`gondwana.restarted`), and continues from a checkpoint.

For the supervisor, which is executed without the package: this module imports nothing of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

TYPE_CHECKING = False  # as in `typing`, which takes as long to import as all the rest

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

HOST_LISTS = (
    "PRTE_MCA_prte_default_hostfile",
    "I_MPI_HYDRA_HOST_FILE",
    "HYDRA_HOST_FILE",
    "PBS_NODEFILE",
    "LSB_DJOB_HOSTFILE",
)
"""Variables that name the file in which a launcher finds its hosts, one a line: see `cli.launch`."""

HOST_ANSWER = 20.0
"""Seconds in which a host must start a process, or it is left out at a restart."""

RESTARTS, RESTARTED = "GONDWANA_RESTARTS", "GONDWANA_RESTARTED"
"""Variables with the number of restarts that are wished, and of those that there have been."""


class Job(Protocol):
    """A job that has started.

    Attributes:
        lost: what it has lost when it has ended, "" if it has ended by itself.
    """

    lost: str

    def run(self) -> int:
        """Wait for the end of the job, and return its status. Local; blocks."""

    def without(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts the job again, on the hosts that are left. Local; blocks."""


def supervise(start: Callable[[Sequence[str]], Job], command: Sequence[str], report: Callable[[str], None]) -> int:
    """Run a job, again as often as is wished if a rank, a host or its launcher is lost; return the status. Blocks.

    Args:
        start: starts a job.
        command: the launcher with its arguments.
        report: prints a line.
    """
    most, environment = int(os.environ.get(RESTARTS, "0")), dict(os.environ)
    losses: list[str] = []
    while True:
        job = start(command)
        status = job.run()
        if job.lost:
            losses.append(job.lost)
        if not job.lost or len(losses) > most:
            break
        os.environ.clear()  # of what was made for this start
        os.environ.update(environment | {RESTARTED: str(len(losses))})
        command = job.without(command)
        report(f"restart {len(losses)} of {most}: {job.lost}")
        environment = dict(os.environ)
    for name in _host_files:
        os.unlink(name)
    if most and job.lost:
        ranks = {loss.partition(" (")[0] for loss in losses}
        same = f" {ranks.pop()} was lost at each of {len(losses)} starts;" if len(ranks) == 1 else ""
        report(f"giving up after {most} restart{'s' * (most > 1)}:{same} the last loss: {job.lost}")
    return status


def _that_answer(launcher: str, hosts: list[str], variables: dict[str, str]) -> set[str]:
    """Return the hosts on which a launcher can start a process.

    Args:
        launcher: the launcher.
        hosts: names of the hosts.
        variables: variables of the environment.
    """
    import subprocess

    option = "-hosts" if os.path.basename(launcher).startswith("mpiexec.hydra") else "--host"
    trials = [
        subprocess.Popen(
            [launcher, "-n", "1", option, host, "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | variables,
        )
        for host in hosts
    ]
    end, left = time.monotonic() + HOST_ANSWER, set()
    for host, trial in zip(hosts, trials, strict=True):
        try:
            if trial.wait(max(0.0, end - time.monotonic())) == 0:
                left.add(host)
        except subprocess.TimeoutExpired:
            trial.kill()
            trial.wait()
    return left


_host_files: list[str] = []
"""Lists of hosts that were made for restarts."""


def host_list() -> str | None:
    """Return the variable that names a list of hosts, None if there is none. Local."""
    return next((name for name in HOST_LISTS if os.path.isfile(os.environ.get(name, ""))), None)


def on_hosts_left(command: Sequence[str], sessions: str, report: Callable[[str], None]) -> list[str]:
    """Return the command for the hosts that answer, of those in a list that a variable names. Local; blocks.

    The variable gets another list then.

    Args:
        command: the launcher with its arguments.
        sessions: name of the variable with the folder for the launcher's files.
        report: prints a line.
    """
    name = host_list()
    if name is None:
        return list(command)
    import tempfile

    with open(os.environ[name], encoding="utf-8") as file:
        lines = [line for line in file if line.partition("#")[0].split()]
    hosts = list(dict.fromkeys(line.split()[0].partition(":")[0] for line in lines))
    with tempfile.TemporaryDirectory() as folder:
        left = _that_answer(command[0], hosts, {sessions: folder})
    if not left or len(left) == len(hosts):
        return list(command)
    report(f"hosts that do not answer: {', '.join(host for host in hosts if host not in left)}")
    with tempfile.NamedTemporaryFile("w", prefix="gondwana-hosts-", delete=False, encoding="utf-8") as kept:
        kept.writelines(line for line in lines if line.split()[0].partition(":")[0] in left)
    _host_files.append(kept.name)
    command = [kept.name if word == os.environ[name] else word for word in command]
    os.environ[name] = kept.name
    each = next((word.split(":")[1] for word in command if word.startswith("ppr:")), None)  # ranks of a node
    if each is not None:
        command[command.index("-n") + 1] = str(int(each) * len(left))
    return command
