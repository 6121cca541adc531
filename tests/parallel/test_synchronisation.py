"""Signals, atomic domains and locks: one job per number of ranks and nodes, each of its checks a test of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "synchronisation_checks.py"
NAMES = jobs.check_names(PROGRAM)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_on_one_node(ranks: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=ranks, timeout=200)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(2, 1), (4, 1), (3, 2), (6, 2)])
def test_between_nodes(ranks: int, ranks_per_node: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=ranks_per_node, timeout=200)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks_per_node", [2, 1])
def test_with_mpich(ranks_per_node: int, name: str, mpich_python: Path) -> None:
    problems = jobs.reports(2, PROGRAM, "--few", per_node=ranks_per_node, python=mpich_python, timeout=200)[name]
    assert not problems, "\n".join(problems)
