"""`gondwana bench injection`: every operation arrives as often as it was made, and wrong options are one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gondwana.errors import UsageError
from gondwana_bench import injection
from support import jobs

pytestmark = pytest.mark.parallel


@pytest.mark.parametrize(
    ("ranks", "threads", "message"),
    [(3, [1], "--ranks 3"), (2, [], "--threads "), (2, [0], "--threads 0: give"), (2, [65], "from 1 to 64")],
)
def test_what_cannot_be_measured_is_refused(ranks: int, threads: list[int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        injection.check(ranks, threads)


def test_every_operation_arrives(tmp_path: Path) -> None:
    file = tmp_path / "injection.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "injection", "--threads", "1,2", "--repeat", "2"]
    outcome = jobs.run_command([*command, "--batch", "0.0002", "--json", str(file)], timeout=150)
    assert outcome.status == 0, str(outcome)
    rows = json.loads(file.read_text())["panels"]["injection"]
    assert [(row["operation"], row["threads"]) for row in rows] == [
        (name, threads) for name, _ in injection.OPERATIONS.values() for threads in (1, 2)
    ]
    assert all(row["verified"] and row["ours_per_s"] > 0.0 and row["nodes"] == 1 for row in rows)


def test_puts_and_additions_arrive_between_nodes(tmp_path: Path) -> None:
    file = tmp_path / "injection.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "injection", "--threads", "2", "--repeat", "1"]
    command += ["--batch", "0.0002", "--ranks-per-node", "1", "--json", str(file)]
    outcome = jobs.run_command(command, timeout=150, variables={"GONDWANA_RANKS_PER_NODE": "1"})
    assert outcome.status == 0, str(outcome)
    rows = json.loads(file.read_text())["panels"]["injection"]
    assert [row["operation"] for row in rows] == ["put of a word", "fetch_add"]
    assert all(row["verified"] and row["ours_per_s"] > 0.0 and row["nodes"] == 2 for row in rows)
