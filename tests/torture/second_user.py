"""Another user of the machine who tries to reach a job: its ports and sockets, its memory, its files."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from support.trials import Running, Trials, marked
from torture import _grayscott as grayscott

SIDE, STEPS = 48, 6_000
NOBODY = 65534
GROWTH = 200 << 20
"""Bytes by which what a stranger sends may enlarge a process."""
LINES = (b"5\n", b'["\\u00e9",""]\n', b"[]\n", b"{}\n", b"\0\n", b"null\n", b"[" * 100_000 + b"\n")

Door: TypeAlias = tuple[str, str]
"""What kind of door to a process it is, and where: ("tcp", "34567"), ("unix", "/path"), ("file", "/proc/7/fd/5")."""


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    if os.geteuid():
        print("second_user: only root can become another user: nothing was tried")
        return trials.counts
    for rng in trials:
        with TemporaryDirectory() as root:
            folder = Path(root)
            keys = grayscott.settings(SIDE, STEPS, checkpoint=False, output="")
            running = Running(grayscott.words(folder, keys, rng.choice((2, 3)), "--json", "r.json"), cwd=folder)
            pids = connected(running.mark)
            time.sleep(2 * rng.random())
            before = {pid: resident(pid) for pid in pids}
            opened = as_nobody(rng, sorted(doors(pids)))
            grown = [pid for pid in pids if resident(pid) > before[pid] + GROWTH]
            ended = running.end(240)
            verdict = "wrong" if opened or grown else "withstood" if ended.verdict == "ran" else ended.verdict
            if verdict == "withstood":
                found = json.loads((folder / "r.json").read_text())
                expected = grayscott.undisturbed(SIDE, STEPS)
                verdict = verdict if {name: found[name] for name in expected} == expected else "wrong"
            trials.record(verdict, f"  opened {opened}, grown {grown}\n{ended}")
    return trials.counts


def connected(mark: str) -> list[int]:
    """Wait until the ranks have memory in common, for a minute at most; return the processes of the job."""
    end = time.monotonic() + 60
    while True:
        pids = marked(mark)
        if any(where.startswith("/proc") and "/fd/" in where for _, where in doors(pids)) or time.monotonic() > end:
            return pids
        time.sleep(0.2)


def doors(pids: Sequence[int]) -> Iterator[Door]:
    """Find by what the processes might be reached."""
    inodes = set()
    for pid in pids:
        yield "file", f"/proc/{pid}/mem"
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                aim = os.readlink(entry)
                if match := re.fullmatch(r"socket:\[(\d+)\]", aim):
                    inodes.add(match[1])
                elif aim.startswith(("/memfd:", "/dev/shm/")):
                    yield "file", str(entry)
                    yield from [("file", aim)] if aim.startswith("/dev") else []
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "/dev/shm/" in line:
                    yield "file", line[line.index("/dev/shm/") :].removesuffix(" (deleted)")
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                yield "tcp", str(int(words[1].rpartition(":")[2], 16))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[6] in inodes:
            yield "unix", words[7]


def as_nobody(rng: random.Random, found: Sequence[Door]) -> list[Door]:
    """Try the doors as another user, in a process of its own, and return those that opened."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        opened: list[Door] = []
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            opened = [door for door in found if TRIES[door[0]](rng, door[1])]
        finally:
            os.write(writing, json.dumps(opened).encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as answer:
        return [(kind, where) for kind, where in json.loads(answer.read())]


def open_file(rng: random.Random, path: str) -> bool:
    """Return whether the file of a process opens."""
    for flags in (os.O_RDONLY, os.O_RDWR):
        with contextlib.suppress(OSError):
            os.close(os.open(path, flags))
            return True
    return False


def talk_tcp(rng: random.Random, port: str) -> bool:
    """Send to a port what it does not expect; that it listens is no harm yet, see what becomes of the job."""
    for address in (("127.0.0.1", int(port)), ("::1", int(port))):
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=5) as connection:
            send_rubbish(rng, connection)
    return False


def talk_unix(rng: random.Random, path: str) -> bool:
    """Return whether a socket of ours takes a connection; in any case send what it does not expect."""
    address = "\0" + path[1:] if path.startswith("@") else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(address)
        send_rubbish(rng, connection)
        return "gondwana" in path
    return False


def send_rubbish(rng: random.Random, connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.settimeout(5)
        if rng.random() < 0.5:
            connection.sendall(rng.choice(LINES))
        else:
            for _ in range(rng.randrange(300)):
                connection.sendall(b"x" * (1 << 20))
        time.sleep(0.3 * rng.random())


TRIES = {"file": open_file, "tcp": talk_tcp, "unix": talk_unix}


def resident(pid: int) -> int:
    """The bytes of memory of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
