"""Messages and collectives in compiled code: one job per rank count, each of its checks a test of its own."""

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "verbs_checks.py"
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)


@functools.cache
def reports(ranks: int, python: str) -> dict[str, list[str]]:
    """Run all checks once on so many ranks."""
    outcome = jobs.run_ranks(
        ranks, PROGRAM, "--ranks", str(ranks), python=python, timeout=120, variables={"GONDWANA_MPI": "1"}
    )
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_verbs(ranks: int, name: str) -> None:
    problems = reports(ranks, sys.executable)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", CHECKS)
def test_verbs_with_mpich(name: str, mpich_python: Path) -> None:
    problems = reports(2, str(mpich_python))[name]
    assert not problems, "\n".join(problems)
