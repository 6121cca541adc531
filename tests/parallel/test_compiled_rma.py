"""put, get and copy in compiled code: one job per rank count and kind of node, each of its checks a test of its own."""

from __future__ import annotations

import pytest

from support import checks, jobs

pytestmark = pytest.mark.parallel


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=240)
@pytest.mark.ranks(2, 3, ranks_per_node=1, timeout=240)
@pytest.mark.ranks(4, ranks_per_node=2, timeout=240)
@pytest.mark.ranks(2, python=jobs.MPICH_PYTHON, id="mpich", timeout=240)
@pytest.mark.ranks(2, ranks_per_node=1, python=jobs.MPICH_PYTHON, id="mpich", timeout=240)
@checks.checks("compiled_rma_checks")
def test_compiled_rma(program: str, name: str) -> None:
    checks.run(program, name)
