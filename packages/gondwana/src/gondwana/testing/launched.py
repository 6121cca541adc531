"""Sessions of pytest on all ranks of a job: ``gondwana run -n 2 pytest``.

All ranks run all tests. Rank 0 reports for all of them: a test fails on it if it has failed on any rank.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from gondwana.testing.agreement import Agreement
from gondwana.testing.groups import Result, of_all

_SILENT = ("", "", "")


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
        """Make a report one of all ranks. Collective over all ranks."""
        failure = f"{report.nodeid} failed\n{report.longreprtext}" if report.failed else None
        if self._agreement.failures(failure) in (0, self._agreement.size):
            return
        own = Result(report.outcome, report.longreprtext, tuple(report.sections))
        merged = of_all(self._agreement.exchange(own))
        report.outcome = "failed"
        report.longrepr = merged.text
        report.sections = list(merged.sections)
