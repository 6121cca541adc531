"""`gondwana bench collectives`: starts its ranks, and every result is right on both sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gondwana import results

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]
BENCH = [sys.executable, "-m", "gondwana.cli.main", "bench", "collectives"]


def test_collectives_are_measured_and_verified(tmp_path: Path) -> None:
    file = tmp_path / "collectives.json"
    options = f"-n 3 --sizes 8,16384 --repeat 2 --batch 0.001 --json {file}"
    done = subprocess.run([*BENCH, *options.split()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = results.read(file)[0]["panels"]["collectives"]
    names = [f"{who} {what}" for what in ("allreduce", "bcast") for who in ("compiled", "Python")]
    expected = [("compiled barrier", 0), ("Python barrier", 0)]
    assert [(row["operation"], row["size"]) for row in rows] == expected + [(n, s) for s in (8, 16384) for n in names]
    assert all(row["verified"] and row["ranks"] == 3 and row["microseconds"] > 0 for row in rows)
    assert [row["goal"] is not None for row in rows] == [False] * 2 + [True, True] + [False] * 6
    assert "theirs/ours" in done.stdout


@pytest.mark.parametrize(("options", "message"), [("-n 1", "at least 2 ranks"), ("--sizes 8,12", "multiples of 8")])
def test_what_cannot_be_measured_is_refused(options: str, message: str) -> None:
    done = subprocess.run([*BENCH, *options.split()], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
