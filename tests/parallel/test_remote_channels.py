"""Remote channels: one job per number of ranks and nodes, each of its checks a test of its own."""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel


@pytest.mark.ranks(1, 2, 3, 4, 6)
@pytest.mark.ranks(2, ranks_per_node=1)
@pytest.mark.ranks(4, ranks_per_node=2)
@checks.checks("remote_channel_checks")
def test_remote_channels(program: str, name: str) -> None:
    checks.run(program, name)
