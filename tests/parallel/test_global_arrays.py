"""Global arrays and the exchange of ghosts on 1, 2, 3, 4 and 6 ranks: one job each, every check a test of its own.

Ranks of one machine take each other to be on several nodes, so that messages are tested too.
"""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=240)
@pytest.mark.ranks(2, ranks_per_node=1, timeout=240)
@pytest.mark.ranks(3, 4, ranks_per_node=2, timeout=240)
@checks.checks("exchange_checks")
def test_global_arrays(program: str, name: str) -> None:
    checks.run(program, name)
