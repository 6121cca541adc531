"""Arrays on other ranks, nodes and devices: one job per rank count, each of its checks a test of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import checks, jobs

pytestmark = pytest.mark.parallel

EXAMPLE = Path(__file__).parents[2] / "examples" / "ghosts.py"


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=240)
@pytest.mark.ranks(2, 3, ranks_per_node=1, timeout=240)
@pytest.mark.ranks(4, 6, ranks_per_node=2, timeout=240)
@pytest.mark.ranks(2, ranks_per_node=1, python=jobs.MPICH_PYTHON, id="mpich", timeout=240)
@checks.checks("remote_array_checks")
def test_remote_arrays(program: str, name: str) -> None:
    checks.run(program, name)


def test_the_example_of_ghosts_by_hand() -> None:
    outcome = jobs.run_ranks(3, EXAMPLE)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.count("same bits") == 4
