"""Signals, atomic domains and locks: one job per number of ranks and nodes, each of its checks a test of its own."""

from __future__ import annotations

import pytest

from support import checks, jobs

pytestmark = pytest.mark.parallel

FEWER = {"FEWER_ROUNDS": "1"}
"""MPICH's ranks stall when they outnumber the cores."""


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=200)
@pytest.mark.ranks(2, 4, ranks_per_node=1, timeout=200)
@pytest.mark.ranks(3, 6, ranks_per_node=2, timeout=200)
@pytest.mark.ranks(2, variables=FEWER, python=jobs.MPICH_PYTHON, id="mpich", timeout=200)
@pytest.mark.ranks(2, ranks_per_node=1, variables=FEWER, python=jobs.MPICH_PYTHON, id="mpich", timeout=200)
@checks.checks("synchronisation_checks")
def test_synchronisation(program: str, name: str) -> None:
    checks.run(program, name)
