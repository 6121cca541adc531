"""Sessions of pytest on all ranks of a job, as in ``gondwana run -n 2 pytest``.

All ranks run all tests, and agree after each of them on whether it has failed anywhere. Rank 0 reports for all of them:
a test fails on it if it has failed on any rank.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from gondwana.runtime import exits
from gondwana.runtime.progress import progress
from gondwana.runtime.watching import watchdog
from gondwana.testing.groups import Result, of_all

PATIENCE = 10.0
"""Seconds that a rank whose test has failed gives the others to end that test, too."""

_SILENT = ("", "", "")


class Agreement:
    """The ranks of a session of tests. Creating one is collective over all ranks."""

    def __init__(self) -> None:
        from gondwana.teams import world  # now, as tests may be imported before MPI starts

        own = world.comm  # starts the watchdog, for one rank as well
        self.size: int = own.size
        self._comm: Any = own.Dup() if own.size > 1 else None

    def failures(self, failure: str | None) -> int:
        """Return the number of ranks on which a test failed. Collective over all ranks; serves others while it waits.

        A rank that has failed does not wait long for the others, which may wait for it: it prints its failure and
        where all ranks are, and ends the job.

        Args:
            failure: text to print in that case; None if the test has not failed on this rank.
        """
        count = np.array([failure is not None], np.intc)
        if self._comm is None:
            return int(count[0])
        own = count.copy()
        request = self._comm.Iallreduce(own, count)
        end = math.inf if failure is None else time.monotonic() + PATIENCE
        pause = 1e-4
        while not request.Test():
            if progress():
                pause = 1e-4
                continue
            if failure is not None and time.monotonic() > end:
                _report_and_abort(failure)
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        return int(count[0])

    def exchange(self, own: Any) -> list[Any]:
        """Return the values of all ranks. Collective over all ranks."""
        found: list[Any] = [own] if self._comm is None else self._comm.allgather(own)
        return found


def _report_and_abort(failure: str) -> None:
    """Print the failure and where all ranks stand, and end the job."""
    exits.report(failure)
    if signal.getsignal(signal.SIGUSR1) not in (signal.SIG_DFL, signal.SIG_IGN, None):
        os.kill(os.getpid(), signal.SIGUSR1)  # asks the watchdog
        time.sleep(2 * watchdog.ANSWER_TIME)
    exits.abort(1)


class Launched:
    """The plugin of such a session. Local."""

    def __init__(self, config: pytest.Config, rank: int) -> None:
        self._rank = rank
        self._agreement: Agreement
        if rank:
            config.option.verbose = -2
            config.option.no_header = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Connect the ranks."""
        self._agreement = Agreement()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Agree on the outcome of a test, and once more when its fixtures have been torn down."""
        report = yield
        if call.when != "setup" or not report.passed:
            self._agree(report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self) -> tuple[str, str, str] | None:
        """Leave the progress of the tests to rank 0."""
        return _SILENT if self._rank else None

    def _agree(self, report: pytest.TestReport) -> None:
        """Combine the reports of all ranks into one. Collective over all ranks."""
        failure = f"{report.nodeid} failed\n{report.longreprtext}" if report.failed else None
        if self._agreement.failures(failure) in (0, self._agreement.size):
            return
        own = Result(report.outcome, report.longreprtext, tuple(report.sections))
        merged = of_all(self._agreement.exchange(own))
        report.outcome = "failed"
        report.longrepr = merged.text
        report.sections = list(merged.sections)
