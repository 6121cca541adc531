"""Arrays on other ranks, nodes and devices: one job per rank count, each of its checks a test of its own.

GONDWANA_RANKS_PER_NODE makes the ranks of one machine believe in several nodes.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "remote_array_checks.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "ghosts.py"
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)
JOBS = [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (2, 1), (3, 1), (4, 2), (6, 2)]


@functools.cache
def reports(ranks: int, per_node: int, python: str) -> dict[str, list[str]]:
    """Run all checks once on so many ranks."""
    variables = {"GONDWANA_RANKS_PER_NODE": str(per_node)} if per_node else {}
    outcome = jobs.run_ranks(ranks, PROGRAM, "--ranks", str(ranks), python=python, timeout=120, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize(("ranks", "per_node"), JOBS, ids=[f"{n}ranks{f'-{k}pernode' if k else ''}" for n, k in JOBS])
def test_remote_arrays(ranks: int, per_node: int, name: str) -> None:
    problems = reports(ranks, per_node, sys.executable)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", CHECKS)
def test_remote_arrays_with_mpich(name: str, mpich_python: Path) -> None:
    problems = reports(2, 1, str(mpich_python))[name]
    assert not problems, "\n".join(problems)


def test_the_example_of_ghosts_by_hand() -> None:
    outcome = jobs.run_ranks(3, EXAMPLE)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.count("same bits") == 4
