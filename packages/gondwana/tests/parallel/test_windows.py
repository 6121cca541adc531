"""Windows and payloads on ranks that take each other for other nodes: one job per rank count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "window_checks.py"
NAMES = jobs.check_names(PROGRAM)


@jobs.once
def reports(ranks: int, python: str) -> dict[str, list[str]]:
    """Run all checks once on so many ranks; windows live and have work under way when the job ends."""
    variables = {"GONDWANA_MPI": "1", "GONDWANA_RANKS_PER_NODE": "1"}
    outcome = jobs.run_ranks(
        ranks, PROGRAM, "--ranks", str(ranks), "--live", python=python, timeout=100, variables=variables
    )
    found = jobs.by_check(outcome)
    assert outcome.stderr == ""
    assert len(outcome.stdout.splitlines()) == len(found), f"MPI complains at its end: {outcome}"
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2, 3, pytest.param(4, marks=pytest.mark.more)])
def test_windows(ranks: int, name: str) -> None:
    problems = reports(ranks, sys.executable)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
def test_windows_with_mpich(name: str, mpich_python: Path) -> None:
    problems = reports(2, str(mpich_python))[name]
    assert not problems, "\n".join(problems)
