"""Applications that go on after a lost rank: `gondwana run --restarts`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gondwana.runtime.supervisor import descendants
from support import jobs

pytestmark = pytest.mark.parallel

KEYS = {"L": 20, "steps": 3000, "noise": 0.01, "plotgap": 1000, "output": "steps.bp"}
SAVED = {"checkpoint": True, "checkpoint_freq": 100, "checkpoint_output": "c.bp"}


def test_a_killed_rank_changes_no_bit_of_gray_scott(tmp_path: Path) -> None:
    found = {}
    for how in ("undisturbed", "killed"):
        folder = tmp_path / how
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps(KEYS | SAVED))
        words = ["run", "-n", "2", "-t", "1", "--restarts", "1", "gray-scott", "settings.json", "--json", "found.json"]
        with jobs.start_command([sys.executable, "-m", "gondwana.cli.main", *words], cwd=folder) as process:
            if how == "killed":
                kill_after_a_checkpoint(process.pid, folder)
            stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        result = json.loads((folder / "found.json").read_text())
        found[how] = [result[key] for key in ("u_min", "u_max", "u_sum", "v_min", "v_max", "v_sum", "steps")]
        assert ("continuing after step " in stdout) == ("gondwana: restart 1 of 1: " in stderr) == (how == "killed")
        assert list(folder.glob("*unfinished*")) == []
    assert found["killed"] == found["undisturbed"]


def kill_after_a_checkpoint(supervisor: int, folder: Path) -> None:
    end = time.monotonic() + 90
    while not list(folder.glob("c.*.bp/complete.json")):
        assert time.monotonic() < end
        time.sleep(0.01)
    ranks = [pid for pid in descendants(supervisor) if b"PMIX_RANK=1" in Path(f"/proc/{pid}/environ").read_bytes()]
    os.kill(ranks[0], signal.SIGKILL)
