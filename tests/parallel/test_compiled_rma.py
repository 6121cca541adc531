"""put, get and copy in compiled code: one job per rank count and kind of node, each of its checks a test of its own."""

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "compiled_rma_checks.py"
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)


@functools.cache
def reports(ranks: int, per_node: int, python: str) -> dict[str, list[str]]:
    """Run all checks once on so many ranks, of which so many believe to be on one node (0: all)."""
    variables = {"GONDWANA_RANKS_PER_NODE": str(per_node)} if per_node else {}
    outcome = jobs.run_ranks(ranks, PROGRAM, "--ranks", str(ranks), python=python, timeout=120, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize(("ranks", "per_node"), [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (2, 1), (3, 1), (4, 2)])
def test_compiled_rma(ranks: int, per_node: int, name: str) -> None:
    problems = reports(ranks, per_node, sys.executable)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("per_node", [0, 1])
def test_compiled_rma_with_mpich(per_node: int, name: str, mpich_python: Path) -> None:
    problems = reports(2, per_node, str(mpich_python))[name]
    assert not problems, "\n".join(problems)
