"""Tasks on ranks, remote channels, spawned functions, shared arrays, divided loops: one job for each setting."""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=200)
@pytest.mark.ranks(2, 3, ranks_per_node=1, timeout=200)
@pytest.mark.ranks(4, ranks_per_node=2, timeout=200)
@checks.checks("task_checks", "remote_channel_checks", "remote_task_checks")
def test_tasks_on_ranks(program: str, name: str) -> None:
    checks.run(program, name)
