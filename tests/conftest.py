"""Shared by all tests: this folder is on the import path, so that tests import ``support``."""

from __future__ import annotations

import pytest

from support import jobs


@pytest.fixture
def run_ranks():
    """Start a real parallel job: see ``support.jobs.run_ranks``."""
    return jobs.run_ranks


@pytest.fixture
def mpich_python():
    """The interpreter of the environment with MPICH; without it the test is skipped."""
    if not jobs.MPICH_PYTHON.exists():
        pytest.skip("no .venv-mpich: python tests/support/make_mpich_env.py makes it")
    return jobs.MPICH_PYTHON
