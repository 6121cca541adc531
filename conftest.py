"""Shared by all tests: this folder is on the import path, so that tests import ``support``."""

from __future__ import annotations

import gc
import importlib.util
import os

import pytest

from gondwana.errors import UsageError
from gondwana_bench import build
from support import jobs

# A thread of NumPy's BLAS without work polls for 2**26 cycles, which other tests need, before it sleeps: here 2**4.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Name each failure at once: a run that is cut off never comes to its summary."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # not in the processes that run tests side by side
        config.pluginmanager.register(_Failures(terminal), "failures-at-once")


def pytest_collection_finish():
    """Keep thousands of tests, and all modules, out of what the collector of reference cycles looks through."""
    gc.freeze()


class _Failures:
    """Prints a line for a test when it fails."""

    def __init__(self, terminal):
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        """Print it below the letter of the test."""
        if report.failed:
            lines = report.longreprtext.strip().splitlines()
            reason = next((line for line in lines if line.startswith("E ")), lines[-1] if lines else "")
            self._terminal.write_line(f"\n{report.nodeid} ({report.when}): {reason}", red=True)


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


@pytest.fixture
def c_compiler():
    """Without a C compiler the test is skipped."""
    try:
        build.command()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def mpi4py_there():
    """Without mpi4py the test is skipped; it is not imported."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py")
