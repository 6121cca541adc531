"""`gondwana bench exchange`: starts its ranks, and every ghost is right on both sides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gondwana import results
from gondwana_bench.exchange import grid_of

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]


@pytest.mark.parametrize(("ranks", "nodes"), [(2, 1), (3, 1), (4, 2)])
def test_exchange_is_measured_and_verified(ranks: int, nodes: int, tmp_path: Path) -> None:
    file, variables = tmp_path / "exchange.json", dict(os.environ)
    options = f"--ranks {ranks} --sizes 5 --fields 1,2 --repeat 2 --batch 0.001 --json {file}"
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "exchange", *options.split()]
    if nodes > 1:
        variables["GONDWANA_RANKS_PER_NODE"] = str(ranks // nodes)
        command += ["--ranks-per-node", str(ranks // nodes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables)
    assert done.returncode == 0, done.stderr
    rows = results.read(file)[0]["panels"]["exchange"]
    assert [(row["fields"], row["faces"]) for row in rows] == [
        (1, "all"),
        (1, "split axes"),
        (2, "all"),
        (2, "split axes"),
    ]
    assert all(row["verified"] and row["nodes"] == nodes for row in rows)
    assert rows[0]["grid"] == "x".join(map(str, grid_of(ranks)))
    assert "C/ours" in done.stdout


def test_grids_are_as_even_as_the_ranks_allow() -> None:
    assert [grid_of(n) for n in (1, 2, 4, 6, 7, 8, 12, 64)] == [
        (1, 1, 1), (1, 1, 2), (1, 2, 2), (1, 2, 3), (1, 1, 7), (2, 2, 2), (2, 2, 3), (4, 4, 4),
    ]  # fmt: skip
