"""Two hosts on one machine, and jobs of Open MPI's launcher on them.

The launcher runs on the first. What it starts on the second goes through a stand-in for ssh. So messages travel by TCP,
and no two ranks share a node, processes, memory or /tmp, as on a cluster.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest.mock
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gondwana.cli import launch
from gondwana.runtime.cache_folder import cache_folder
from gondwana.runtime.placement.binding import Bind
from support import jobs
from support.cluster import hosts
from support.cluster.hosts import Host

_QUICK_CHILD = re.compile(r"^\[\S+\] plm:ssh: Warning: setpgid\(.*\n", re.MULTILINE)
"""A warning of Open MPI's launcher if the started program runs before it was moved to a process group."""

_SERVER = """
import contextlib, socket, subprocess, sys, threading

def serve(connection):
    # A launcher may end before what it has started.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), connection, connection.makefile() as words:
        command = words.readline()
        with subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as running:
            while data := running.stdout.read1():
                connection.sendall(data)
        connection.sendall(bytes([running.returncode % 256]))

listening = socket.create_server((sys.argv[1], 22))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=listening.accept()[:1], daemon=True).start()
"""
"""Runs on each host in place of sshd: starts the command of each connection. Its status follows its output."""

_AGENT = """#!{python} -IS
import os, socket, sys
words = sys.argv[1:]
while words[0].startswith("-"):
    del words[0]
with socket.create_connection((words[0], 22)) as connection:
    connection.sendall(" ".join(words[1:]).encode() + b"\\n")
    held = b""
    while data := connection.recv(1 << 16):
        held += data
        os.write(1, held[:-1])
        held = held[-1:]
sys.exit(held[0] if held else 255)
"""
"""Stands in for ssh: it drops options, takes the host, and has a shell there run the rest."""


@functools.cache
def missing() -> str | None:
    """The missing parts of this machine for two hosts, or None."""
    if launch.mpi_library().vendor != "Open MPI":
        return "two hosts are started with Open MPI's launcher"
    return hosts.missing()


