"""Messages and collectives in compiled code: one job per rank count, each of its checks a test of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "verbs_checks.py"
NAMES = jobs.check_names(PROGRAM)
MPI = {"GONDWANA_MPI": "1"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_verbs(ranks: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, variables=MPI)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
def test_verbs_with_mpich(name: str, mpich_python: Path) -> None:
    problems = jobs.reports(2, PROGRAM, python=mpich_python, variables=MPI)[name]
    assert not problems, "\n".join(problems)
