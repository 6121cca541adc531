"""gondwana doctor on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel


def test_doctor_finds_a_working_machine(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    outcome = jobs.run_command(
        [sys.executable, "-m", "gondwana.cli.main", "doctor", "--json", str(report)],
        variables={"GONDWANA_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "200"},
        timeout=90,
    )
    assert outcome.status == 0, str(outcome)
    findings = {finding["subject"]: finding for finding in json.loads(report.read_text())["findings"]}
    assert findings["two ranks"]["found"].startswith("2 ranks")
    assert findings["node team"]["verdict"] == "OK"
    assert findings["memory of another rank"]["found"] == "opens through /proc"
    assert findings["puts between nodes"]["found"].startswith("complete while the target computes")
    assert findings["pages of large arrays in shared memory"]["found"].startswith(("2 MiB", "4 KiB: "))
    assert str(tmp_path / "cache") in findings["cache"]["found"]
    for subject in findings:
        assert subject in outcome.stdout
