"""FT on several ranks, as `gondwana run` runs it: official checksums, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gondwana import results
from support import jobs

pytestmark = pytest.mark.parallel


def run(ranks: int, *options: str) -> jobs.Outcome:
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(ranks), "-t", "1", "npb-ft", *options]
    return jobs.run_command(command, timeout=200)


MORE = [pytest.param(*job, marks=pytest.mark.more) for job in ((1, "W"), (2, "A"), (4, "W"), (8, "S"))]


@pytest.mark.parametrize(("ranks", "letter"), [(1, "S"), (2, "S"), *MORE])
def test_the_command_verifies(ranks: int, letter: str, tmp_path: Path) -> None:
    file = tmp_path / "ft.json"
    outcome = run(ranks, "--class", letter, "--json", str(file))
    assert outcome.status == 0, str(outcome)
    assert "Result verification successful" in outcome.stdout
    result = results.read(file)[0]
    assert result["verified"] is True
    assert (result["app"], result["class"], result["ranks"], result["variant"]) == ("npb-ft", letter, ranks, "pencils")
    assert result["layout"] == ("0D" if ranks == 1 else "1D")
    assert result["error"] < 1e-12
    assert result["seconds"] > 0
    assert result["mops"] > 0
    assert len(result["value"]) == len(result["reference"]) == 6


def test_numbers_of_ranks_that_are_no_power_of_two_are_not_official() -> None:
    outcome = run(3, "--class", "S")
    assert outcome.status == 1, str(outcome)
    assert "The checksums are right, but officially FT runs on 1, 2, 4, 8, ... ranks only, not on 3" in outcome.stdout


def test_illegal_options_end_before_any_rank_starts() -> None:
    outcome = run(4, "--grid", "3x1")
    assert outcome.status == 2
    assert outcome.stderr.splitlines() == [
        "gondwana: error: npb-ft: --grid 3x1: give np1xnp2 whose product is the number of ranks, 4"
    ]
