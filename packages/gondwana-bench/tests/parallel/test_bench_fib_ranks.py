"""`gondwana bench fib` on three ranks: every mean returns the right number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gondwana import results

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]


def test_every_case_gives_a_row_for_each_rival(tmp_path: Path) -> None:
    file = tmp_path / "fib.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "fib", "-n", "3", "--numbers", "0,9"]
    parts = ["--repeat", "2", "--batch", "0.0001", "--json", str(file)]
    done = subprocess.run([*command, *parts], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    [report] = results.read(file)
    assert report["verified"]
    assert [(row["n"], row["case"], row["rival"]) for row in report["panels"]["fib"]] == [
        (n, case, rival)
        for n in (0, 9)
        for case, rivals in (
            ("call", ("C", "Python")),
            ("spawn + fetch", ("pthread in C", "multiprocessing.Pool.apply")),
        )
        for rival in rivals
    ]
    assert {row["ranks"] for row in report["panels"]["fib"]} == {3}
