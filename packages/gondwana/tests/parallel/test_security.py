"""What other users of a host can reach of a job: no port of its ranks, and no file."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw

pytestmark = pytest.mark.parallel

LISTENS = {"tcp": "0A", "tcp6": "0A", "unix": "00010000"}
"""How the tables of Linux under /proc/net mark sockets that listen: a state, or a flag."""


def own_sockets() -> set[str]:
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found


def listening(table: str) -> list[str]:
    """The lines of a table that are listening sockets of this process."""
    path = Path("/proc/net", table)
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    own = own_sockets()
    return [line for line in lines if own & set(line.split()) and LISTENS[table] in line.split()[3:4]]


@pytest.mark.ranks(3)
def test_no_rank_of_one_host_listens(world) -> None:
    world.barrier()
    assert {table: listening(table) for table in LISTENS} == {table: [] for table in LISTENS}


def shared_memory_files() -> set[Path]:
    """Files below /dev/shm that a rank has mapped or opened."""
    named = {
        line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm/" in line
    }
    return {Path(name) for name in named if Path(name).exists()}


@pytest.mark.ranks(3)
@pytest.mark.ranks(2, ranks_per_node=1)
def test_shared_memory_is_private(world) -> None:
    array = gw.zeros((64, 64), ghost=1)
    array.exchange().wait()
    total = np.zeros(4)
    world.Allreduce(np.ones(4), total)
    files = shared_memory_files()
    assert {file: stat.S_IMODE(file.stat().st_mode) & 0o077 for file in files} == dict.fromkeys(files, 0)
    segments = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    anonymous = [file for file in segments if file.is_symlink() and "memfd:gondwana" in os.readlink(file)]
    assert anonymous
    assert all(file.stat().st_uid == os.geteuid() for file in anonymous)
