"""Teams on 1, 2, 3, 4 and 6 ranks: one job per rank count, each of its checks a test of its own."""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "team_checks.py"


def check_names() -> list[str]:
    spec = importlib.util.spec_from_file_location("team_checks", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [name for name in vars(module) if name.startswith("check_")]


@functools.cache
def reports(ranks: int, python: str, with_mpi: bool) -> dict[str, list[str]]:
    """Run all checks once on so many ranks."""
    variables = {"GONDWANA_MPI": "1"} if with_mpi else {}
    outcome = jobs.run_ranks(ranks, PROGRAM, "--ranks", str(ranks), python=python, timeout=120, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_team(ranks: int, name: str) -> None:
    problems = reports(ranks, sys.executable, ranks > 1)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", check_names())
def test_one_rank_with_mpi(name: str) -> None:
    problems = reports(1, sys.executable, True)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize("ranks", [1, 2])
def test_team_with_mpich(ranks: int, name: str, mpich_python: Path) -> None:
    problems = reports(ranks, str(mpich_python), True)[name]
    assert not problems, "\n".join(problems)