def outside(process: int, word: str) -> int:
    """Return the number that a process of a host has here: it has that number there, and a word among its own."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            numbers = (entry / "status").read_text().partition("NSpid:")[2].partition("\n")[0].split()
            if len(numbers) > 1 and int(numbers[-1]) == process and word in (entry / "cmdline").read_text():
                return int(entry.name)
    raise LookupError(f"no host has a process {process} with {word}")


@contextlib.contextmanager
def _open_to_others(host: Host) -> Iterator[None]:
    """Have a host start programs on requests of others."""
    words = [*host.enter(), sys.executable, "-I", "-S", "-c", _SERVER, host.address]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=jobs.clean_environment()) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            yield
        finally:
            running.kill()


@dataclass(frozen=True)
class Pair:
    """Two hosts.

    Attributes:
        first: the host on which launchers run.
        second: the other one.
        folder: a folder that both hosts see.
        agent: the stand-in for ssh, as a program.
        listed: the file that lists the hosts.
    """

    first: Host
    second: Host
    folder: Path
    agent: Path
    listed: Path

    def reached(self, variable: str | None = None) -> dict[str, str]:
        """Return variables by which the launchers of Open MPI and of Hydra start ranks on both hosts.

        Args:
            variable: the one that names the list of hosts; None: those of the launchers.
        """
        names = ("PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE") if variable is None else (variable,)
        agents = ("PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC")
        found = dict.fromkeys(names, str(self.folder / "names")) | dict.fromkeys(agents, str(self.agent))
        # Names of hosts are known to their own host alone.
        return {**found, "HYDRA_LAUNCHER": "ssh", "HYDRA_IFACE": "eth0", "I_MPI_HYDRA_IFACE": "eth0"}


@contextlib.contextmanager
def pair(slots: int = 1, delay: int | None = None, shared: Sequence[Path] = ()) -> Iterator[Pair]:
    """Make two hosts, of which the second can be reached from the first; skip the test where that is impossible.

    Args:
        slots: ranks of each host.
        delay: microseconds that each frame takes between the hosts.
        shared: folders below /tmp that both hosts see, besides the cache of compiled code.
    """
    if (reason := missing()) is not None:
        pytest.skip(reason)
    kept = cache_folder("objects")
    shared = [*shared, *([] if kept is None else [kept.parent])]  # else each host would compile everything
    hostnames = [f"gwa-{os.getpid()}", f"gwb-{os.getpid()}"]
    with (
        tempfile.TemporaryDirectory() as name,
        hosts.hosts(hostnames, shared=[name, *shared], delay=delay) as (first, second),
        _open_to_others(first),
        _open_to_others(second),
    ):
        folder = Path(name)
        listed, names, agent = folder / "hosts", folder / "names", folder / "agent"
        listed.write_text("".join(f"{host.address} slots={slots}\n" for host in (first, second)))
        names.write_text("".join(f"{host.address}\n" for host in (first, second)))
        agent.write_text(_AGENT.format(python=sys.executable))
        agent.chmod(0o755)
        yield Pair(first, second, folder, agent, listed)


def run_two_hosts(
    program: jobs.Program,
    *arguments: str,
    timeout: float = 60,
    variables: Mapping[str, str] | None = None,
    ranks_per_node: int | None = None,
    bind: Bind | None = None,
    delay: int | None = None,
    shared: Sequence[Path] = (),
) -> jobs.Outcome:
    """Run a program on two ranks, each on a host of its own; skip the test where that is impossible.

    Args:
        program: path of the program, as for `jobs.run_ranks`.
        arguments: arguments of the program.
        timeout: seconds until everything is killed and the test fails.
        variables: environment variables of the job.
        ranks_per_node: number of ranks on each host for `gondwana run --ranks-per-node`; None: one, without the option.
        bind: value of `gondwana run --bind`; the program is then started as that does.
        delay: microseconds that each frame takes between the hosts.
        shared: folders below /tmp that both hosts see.
    """
    started = [] if bind is None else ["-P", "-m", "gondwana.cli.rank"]
    with pair(ranks_per_node or 1, delay, shared) as two:
        listing = {"PRTE_MCA_prte_default_hostfile": str(two.listed)}
        with unittest.mock.patch.dict(os.environ, {**jobs.clean_environment(), **listing}, clear=True):
            command = launch.command(
                2 * (ranks_per_node or 1),
                [*started, *jobs.python_arguments(program), *arguments],
                threads=1,
                ranks_per_node=ranks_per_node,
                bind=bind,
                time_limit=max(1.0, timeout - 10),
                variables={**_paths(), "TMPDIR": str(two.folder), **(variables or {})},
            )
        launcher, *rest = command.argv
        options = ["--prtemca", "plm_ssh_agent", str(two.agent)]
        network = f"{two.first.address}/24"
        options += ["--prtemca", "oob_tcp_if_include", network]
        for name, value in (("btl_tcp_if_include", network), ("pml", "ob1"), ("btl", "tcp,self,sm")):
            options += ["--mca", name, value]
        if bind is None:
            # Without this, the first core of each host, which is the same, gets all ranks.
            options += ["--bind-to", "none"]
        options += ["--mca", "mpi_yield_when_idle", "1"]
        return jobs.run_command(
            [*two.first.enter(os.getcwd()), launcher, *options, *rest],
            timeout=timeout,
            variables={**command.variables, **listing},
        )


def _paths() -> dict[str, str]:
    """Where the ranks find the same packages as this process."""
    names = ("PYTHONPATH", "PATH", "GONDWANA_CACHE_DIR")
    return {name: os.environ[name] for name in names if name in os.environ}


if __name__ == "__main__":
    # For work by hand: python tests/support/two_hosts.py PROGRAM [ARGUMENTS]
    print(run_two_hosts(Path(sys.argv[1]), *sys.argv[2:]))


def complaints(outcome: jobs.Outcome) -> str:
    """The standard error of a job, without lines that depend on which process of the launcher is first."""
    return _QUICK_CHILD.sub("", outcome.stderr)
