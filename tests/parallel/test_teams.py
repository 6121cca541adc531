"""Teams, messages and collectives, in Python and in compiled code: two programs, a job for each setting."""

from __future__ import annotations

import pytest

from support import checks, jobs

pytestmark = pytest.mark.parallel

MPI = {"GONDWANA_MPI": "1"}


@pytest.mark.ranks(1)
@checks.checks("team_checks")
def test_one_rank_without_mpi(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(1, 2, 3, 4, 6, variables=MPI, timeout=200)
@pytest.mark.ranks(1, 2, variables=MPI, python=jobs.MPICH_PYTHON, id="mpich", timeout=200)
@checks.checks("team_checks", "verbs_checks")
def test_teams(program: str, name: str) -> None:
    checks.run(program, name)
