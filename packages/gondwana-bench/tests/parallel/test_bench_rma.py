"""`gondwana bench rma`: starts its ranks, measures every case, and all data are right on both sides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gondwana import results
from gondwana.errors import UsageError
from gondwana_bench.rma import transfers as rma

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]


def bench(file: Path, options: str, **variables: str) -> tuple[list[dict[str, Any]], str]:
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "rma", "--repeat", "1", "--batch", "0.0001"]
    done = subprocess.run(
        [*command, "--json", str(file), *options.split()],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    rows = results.read(file)[0]["panels"]["rma"]
    assert all(row["verified"] for row in rows)
    return rows, done.stdout


def test_every_case_is_measured_and_verified(tmp_path: Path) -> None:
    assert (len(rma.transfers(512)), len(rma.transfers(65536))) == (4, 3)
    rows, shown = bench(tmp_path / "rma.json", "--sizes 512,65536")
    cases = [(size, case) for size in (512, 65536) for case in (*rma.transfers(size), *rma.floods(size))]
    expected = [*((8, case) for case in rma.OPERATIONS), *cases]
    assert [(row["size"], row["operation"], row["rival"]) for row in rows] == [
        (size, case.ours, case.rival) for size, case in expected
    ]
    assert all(row["ours"] > 0 and row["theirs"] > 0 and row["ranks"] == 2 and row["nodes"] == 1 for row in rows)
    for row, (_, case) in zip(rows, expected, strict=True):
        assert (row["met"] is None) == (row["goal"] is None) == (case.goal is None and case.goal_ratio is None)
    assert all(text in shown for text in ("compiled put of a word", "C memcpy flood", "met"))
    [report] = results.read(tmp_path / "rma.json")
    assert "MPI" in report["environment"]["mpi_library"]
    assert report["environment"]["placement"]["pattern"] == "1x2x1"
    floods = {name for case in rma.floods(512) for name in (case.ours, case.rival)}
    assert {row["operation"] for row in report["panels"]["peaks"]} == floods
    assert all(512 <= row["half_nbytes"] <= row["nine_tenths_nbytes"] <= 65536 for row in report["panels"]["peaks"])


def test_between_nodes_nothing_needs_shared_memory(tmp_path: Path) -> None:
    options = "--sizes 16384 --ranks-per-node 1"
    rows, _ = bench(tmp_path / "rma.json", options, GONDWANA_RANKS_PER_NODE="1")
    cases = [(8, case) for case in rma.OPERATIONS_BETWEEN_NODES]
    cases += [(16384, case) for case in (*rma.TRANSFERS_BETWEEN_NODES, *rma.FLOODS_BETWEEN_NODES)]
    assert [(row["size"], row["operation"], row["rival"]) for row in rows] == [
        (size, case.ours, case.rival) for size, case in cases
    ]
    assert all(row["ours"] > 0 and row["theirs"] > 0 and row["nodes"] == 2 for row in rows)


def test_more_ranks_wait_while_two_are_measured(tmp_path: Path) -> None:
    rows, _ = bench(tmp_path / "rma.json", "--ranks 3")
    assert [(row["operation"], row["ranks"]) for row in rows] == [(case.ours, 3) for case in rma.PUT_AND_RPC]


def test_figures_are_in_the_unit_of_their_case() -> None:
    seconds = [2e-9] * 3
    shown = {
        case.unit: rma._row(2, case, 8, seconds, [4e-9] * 3, True)
        for case in (
            rma.Case("a", "b", "ns", goal=2.0),
            rma.Case("a", "b", "us", goal=0.001),
            rma.Case("a", "b", "M/s", goal=501.0),
            rma.Case("a", "b", "GB/s", goal_ratio=1.9, ways=2),
        )
    }
    figures = {unit: (row["ours"], row["theirs"], row["met"], row["goal"]) for unit, row in shown.items()}
    assert figures == {
        "ns": (pytest.approx(2.0), pytest.approx(4.0), True, "<= 2"),
        "us": (pytest.approx(0.002), pytest.approx(0.004), False, "<= 0.001"),
        "M/s": (pytest.approx(500.0), pytest.approx(250.0), False, ">= 501"),
        "GB/s": (pytest.approx(8.0), pytest.approx(4.0), True, ">= 1.9 x"),
    }
    assert all(row["ratio"] == pytest.approx(2.0) for row in shown.values())


@pytest.mark.parametrize(
    ("ranks", "sizes", "problem"),
    [(1, [8], "--ranks 1"), (2, [], "--sizes"), (2, [8, 12], "--sizes 8,12"), (2, [0], "--sizes 0")],
)
def test_what_cannot_be_measured_is_refused(ranks: int, sizes: list[int], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        rma.check(ranks, sizes)
