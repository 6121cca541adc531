"""Two hosts on one machine: each a network namespace with a host name of its own, joined by a virtual cable.

Open MPI's launcher runs in the first. What it starts on the second goes through a stand-in for ssh. So messages travel
by TCP and no two ranks share a node, as on a cluster. Needs root and Linux's `ip` (package iproute2).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest.mock
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gondwana.cli import launch
from gondwana.runtime.placement.binding import Bind
from support import jobs

_ENTER = 'hostname "$0" && exec "$@"'
"""What a shell in a namespace does first: it makes its own name that of the host, and runs the words behind."""

_AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
[ "$1" = {address} ] || {{ echo "no host $1" >&2; exit 1; }}
shift
exec {enter} sh -c "$*"
"""
"""Stands in for ssh: it drops options, takes the host, and has a shell there run the rest."""


@dataclass(frozen=True)
class Host:
    """One of the two hosts: the name of its namespace, which is its host name too, and its address."""

    space: str
    address: str

    def enter(self) -> list[str]:
        """The words to put before a command that is to run on this host."""
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", _ENTER, self.space]


@functools.cache
def missing() -> str | None:
    """What this machine lacks for two hosts, None if it has all of it."""
    if os.geteuid() != 0:
        return "two hosts need root"
    for tool in ("ip", "unshare", "hostname"):
        if shutil.which(tool) is None:
            return f"two hosts need the command {tool}"
    if launch.mpi_library().vendor != "Open MPI":
        return "two hosts are started with Open MPI's launcher"
    try:
        with two_hosts():
            return None
    except subprocess.CalledProcessError as error:
        return f"two hosts cannot be made here: {error.stderr.strip()}"


@contextlib.contextmanager
def two_hosts(delay: int | None = None) -> Iterator[tuple[Host, Host]]:
    """Make two hosts; remove them and kill all that runs on them at the end.

    Args:
        delay: microseconds that each frame takes on the cable; None: a cable of the kernel, without delay.
    """
    number = os.getpid() % 250
    hosts = [Host(f"gw{name}-{os.getpid()}", f"10.77.{number}.{place}") for place, name in ((1, "a"), (2, "b"))]
    cables = [f"{host.space}"[:15] for host in hosts]
    stack = contextlib.ExitStack()
    try:
        for host in hosts:
            _ip("netns", "add", host.space)
            _ip("-n", host.space, "link", "set", "lo", "up")
        if delay is None:
            _ip("-n", hosts[0].space, "link", "add", cables[0], "type", "veth", "peer", "name", cables[1])
            _ip("-n", hosts[0].space, "link", "set", cables[1], "netns", hosts[1].space)
        else:
            stack.enter_context(_delayed_cable(cables, delay))
            for host, name in zip(hosts, cables, strict=True):
                _ip("link", "set", name, "netns", host.space)
                _ip("-n", host.space, "link", "set", name, "mtu", "60000")
        for host, cable in zip(hosts, cables, strict=True):
            _ip("-n", host.space, "address", "add", f"{host.address}/24", "dev", cable)
            _ip("-n", host.space, "link", "set", cable, "up")
        yield hosts[0], hosts[1]
    finally:
        stack.close()
        for host in hosts:
            _remove(host)


@contextlib.contextmanager
def _delayed_cable(names: list[str], delay: int) -> Iterator[None]:
    """Run the program that carries frames between two devices, which it makes."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "delayed_cable"
        source = Path(__file__).with_name("delayed_cable.c")
        subprocess.run(["cc", "-O2", "-o", program, source], check=True, capture_output=True, text=True, timeout=60)
        with subprocess.Popen([program, *names, str(delay)], stdout=subprocess.PIPE, text=True) as running:
            try:
                assert running.stdout is not None
                assert running.stdout.readline() == "ready\n"
                yield
            finally:
                running.kill()


def run_two_hosts(
    program: jobs.Program,
    *arguments: str,
    timeout: float = 60,
    variables: Mapping[str, str] | None = None,
    ranks_per_node: int | None = None,
    bind: Bind | None = None,
    delay: int | None = None,
) -> jobs.Outcome:
    """Run a program on two ranks, each on a host of its own; skip the test where that is impossible.

    Args:
        program: as for `jobs.run_ranks`.
        arguments: for the program.
        timeout: seconds until everything is killed and the test fails.
        variables: environment variables of the job.
        ranks_per_node: so many ranks on each host, as `gondwana run --ranks-per-node` asks for; None: one, unasked.
        bind: as `gondwana run --bind`; the program is then started as that does.
        delay: microseconds that each frame takes between the hosts.
    """
    if (reason := missing()) is not None:
        pytest.skip(reason)
    started = [] if bind is None else ["-P", "-m", "gondwana.cli.rank"]
    with two_hosts(delay) as hosts, tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "hosts"
        listed.write_text("".join(f"{host.address} slots={ranks_per_node or 1}\n" for host in hosts))
        listing = {"PRTE_MCA_prte_default_hostfile": str(listed)}
        with unittest.mock.patch.dict(os.environ, listing):
            command = launch.command(
                2 * (ranks_per_node or 1),
                [*started, *jobs.python_arguments(program), *arguments],
                threads=1,
                ranks_per_node=ranks_per_node,
                bind=bind,
                time_limit=max(1.0, timeout - 10),
                variables={**_paths(), **(variables or {})},
            )
        launcher, *rest = command.argv
        agent = Path(folder) / "agent"
        agent.write_text(_AGENT.format(address=hosts[1].address, enter=shlex.join(hosts[1].enter())))
        agent.chmod(0o755)
        options = ["--prtemca", "plm_ssh_agent", str(agent)]
        network = f"{hosts[0].address}/24"
        options += ["--prtemca", "oob_tcp_if_include", network]
        for name, value in (("btl_tcp_if_include", network), ("pml", "ob1"), ("btl", "tcp,self,sm")):
            options += ["--mca", name, value]
        if bind is None:
            # Without this, the first core of each host, which is the same, gets all ranks.
            options += ["--bind-to", "none"]
        options += ["--mca", "mpi_yield_when_idle", "1"]
        return jobs.run_command(
            [*hosts[0].enter(), launcher, *options, *rest], timeout=timeout, variables={**command.variables, **listing}
        )


def _paths() -> dict[str, str]:
    """Where the ranks find the same packages as this process."""
    names = ("PYTHONPATH", "PATH", "GONDWANA_CACHE_DIR")
    return {name: os.environ[name] for name in names if name in os.environ}


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=20)
    return done.stdout


def _remove(host: Host) -> None:
    with contextlib.suppress(subprocess.CalledProcessError):
        for pid in _ip("netns", "pids", host.space).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "delete", host.space)


if __name__ == "__main__":
    # For work by hand: python tests/support/two_hosts.py PROGRAM [ARGUMENTS]
    print(run_two_hosts(Path(sys.argv[1]), *sys.argv[2:]))
