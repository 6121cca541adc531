"""All examples, made small, under the race detector: nothing in them is out of order."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = [pytest.mark.parallel, pytest.mark.more]

EXAMPLES = sorted((jobs.ROOT / "examples").glob("*.py"))
SMALLER = {
    "dielectric": {"SHAPE = (120, 80)": "SHAPE = (24, 16)"},
    "heat": {"(256, 256, 256)": "(16, 16, 16)", "range(100)": "range(10)"},
    "lattice_boltzmann": {"= 192, 128, 1500,": "= 24, 16, 20,"},
    "masked_diffusion": {"run((240, 120), 100_000)": "run((60, 30), 10)"},
    "multigrid": {"SHAPE = (300, 200)": "SHAPE = (60, 40)"},
    "parameter_study": {"N, SWEEPS = 96, 4000": "N, SWEEPS = 16, 20"},
    "particles": {"= 128, 32, 1_000_000, 640,": "= 128, 32, 2_000, 410,"},
    "power_iteration": {"N = 79": "N = 15"},
    "shallow_water": {"= 240, 160, 900,": "= 24, 16, 20,"},
    "spectral_diffusion": {"N, TIMES = 256,": "N, TIMES = 16,"},
    "spectral_poisson": {"N = 96": "N = 16"},
}
"""What is written instead, so that the examples end soon."""


@pytest.mark.parametrize("per_node", [0, 1])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_no_race_is_found(example: Path, per_node: int, tmp_path: Path) -> None:
    text = example.read_text(encoding="utf-8")
    for before, after in SMALLER.get(example.stem, {}).items():
        assert before in text
        text = text.replace(before, after)
    (tmp_path / example.name).write_text(text, encoding="utf-8")
    variables = {"GONDWANA_CHECK": "races:races.json"} | ({"GONDWANA_RANKS_PER_NODE": "1"} if per_node else {})
    words = "run", "-n", "2", "-t", "1" if per_node else "2", example.name
    command = [sys.executable, "-m", "gondwana.cli.main", *words]
    outcome = jobs.run_command(command, variables=variables, cwd=tmp_path, timeout=200)
    races = [race["text"] for race in json.loads((tmp_path / "races.json").read_text(encoding="utf-8"))]
    assert races == [], "\n".join(races)
    assert "lacks records" not in outcome.stderr, str(outcome)
    assert outcome.status == 0, str(outcome)
