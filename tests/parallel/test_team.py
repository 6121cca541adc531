"""Teams on 1, 2, 3, 4 and 6 ranks: one job per rank count, each of its checks a test of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "team_checks.py"
NAMES = jobs.check_names(PROGRAM)
MPI = {"GONDWANA_MPI": "1"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_team(ranks: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
def test_one_rank_with_mpi(name: str) -> None:
    problems = jobs.reports(1, PROGRAM, variables=MPI)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_team_with_mpich(ranks: int, name: str, mpich_python: Path) -> None:
    problems = jobs.reports(ranks, PROGRAM, python=mpich_python, variables=MPI)[name]
    assert not problems, "\n".join(problems)
