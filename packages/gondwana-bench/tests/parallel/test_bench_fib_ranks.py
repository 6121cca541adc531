"""`gondwana bench fib` on one rank and on three, and in pools: every mean returns the right number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gondwana import results

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]

POOL = "pool, submit + result"


def test_every_case_gives_a_row_for_each_rival(tmp_path: Path) -> None:
    file = tmp_path / "fib.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "fib", "-n", "3,1", "--numbers", "0,9"]
    options = ["--repeat", "2", "--batch", "0.0001", "--json", str(file)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    [report] = results.read(file)
    assert report["verified"]
    elsewhere = ("pthread in C", "multiprocessing Pool.apply")
    parts = [(1, "call", ("C", "Python")), (1, POOL, elsewhere), (3, "spawn + fetch", elsewhere), (3, POOL, elsewhere)]
    assert [(row["ranks"], row["n"], row["case"], row["rival"]) for row in report["panels"]["fib"]] == [
        (ranks, n, case, rival) for ranks, case, rivals in parts for n in (0, 9) for rival in rivals
    ]
