"""Active messages on 1, 2, 3, 4 and 6 ranks, in rings and between nodes: one job a setting, each check a test."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "active_message_checks.py"


def check_names() -> list[str]:
    return [line[4 : line.index("(")] for line in PROGRAM.read_text().splitlines() if line.startswith("def check_")]


@functools.cache
def reports(ranks: int, python: str = sys.executable, ranks_per_node: int = 0) -> dict[str, list[str]]:
    """Run all checks once on so many ranks."""
    variables = {"GONDWANA_RANKS_PER_NODE": str(ranks_per_node)} if ranks_per_node else {}
    outcome = jobs.run_ranks(ranks, PROGRAM, "--ranks", str(ranks), python=python, timeout=120, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_on_one_node(ranks: int, name: str) -> None:
    problems = reports(ranks)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(2, 1), (4, 2)])
def test_between_nodes(ranks: int, ranks_per_node: int, name: str) -> None:
    problems = reports(ranks, ranks_per_node=ranks_per_node)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", check_names())
def test_with_mpich(name: str, mpich_python: Path) -> None:
    problems = reports(2, str(mpich_python))[name]
    assert not problems, "\n".join(problems)
