"""Arrays on GPUs and their exchange of ghosts on 1, 2, 3, 4 and 6 ranks, on the emulated GPU: one job each.

GONDWANA_RANKS_PER_NODE makes the ranks of one machine believe in several nodes, so that messages are tested too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "device_array_checks.py"
NAMES = jobs.check_names(PROGRAM)
JOBS = [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (2, 1), (4, 2)]
GPUS = {"GONDWANA_CUDA": "emulated", "GONDWANA_EMULATED_DEVICES": "2"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "per_node"), JOBS, ids=[f"{n}ranks{f'-{k}pernode' if k else ''}" for n, k in JOBS])
def test_device_arrays(ranks: int, per_node: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=per_node, variables=GPUS, timeout=240)[name]
    assert not problems, "\n".join(problems)
