"""Shared by all tests: this folder is on the import path, so that tests import ``support``."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from gondwana.errors import UsageError
from gondwana.testing.plugin import SIZE, Setting, setting_of, settings_of
from gondwana_bench import build
from support import jobs

# A thread of NumPy's BLAS without work polls for 2**26 cycles, which other tests need, before it sleeps: here 2**4.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
# Otherwise jobs that take more than ten seconds would say on standard error how far they are.
os.environ.setdefault("GONDWANA_PROGRESS", "0")


def pytest_addoption(parser):
    parser.addoption("--more", action="store_true", help="run what is left out without it, and more random examples")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Name each failure at once: a run that is cut off never comes to its summary."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # not in the processes that run tests side by side
        config.pluginmanager.register(_Failures(terminal), "failures-at-once")


def pytest_collection_modifyitems(config, items):
    """Leave larger numbers of ranks to `make test-more`; the ranks of a job run what its session has chosen."""
    if SIZE in config.stash:
        return
    chosen = [], []
    for item in items:
        chosen[is_more(item) == config.option.more or (config.option.more and is_random(item))].append(item)
    others, items[:] = chosen
    config.hook.pytest_deselected(items=others)
    if hasattr(config, "workerinput"):  # pytest-xdist deals out modules and jobs as they come here
        sizes = Counter(item.path for item in items)
        items.sort(key=lambda item: (turn_of(item), -sizes[item.path]))


def turn_of(item):
    """Where a test comes: what takes long first, so that no worker is left with it alone at the end."""
    setting = setting_of(item)
    if setting is None:
        return 1 if item.get_closest_marker("parallel") else 3
    return 0 if setting.ranks == 2 else 2  # later jobs find compiled what the first has compiled


def is_random(item):
    """Whether Hypothesis chooses the examples of a test, more of them for `make test-more`."""
    return item.path.parent.name == "property"


def is_more(item):
    """Whether a test is marked so, or is for more ranks than per push and for fewer as well."""
    setting = setting_of(item)
    if setting is None or not is_large(setting):
        has_more = setting is not None and two_per_node(setting) in settings_of(item)
        return has_more or item.get_closest_marker("more") is not None
    return not all(map(is_large, settings_of(item)))


def two_per_node(setting: Setting) -> Setting | None:
    """The setting with another rank on each of its two nodes, whose messages are the same; None for other settings."""
    if (setting.ranks, setting.ranks_per_node) != (2, 1):
        return None
    return replace(setting, ranks=4, ranks_per_node=2)


def is_large(setting: Setting) -> bool:
    """Whether a job has more than three ranks, and more than two pretended nodes of two ranks; or three nodes.

    Or more than four threads in all.
    """
    if setting.threads > 1 and setting.ranks * setting.threads > 4:
        return True
    if setting.ranks_per_node and setting.ranks > 2 * setting.ranks_per_node:
        return True
    return setting.ranks > 3 and (setting.ranks, setting.ranks_per_node) != (4, 2)


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
    return other_python(jobs.MPICH_PYTHON)


@pytest.fixture
def intel_python():
    """The interpreter of the environment with Intel MPI; without it the test is skipped."""
    return other_python(jobs.INTEL_PYTHON)


def other_python(path):
    """The interpreter of an environment that `make` makes where it can; without it the test is skipped."""
    if not path.exists():
        name = path.parents[1].name.rpartition("-")[2]
        pytest.skip(f"no {path}: python tests/support/make_mpi_env.py {name} makes it")
    return path


@pytest.fixture
def c_compiler():
    """Without a C compiler the test is skipped."""
    try:
        build.command()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def second_compiler(c_compiler, monkeypatch):
    """The name of a compiler that native programs have besides; without clang the test is skipped."""
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    monkeypatch.setenv(build.SECOND, "clang")
    return "clang"


@pytest.fixture
def mpi4py_there():
    """Without mpi4py the test is skipped; it is not imported."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py")
