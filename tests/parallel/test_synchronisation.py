"""Signals, atomic domains and locks: one job per number of ranks and nodes, each of its checks a test of its own."""

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "synchronisation_checks.py"
NAMES = re.findall(r"^def (check_\w+)", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)


@functools.cache
def reports(ranks: int, ranks_per_node: int, python: str, *options: str) -> dict[str, list[str]]:
    """Run all checks once on so many ranks."""
    variables = {"GONDWANA_RANKS_PER_NODE": str(ranks_per_node)}
    arguments = "--ranks", str(ranks), *options
    outcome = jobs.run_ranks(ranks, PROGRAM, *arguments, python=python, timeout=200, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_on_one_node(ranks: int, name: str) -> None:
    problems = reports(ranks, ranks, sys.executable)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(2, 1), (4, 1), (3, 2), (6, 2)])
def test_between_nodes(ranks: int, ranks_per_node: int, name: str) -> None:
    problems = reports(ranks, ranks_per_node, sys.executable)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks_per_node", [2, 1])
def test_with_mpich(ranks_per_node: int, name: str, mpich_python: Path) -> None:
    problems = reports(2, ranks_per_node, str(mpich_python), "--few")[name]
    assert not problems, "\n".join(problems)
