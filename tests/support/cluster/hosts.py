"""Hosts on one machine: each has a network, a name, processes, IPC, /dev/shm and /tmp of its own.

What they share is the root of the file system, or a changeable view of it, and folders that are named. Each host lives
as long as a pipe to its first process is open. So nothing of it stays, process, mount, network, file in memory or below
/tmp, when the tests end, however they end. Needs root, Linux's `ip` (iproute2) and `unshare`, `nsenter` (util-linux).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("ip", "unshare", "nsenter", "mount", "pivot_root", "hostname")

KINDS = ("--mount", "--uts", "--ipc", "--net", "--pid")

_FIRST = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whom nobody waits for leaves no zombie
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"ready\\n")
while os.read(0, 1): pass
"""
"""The first process of a host. At the end of its input it ends, and the kernel kills all others of the host."""

_VIEW = """
mount -t tmpfs -o mode=755 tmpfs {place}
mkdir {place}/upper {place}/work {place}/root
for part in {layers}; do cp -a $part/. {place}/upper; done
mount -t overlay -o lowerdir=/,upperdir={place}/upper,workdir={place}/work overlay {place}/root
for part in proc sys dev; do mount --rbind /$part {place}/root/$part; done
for part in {kept}; do
    mkdir -p {place}/root$part
    mount --rbind $part {place}/root$part
done
mkdir {place}/root/.outside
cd {place}/root
pivot_root . .outside
umount -l /.outside
"""
"""Gives a host a root of its own, whose changes are kept in memory."""

_OWN = """
hostname {name}
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for part in {shared}; do
    mkdir -p /dev/shm/held$part
    mount --rbind $part /dev/shm/held$part
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
for part in {shared}; do
    mkdir -p $part
    mount --move /dev/shm/held$part $part
done
rm -rf /dev/shm/held
ip link set lo up
"""
"""Gives a host private copies of everything but some folders, which may lie below /tmp."""


class CannotBuildError(Exception):
    """Hosts cannot be made here; the text says what is missing."""


@dataclass(frozen=True)
class Host:
    """One host: its name, its address, and its first process, by its number outside."""

    name: str
    address: str
    process: int

    def enter(self, folder: str | Path = "/", *, user: int = 0) -> list[str]:
        """The words to put before a command that is to run on this host, in a folder, as a user by number."""
        words = ["nsenter", "--target", str(self.process), *KINDS, "--"]
        words += ["sh", "-c", 'cd "$0" && exec "$@"', str(folder)]
        return words if user == 0 else [*words, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]

    def run(self, *words: str) -> str:
        """Run a command there as root, which must succeed, and return its output."""
        return _run([*self.enter(), *words])

    def seen(self, path: str | Path) -> Path:
        """Return the path by which this process finds a file of the host."""
        return Path(f"/proc/{self.process}/root{path}")


@functools.cache
def missing() -> str | None:
    """The missing parts of this machine for hosts, or None."""
    try:
        with hosts(["a", "b"]):
            return None
    except CannotBuildError as error:
        return str(error)


@contextlib.contextmanager
def hosts(
    names: Sequence[str],
    *,
    shared: Sequence[str | Path] = (),
    layers: Sequence[str | Path] | None = None,
    delay: int | None = None,
) -> Iterator[list[Host]]:
    """Make hosts that are joined by a network; remove them, and all that runs on them, at the end.

    Args:
        names: names of the hosts.
        shared: folders that are the same on all hosts and here, even below /tmp.
        layers: folders whose files appear in a root of the hosts' own; None: they have the root of this host.
        delay: time of a frame between two hosts [us]; None: as long as the kernel needs.

    Raises:
        CannotBuildError: this machine cannot make them.
    """
    if os.geteuid() != 0:
        raise CannotBuildError("hosts of their own need root")
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise CannotBuildError(f"hosts of their own need the command {tool}")
    number = os.getpid() % 250
    made: list[Host] = []
    with contextlib.ExitStack() as stack:
        try:
            # Its own mount there hides it; outside it stays empty.
            place = stack.enter_context(tempfile.TemporaryDirectory())
            for index, name in enumerate(names):
                script = ""
                if layers is not None and index == 0:
                    script = _VIEW.format(place=place, layers=_listed(layers), kept=_listed(_on_other_devices()))
                script += _OWN.format(name=name, shared=_listed(shared))
                within = ["nsenter", "--target", str(made[0].process), "--mount", "--"] if made else []
                process = stack.enter_context(_started(script, within))
                made.append(Host(name, f"10.77.{number}.{index + 1}", process))
            with _connected(made, delay):
                yield made
        except subprocess.CalledProcessError as error:
            words = shlex.join(map(str, error.cmd[-8:]))
            raise CannotBuildError(f"hosts cannot be made here: {words}: {error.stderr.strip()}") from error


def _on_other_devices() -> list[str]:
    """Folders that a view of the root does not show: what is needed to run this Python, if it is mounted there."""
    root = os.stat("/").st_dev
    wanted = {str(Path(__file__).resolve().parents[3]), sys.prefix, sys.base_prefix, os.path.dirname(sys.executable)}
    return sorted(path for path in wanted if os.stat(path).st_dev != root)


def _listed(paths: Sequence[str | Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)


@contextlib.contextmanager
def _started(script: str, within: Sequence[str]) -> Iterator[int]:
    """Start a host, and return the number of its first process; end it."""
    words = [*within, "unshare", *KINDS, "--fork", "--kill-child", "sh", "-e", "-c"]
    words += [f'{script}\nexec "$0" -I -S -c "$1"', sys.executable, _FIRST]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            if running.stdout.readline() != b"ready\n":
                _, errors = running.communicate(timeout=20)
                raise subprocess.CalledProcessError(running.returncode, words[:-3], stderr=errors.decode())
            yield int(Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0])
        finally:
            running.stdin.close()
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()


@contextlib.contextmanager
def _connected(made: Sequence[Host], delay: int | None) -> Iterator[None]:
    """Join hosts: by a bridge of the first, or two of them by a program that carries frames slowly."""
    first, *others = made
    if delay is None:
        first.run("ip", "link", "add", "eth0", "type", "bridge")
        for host in others:
            there = ["peer", "name", "eth0", "netns", str(host.process)]
            # Outside, since the first host has no numbers for the processes of the others.
            near = f"gw{host.process}"
            _run(["ip", "link", "add", near, "type", "veth", *there])
            _run(["ip", "link", "set", near, "netns", str(first.process)])
            first.run("ip", "link", "set", near, "master", "eth0", "up")
        _addressed(made)
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "delayed_cable"
        source = Path(__file__).parents[1] / "delayed_cable.c"
        _run(["cc", "-O2", "-o", str(program), str(source)])
        ends = [f"gw{host.process}" for host in made]
        with subprocess.Popen([program, *ends, str(delay)], stdout=subprocess.PIPE, text=True) as running:
            try:
                assert running.stdout is not None
                assert running.stdout.readline() == "ready\n"
                for host, end in zip(made, ends, strict=True):
                    _run(["ip", "link", "set", end, "netns", str(host.process)])
                    host.run("ip", "link", "set", end, "name", "eth0", "mtu", "60000")
                _addressed(made)
                yield
            finally:
                running.kill()


def _addressed(made: Sequence[Host]) -> None:
    for host in made:
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")


def _run(words: Sequence[str]) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
