"""No process of a job outlives its launcher, whatever the ranks do; tests/torture/orphans.py is the random form."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import jobs
from support.two_hosts import missing, outside, run_two_hosts
from torture.orphans import PROGRAM, Case, seconds_to_end

pytestmark = pytest.mark.parallel

PATIENCE = 20.0
"""Seconds: it takes a moment, and an orphan stays for ever; what a loaded machine needs does not matter here."""


@pytest.mark.parametrize(
    "case",
    [
        Case(2, "starting", "launcher", supervised=True, delay=1.0),
        Case(3, "spinning", "launcher", supervised=True, delay=0.0),
        Case(3, "waiting", "launcher and rank", supervised=True, delay=0.0),
        Case(3, "receiving", "all but a rank", supervised=True, delay=0.0),
        Case(2, "starting", "launcher", supervised=False, delay=0.5),
        Case(3, "compiling", "launcher and rank", supervised=False, delay=0.2),
        Case(2, "writing", "MPI's launcher and rank", supervised=False, delay=0.2),
        Case(3, "receiving", "launcher and rank", supervised=False, delay=0.0, wrapped=True),
    ],
    ids=lambda case: f"{case.phase}-{case.victims}-{'gondwana' if case.supervised else 'mpirun'}{case.wrapped:d}",
)
def test_nothing_is_left(case: Case) -> None:
    passed, output = seconds_to_end(case, PATIENCE)
    assert passed is not None, output


def kill_daemon(folder: Path) -> list[int]:
    """Kill the process that has started rank 1 while MPI's launcher is stopped, and return the rank if it stays."""
    end = time.monotonic() + 60
    while not all((folder / f"here.{rank}").exists() for rank in (0, 1)):
        assert time.monotonic() < end
        time.sleep(0.1)
    first, rank = (outside(int((folder / f"here.{rank}").read_text()), str(folder)) for rank in (0, 1))
    launcher, daemon = parent(first), parent(rank)
    assert Path(f"/proc/{daemon}/comm").read_text() == "prted\n"
    os.kill(launcher, signal.SIGSTOP)  # or it would end the job, and with it the hosts
    try:
        os.kill(daemon, signal.SIGKILL)
        return jobs.left_behind([rank], PATIENCE)
    finally:
        for pid in (launcher, parent(launcher)):  # what has entered the host stops with the launcher
            os.kill(pid, signal.SIGCONT)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_a_rank_on_another_host_ends_with_the_daemon_there(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(kill_daemon, tmp_path)
        outcome = run_two_hosts(PROGRAM, "spinning", str(tmp_path), shared=[tmp_path])
    assert left.result() == [], str(outcome)


@pytest.mark.parametrize(
    ("phase", "victims", "supervised"), [("spinning", "launcher and rank", False), ("stopping", "launcher", True)]
)
def test_nothing_is_left_with_mpich(phase: str, victims: str, supervised: bool, mpich_python: Path) -> None:
    case = Case(2, phase, victims, supervised, delay=0.0, python=str(mpich_python))
    passed, output = seconds_to_end(case, PATIENCE)
    assert passed is not None, output
