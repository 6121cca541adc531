"""Parts of HPCG, FT and CG on several ranks, against NumPy and official values: each check of a program is a test.

The programs share a job for each setting, as most of what a job costs is the start of its ranks.
"""

from __future__ import annotations

import pytest

from support import checks

pytestmark = pytest.mark.parallel

TIMEOUT = 280
TWO_PER_NODE = pytest.mark.ranks(4, ranks_per_node=2, timeout=TIMEOUT)


@pytest.mark.ranks(2, 3, 6, timeout=TIMEOUT)
@checks.checks("hpcg_checks")
def test_hpcg(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(2, ranks_per_node=1, timeout=TIMEOUT)
@TWO_PER_NODE
def test_hpcg_between_nodes() -> None:
    """Only the exchange is another there; what computes takes long to compile."""
    checks.run("hpcg_checks", "check_exchanges_in_a_row")


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=TIMEOUT)
@TWO_PER_NODE
@checks.checks("npb_ft_checks")
def test_ft(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(1, 2, 3, 4, timeout=TIMEOUT)
@TWO_PER_NODE
@checks.checks("npb_cg_checks")
def test_cg(program: str, name: str) -> None:
    checks.run(program, name)
