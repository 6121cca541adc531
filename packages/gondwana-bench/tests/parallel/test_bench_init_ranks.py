"""`gondwana bench init` by worker processes: ranks and a pool set every element of an array that they share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gondwana import results
from gondwana_bench.initialisation import HUGE_PAGES, UNWAITED
from support import jobs

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]

RANKS, POOL = ("ranks", "ranks, pfor"), ("pool, pmap", UNWAITED)
OPTIONS = "--sizes 160008 --threads 1 --workers 2 --repeat 2 --batch 0.0001 --json out.json"


def test_workers_set_all_elements_in_every_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", "init", *OPTIONS.split()]
    outcome = jobs.run_command(command, cwd=tmp_path, timeout=240)
    assert outcome.status == 0, str(outcome)
    rows = results.read(tmp_path / "out.json")[0]["panels"]["workers"]
    assert [(row["memory"], row["variant"]) for row in rows] == [
        *((memory, name) for memory in ("touched", "fresh") for name in RANKS),
        (HUGE_PAGES, "ranks, global array"),
        *((memory, name) for memory in ("touched", "fresh") for name in POOL),
    ]
    for row in rows:
        assert row["verified"]
        assert (row["workers"], row["nbytes"]) == (2, 160008)
        # What nobody has waited for is no speed.
        speed, factor = row["ratio"], row["unwaited_factor"]
        assert (speed is None, factor is None) == ((True, False) if row["variant"] == UNWAITED else (False, True))
