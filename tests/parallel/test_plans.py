"""Plans of copies on 1, 2, 3, 4 and 6 ranks, on one node and on several, also with the emulated GPU: one job each."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "plan_checks.py"
GPUS = {"GONDWANA_CUDA": "emulated", "GONDWANA_EMULATED_DEVICES": "2"}
JOBS = {
    "1ranks": (1, 0, {}),
    "2ranks": (2, 0, {}),
    "3ranks": (3, 0, {}),
    "4ranks": (4, 0, {}),
    "6ranks": (6, 0, {}),
    "2ranks-1pernode": (2, 1, {}),
    "4ranks-2pernode": (4, 2, {}),
    "1ranks-gpus": (1, 0, GPUS),
    "3ranks-gpus": (3, 0, GPUS),
    "4ranks-2pernode-gpus": (4, 2, GPUS),
}


@pytest.mark.parametrize("name", jobs.check_names(PROGRAM))
@pytest.mark.parametrize("job", JOBS)
def test_plans(job: str, name: str) -> None:
    ranks, per_node, variables = JOBS[job]
    problems = jobs.reports(ranks, PROGRAM, per_node=per_node, variables=variables, timeout=240)[name]
    assert not problems, "\n".join(problems)
