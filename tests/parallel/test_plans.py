"""Plans of copies on 1, 2, 3, 4 and 6 ranks, on one node and on several, also with the emulated GPU: one job each."""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel

GPUS = {"GONDWANA_CUDA": "emulated", "GONDWANA_EMULATED_DEVICES": "2"}


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=240)
@pytest.mark.ranks(2, ranks_per_node=1, timeout=240)
@pytest.mark.ranks(4, ranks_per_node=2, timeout=240)
@pytest.mark.ranks(1, 3, variables=GPUS, id="gpus", timeout=240)
@pytest.mark.ranks(4, ranks_per_node=2, variables=GPUS, id="gpus", timeout=240)
@checks.checks("plan_checks")
def test_plans(program: str, name: str) -> None:
    checks.run(program, name)
