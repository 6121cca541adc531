"""Spawned functions, shared arrays, divided loops: one job per number of ranks and nodes, each check a test."""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel


@pytest.mark.ranks(1, 2, 3, 4, 6)
@pytest.mark.ranks(2, ranks_per_node=1)
@pytest.mark.ranks(4, ranks_per_node=2)
@checks.checks("remote_task_checks")
def test_remote_tasks(program: str, name: str) -> None:
    checks.run(program, name)
