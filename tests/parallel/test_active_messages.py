"""Active messages on 1, 2, 3, 4 and 6 ranks, in rings and between nodes: one job a setting, each check a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "active_message_checks.py"
NAMES = jobs.check_names(PROGRAM)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_on_one_node(ranks: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(2, 1), (4, 2)])
def test_between_nodes(ranks: int, ranks_per_node: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=ranks_per_node)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
def test_with_mpich(name: str, mpich_python: Path) -> None:
    problems = jobs.reports(2, PROGRAM, python=mpich_python)[name]
    assert not problems, "\n".join(problems)
