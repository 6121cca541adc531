"""Memory of a real device: all that holds on the emulated one, on one rank and on two that share the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

PROGRAMS = Path(__file__).parents[1] / "parallel" / "programs"
COPIES, CHECKS = PROGRAMS / "copy_checks.py", PROGRAMS / "cuda_memory_checks.py"
ATOMICS, COLLECTIVES = PROGRAMS / "device_atomic_checks.py", PROGRAMS / "device_collective_checks.py"
JOBS = {"1rank": (1, 0), "2ranks": (2, 0), "2ranks-1pernode": (2, 1)}
"""Ranks, and how many of them take each other to be on one node (0: all)."""


@pytest.mark.parametrize("name", jobs.check_names(COPIES))
@pytest.mark.parametrize("job", JOBS)
def test_copy(job: str, name: str, mpi4py_there: None) -> None:
    ranks, per_node = JOBS[job]
    problems = jobs.reports(ranks, COPIES, "cuda", per_node=per_node, timeout=250)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", jobs.check_names(CHECKS))
@pytest.mark.parametrize("job", JOBS)
def test_cuda_memory(job: str, name: str, mpi4py_there: None) -> None:
    ranks, per_node = JOBS[job]
    problems = jobs.reports(ranks, CHECKS, per_node=per_node, timeout=250)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", jobs.check_names(ATOMICS))
@pytest.mark.parametrize("job", JOBS)
def test_atomic_operations(job: str, name: str, mpi4py_there: None) -> None:
    ranks, per_node = JOBS[job]
    problems = jobs.reports(ranks, ATOMICS, "cuda", per_node=per_node, timeout=250)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", jobs.check_names(COLLECTIVES))
@pytest.mark.parametrize("job", JOBS)
def test_collectives(job: str, name: str, mpi4py_there: None) -> None:
    ranks, per_node = JOBS[job]
    problems = jobs.reports(ranks, COLLECTIVES, "cuda", per_node=per_node, timeout=250)[name]
    assert not problems, "\n".join(problems)
