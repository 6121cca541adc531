"""Tasks on several ranks: one job per number of ranks, each of its checks a test of its own."""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=120)
@pytest.mark.ranks(3, ranks_per_node=1, timeout=120)
@checks.checks("task_checks")
def test_tasks_on_ranks(program: str, name: str) -> None:
    checks.run(program, name)
