"""What applications print on a terminal of 80 columns: no line is longer, and words stay whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gondwana_apps.pwc import generators
from support import jobs

pytestmark = [pytest.mark.parallel, pytest.mark.more]

SIMULATION = {"L": 16, "steps": 2, "plotgap": 1, "noise": 0.1, "output": "gs.bp"}
RUNS = {
    "gray-scott": "simulation.json",
    "heat": "-X 12 -Y 12 -Z 12 -N 20",
    "hpcg": "16 16 16 --rt 0",
    "davs": "--preset tiny",
    "pwc": "--set MaxNcent=3 --set FreezingLimit=0.02 --set WaitIterations=1",
}
"""Small runs; the benchmarks of NPB share the lines that `test_npb_common.py` looks at."""


@pytest.mark.parametrize("app", RUNS)
def test_lines_fit_a_terminal(app: str, tmp_path: Path) -> None:
    (tmp_path / "simulation.json").write_text(json.dumps(SIMULATION), encoding="utf-8")
    generators.genes(80, 3, seed=1)[0].astype("<i2").tofile(tmp_path / "distance.bin")
    words = "run", "-n", "2", "-t", "1", "--timing", "--time-limit", "200", app, *RUNS[app].split()
    shown = []
    for widths in ("0,0", "80,80"):
        command = [sys.executable, "-m", "gondwana.cli.main", *words]
        variables = {"GONDWANA_TERMINAL": widths, "GONDWANA_PROGRESS": "0"}
        (folder := tmp_path / widths).mkdir()
        for name in ("simulation.json", "distance.bin"):
            (folder / name).symlink_to(tmp_path / name)
        outcome = jobs.run_command(command, variables=variables, cwd=folder, timeout=240)
        assert outcome.status in (0, 1), str(outcome)  # 1: so few steps of pwc are not verified
        shown.append(outcome.stdout + outcome.stderr)
    whole, folded = shown
    assert [line for line in folded.splitlines() if len(line) > 80 and len(line.split()) > 1] == []
    # Numbers differ from run to run.
    assert words_of(folded) == words_of(whole)


def words_of(text: str) -> list[str]:
    """The words without digits of a text."""
    return [word for word in text.split() if not any(letter.isdigit() for letter in word)]
