"""Arrays on GPUs and their exchange of ghosts on 1, 2, 3, 4 and 6 ranks, on the emulated GPU: one job each.

Ranks of one machine take each other to be on several nodes, so that messages are tested too.
"""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel

GPUS = {"GONDWANA_CUDA": "emulated", "GONDWANA_EMULATED_DEVICES": "2"}


@pytest.mark.ranks(1, 2, 3, 4, 6, variables=GPUS, timeout=240)
@pytest.mark.ranks(2, ranks_per_node=1, variables=GPUS, timeout=240)
@pytest.mark.ranks(4, ranks_per_node=2, variables=GPUS, timeout=240)
@checks.checks("device_array_checks")
def test_device_arrays(program: str, name: str) -> None:
    checks.run(program, name)
