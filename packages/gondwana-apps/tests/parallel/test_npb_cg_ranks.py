"""CG on several ranks: the official classes as `gondwana run` runs them."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from gondwana import results
from support import jobs

pytestmark = pytest.mark.parallel

KEYS = {"app", "class", "ranks", "variant", "verified", "seconds", "mops", "value", "reference", "error"}


MORE = [pytest.param(letter, ranks, marks=pytest.mark.more) for letter, ranks in itertools.product("WA", (1, 2, 4))]


@pytest.mark.parametrize(("letter", "ranks"), [("S", 1), ("S", 2), *MORE])
def test_official(letter: str, ranks: int, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(ranks), "npb-cg", "--class", letter]
    outcome = jobs.run_command([*command, "--json", str(file)], variables={"NPB_TIMER_FLAG": "1"}, timeout=200)
    assert outcome.status == 0, str(outcome)
    result = results.read(file)[0]
    assert result.keys() >= KEYS
    assert (result["app"], result["class"], result["ranks"], result["variant"]) == ("npb-cg", letter, ranks, "flags")
    assert result["verified"] is True
    assert result["error"] < 1e-11
    seconds = {name: spread["average"] for name, spread in result["sections"].items()}
    assert seconds["conjg"] + seconds["rcomm"] + seconds["ncomm"] <= 1.01 * seconds["total"]
    assert "Verification    =               SUCCESSFUL" in outcome.stdout


def test_wrong_input_gets_one_line() -> None:
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "npb-cg", "--class", "Q"]
    outcome = jobs.run_command(command)
    assert outcome.status == 2
    assert outcome.stderr.count("\n") == 1, outcome.stderr
