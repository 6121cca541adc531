"""`gondwana bench tasks` on two ranks: every case between ranks and every rival runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gondwana import results

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]

CASES = {
    "remote channel, object one way": ["multiprocessing.SimpleQueue", "multiprocessing.Queue", "mpi4py send/recv"],
    "remote channel, number one way": ["mpi4py Send/Recv"],
    "remote channel, compiled, number one way": ["flag in C"],
    "notification, waiter spinning": ["flag in C", "condition variable in C"],
    "notification, waiter spinning, compiled": ["flag in C", "condition variable in C"],
    "notification, waiter asleep": ["condition variable in C"],
    "spawn + fetch of a null task, median": ["multiprocessing.Pool.apply"],
    "spawn of many null tasks, then fetch": [None],
    "processor time of an idle rank in a second": ["mpi4py recv"],
}


def test_every_case_between_ranks_gives_a_row_for_each_rival(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "tasks", "--repeat", "1", "--batch", "0.0001"]
    parts = ["--cases", "one way,notification,spawn,idle", "--json", str(file)]
    done = subprocess.run([*command, *parts], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    rows = results.read(file)[0]["panels"]["tasks"]
    assert [(row["case"], row["rival"]) for row in rows] == [
        (case, rival) for case, rivals in CASES.items() for rival in rivals
    ]
    assert all(row["ours_us"] > 0.0 and (row["rival"] is None or row["rival_us"] > 0.0) for row in rows)
    assert all(case in done.stdout for case in CASES)
