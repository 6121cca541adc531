"""A real Slurm, Debian's, on a login node and compute nodes that are hosts of one machine, for an ordinary user.

Nodes have a root of their own, in memory, so that Slurm is not installed on this machine; the user has one home on all.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support import jobs
from support.cluster import packages
from support.cluster.hosts import CannotBuildError, Host, hosts, missing

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "libpmi2-0", "libpmix2")

USER, NAME = 4242, "ada"
"""Number and name of the ordinary user."""

CORES = 4
"""Of each node, whatever this machine has."""

START = 60
"""Seconds until all nodes must be ready."""

_CONFIGURATION = """
ClusterName=gondwana
SlurmctldHost={login}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1
LaunchParameters=use_interactive_step
MpiDefault=none
ReturnToService=2
KillWait={kill_wait}
SlurmdTimeout=10
InactiveLimit=0
PropagateResourceLimitsExcept=MEMLOCK
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

KILL_WAIT = 30
"""Seconds between SIGTERM and SIGKILL when the time of a job is over: Slurm's default."""

_PREPARATION = """
cat > /etc/slurm/slurm.conf
echo {name}:x:{user}: >> /etc/group
echo {name}:x:{user}:{user}::/home/{name}:/bin/bash >> /etc/passwd
mkdir -p /home/{name} /run/munge /var/spool/slurmctld /etc/munge /var/log/munge /var/lib/munge
chown {user}:{user} /home/{name}
head -c 128 /dev/urandom > /etc/munge/munge.key
chmod 600 /etc/munge/munge.key
for program in slurmctld slurmd slurmstepd; do
    test -e /usr/sbin/$program || ln -s $program-wlm /usr/sbin/$program
done
for library in /usr/lib/*/pmix2/lib/libpmix.so.2; do
    test -e "${{library%.2}}" || ln -s libpmix.so.2 "${{library%.2}}"
done
for folder in {opened}; do chmod o+rx $folder; done
setsid munged --force > /var/log/munge/out 2>&1 < /dev/null
"""
"""Steps that packages leave to an administrator, or to their installation. Slurm asks for PMIx by a link's name."""


@dataclass(frozen=True)
class Cluster:
    """A login node and compute nodes with Slurm."""

    login: Host
    nodes: tuple[Host, ...]
    home: Path = field(default=Path("/home", NAME))

    def command(self, words: Sequence[str], variables: Mapping[str, str] | None = None) -> list[str]:
        """Return the command that runs words as the user on the login node, in its home and a fresh environment."""
        clean = {"HOME": str(self.home), "USER": NAME, "LOGNAME": NAME, "SHELL": "/bin/bash", "LANG": "C.UTF-8"}
        clean["PATH"] = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        settings = [f"{name}={value}" for name, value in {**clean, **(variables or {})}.items()]
        return [*self.login.enter(self.home, user=USER), "env", "-i", *settings, *words]

    def run(self, *words: str, timeout: float = 60, variables: Mapping[str, str] | None = None) -> jobs.Outcome:
        """Run a command as the user on the login node to its end.

        Once more where Open MPI 5.0 has crashed inside of MPI_Init, as a message of a faster rank rarely makes it do.
        """
        outcome = jobs.run_command(self.command(words, variables), timeout=timeout)
        if "Segmentation fault" in outcome.stderr and "ompi_mpi_init+" in outcome.stderr:
            outcome = jobs.run_command(self.command(words, variables), timeout=timeout)
        return outcome

    def script(self, text: str, timeout: float = 60, variables: Mapping[str, str] | None = None) -> jobs.Outcome:
        """Run commands of a shell as the user on the login node to their end."""
        return self.run("bash", "-c", text, timeout=timeout, variables=variables)

    def write(self, name: str, text: str) -> str:
        """Write a file into the home, and return its path there."""
        path = self.login.seen(self.home / name)
        path.write_text(text)
        os.chown(path, USER, USER)
        return str(self.home / name)

    def read(self, name: str) -> str:
        """Return the text of a file in the home."""
        return self.login.seen(self.home / name).read_text()

    def left(self) -> list[str]:
        """Return the processes, and files in shared and temporary memory, that the user has on any host."""
        found = []
        for host in (self.login, *self.nodes):
            text = host.run("sh", "-c", f"ps -o pid=,args= -u {USER}; ls -A /dev/shm /tmp; true")
            found += [f"{host.name}: {line}" for line in text.splitlines() if line and not line.endswith(":")]
        return found


@contextlib.contextmanager
def slurm(names: Sequence[str] = ("alpha", "beta", "gamma")) -> Iterator[Cluster]:
    """Start a cluster with nodes of these names; end it and leave nothing.

    Raises:
        CannotBuildError: this machine cannot have one; the text says what is missing.
    """
    if (reason := missing()) is not None:
        raise CannotBuildError(reason)
    layer = packages.unpacked(PACKAGES)
    with hosts(["login", *names], layers=[layer]) as (login, *nodes), contextlib.ExitStack() as stack:
        _prepare(login, nodes)
        try:
            stack.enter_context(_daemon([*login.enter(), "slurmctld", "-D"]))
            for node in nodes:
                stack.enter_context(_daemon([*node.enter(), "slurmd", "-D", "-N", node.name]))
            _wait_until_ready(login, len(nodes))
        except subprocess.CalledProcessError as error:
            raise CannotBuildError(f"Slurm does not start here: {error.stderr.strip()}") from error
        yield Cluster(login, tuple(nodes))


def _prepare(login: Host, nodes: Sequence[Host]) -> None:
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    listed = [
        f"NodeName={node.name} NodeAddr={node.address} CPUs={CORES} Boards=1 SocketsPerBoard=1 CoresPerSocket={CORES} "
        f"ThreadsPerCore=1 RealMemory={megabytes // (len(nodes) + 1)} State=UNKNOWN"
        for node in nodes
    ]
    text = _CONFIGURATION.format(login=login.name, address=login.address, nodes="\n".join(listed), kill_wait=KILL_WAIT)
    lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in (login, *nodes))]
    preparation = _PREPARATION.format(name=NAME, user=USER, opened=shlex.join(_closed()))
    script = f"echo {shlex.quote(chr(10).join(lines))} > /etc/hosts{preparation}"
    done = subprocess.run(
        [*login.enter(), "sh", "-e", "-c", script], input=text, capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        raise CannotBuildError(f"Slurm cannot be prepared here: {done.stderr.strip()}")


def _closed() -> list[str]:
    """Folders on the way to this Python that are not for everybody, which the user's ranks must pass."""
    ways = {folder for path in (sys.base_prefix, sys.prefix, jobs.ROOT) for folder in (Path(path), *Path(path).parents)}
    return sorted(str(folder) for folder in ways if folder.stat().st_mode & 0o5 != 0o5)


@contextlib.contextmanager
def _daemon(words: Sequence[str]) -> Iterator[None]:
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as running:
        try:
            yield
        finally:
            jobs.kill_group(running)


def _wait_until_ready(login: Host, number: int) -> None:
    end = time.monotonic() + START
    while True:
        done = subprocess.run(
            [*login.enter(), "sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, timeout=START
        )
        if done.stdout.strip() == str(number):
            return
        if time.monotonic() > end:
            logs = login.run("sh", "-c", "tail -qn 1 /var/log/slurm*.log")
            raise CannotBuildError(f"Slurm's nodes are not ready within {START} s: {done.stdout}{done.stderr}{logs}")
        time.sleep(0.1)
