"""The program of a rank of a job of tests: ``python -m gondwana.testing.session FILE``.

It runs the tests that the file names with pytest, as the session that has started the job would, and records each
result in its own file. After each test the ranks agree: if it has failed on one of them, all stop, because the next
test could be disturbed by unfinished acts of this one.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest

from gondwana.runtime import exits, launcher
from gondwana.runtime.watching import watchdog
from gondwana.testing.agreement import Agreement
from gondwana.testing.groups import ORDER, module_of
from gondwana.testing.plugin import SETTINGS, SIZE

BROKEN = ("failed", "xfailed")
"""Outcomes after which ranks may stand at different places."""

ENDS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)

"""Exit codes of sessions whose results are all recorded."""

WITHOUT = ("terminal", "xdist", "xdist.looponfail", "cacheprovider", "timeout", "randomly", "faulthandler")
"""Plugins that concern only the session that has started the job."""


def main(file: str) -> int:
    """Run the tests that ``file`` names; return the exit status. Collective over all ranks."""
    exits.install()
    job = launcher.detect()
    rank = 0 if job is None else job.rank
    watchdog.arm(watchdog.time_limit(), first=rank == 0)
    specification = json.loads(Path(file).read_text(encoding="utf-8"))
    recorder = JobSession(specification, rank)
    arguments = [*specification["modules"], *specification["arguments"], *_own_arguments(specification, rank)]
    status = pytest.main(arguments, plugins=[recorder])
    return 0 if status in ENDS or recorder.stopped else int(status)


def _own_arguments(specification: dict[str, Any], rank: int) -> list[str]:
    """Arguments that override those of the configuration file."""
    without = [word for name in WITHOUT for word in ("-p", f"no:{name}")]
    folder = Path(specification["folder"]) / f"rank{rank}"
    # Options of the plugins that are left out are no mistakes in the user's file.
    changes = ["-o", "addopts=", "-o", "strict_config=false"]
    # Assertions are rewritten in tests; the package of the plugin, which runs already, has none.
    ignored = "ignore::pytest.PytestConfigWarning", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    warnings = [word for one in ignored for word in ("-W", one)]
    return [*without, *changes, *warnings, f"--basetemp={folder}"]


class JobSession:
    """The plugin of such a session."""

    def __init__(self, specification: dict[str, Any], rank: int) -> None:
        self.stopped = False
        self._tests: list[str] = specification["tests"]
        self._rank = rank
        self._size: int = specification["ranks"]
        self._settings: list[str] = specification["settings"]
        self._limit: float | None = specification["limit"] if len(specification["modules"]) > 1 else None
        self._options: dict[str, Any] = specification["options"]
        self._folder = Path(specification["folder"])
        self._file: TextIO = (self._folder / f"rank{rank}.jsonl").open("w", encoding="utf-8")
        self._agreement: Agreement
        self._problems: list[str] = []
        self._broken: list[str] = []
        self._module = ""
        self._reports: list[pytest.TestReport] = []

    @pytest.fixture
    def tmp_path(self, request: pytest.FixtureRequest) -> Path:
        """The folder of a test, the same one on all of its ranks."""
        name = re.sub(r"\W+", "_", request.node.name)[:40]
        path = self._folder / "shared" / f"{self._tests.index(request.node.nodeid)}-{name}"
        path.mkdir(parents=True, exist_ok=True)
        return path

    # -- collecting ----------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Have marked tests executed in this session."""
        config.stash[SIZE] = self._size
        config.stash[SETTINGS] = self._settings
        for name, value in self._options.items():
            setattr(config.option, name, value)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the reason why a module cannot be imported."""
        if report.failed:
            self._problems.append(report.longreprtext)
            self._broken.append(module_of(report.nodeid))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests of the job, in the same order on all ranks."""
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self._tests if name in found]
        lost = [name for name in self._tests if name not in found]
        if lost and not self._problems:
            self._problems.append(f"this rank does not find {', '.join(lost)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Connect the ranks, and start no test unless all of them have found all tests."""
        self._session = session
        self._agreement = Agreement()
        if self._agreement.size != self._size:
            self._problems.append(f"MPI has joined {self._agreement.size} ranks of the {self._size} that were started")
        if self._problems:
            self._record("", outcome="failed", text="\n".join(self._problems))
            for module in self._broken:
                self._record(module)
        return True if self._agree_on_failure(bool(self._problems)) else None

    # -- running -------------------------------------------------------------------------------------------------

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test begins; each module has its time limit."""
        if self._module != (module := module_of(nodeid)):
            self._module = module
            watchdog.arm(self._limit, first=self._rank == 0)  # it has the limit of all modules together
        self._reports = []
        self._record(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Agree on the outcome before fixtures are torn down, which may be collective."""
        self._reports.append(report)
        if report.when == "call" or (report.when == "setup" and not report.passed):
            if _outcome(report) in BROKEN:
                self._record_result(report.nodeid)
            self._agree_on_failure(_outcome(report) in BROKEN)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Record the result of a test, and agree on it once more, because its end may have failed."""
        self._record_result(nodeid)
        self._agree_on_failure(_outcome(self._reports[-1]) in BROKEN)

    def pytest_internalerror(self, excrepr: object) -> None:
        """Show an error that no terminal plugin shows."""
        os.write(2, f"{excrepr}\n".encode())

    # -- recording -----------------------------------------------------------------------------------------------

    def _record_result(self, nodeid: str) -> None:
        worst = min(self._reports, key=lambda report: ORDER.index(_outcome(report)))
        if _outcome(worst) == "passed":
            worst = self._reports[min(1, len(self._reports) - 1)]
        texts = [_text(report) for report in self._reports if _outcome(report) == _outcome(worst)]
        text = "\n".join(filter(None, texts))
        self._record(nodeid, outcome=_outcome(worst), text=text, sections=self._reports[-1].sections)

    def _record(self, nodeid: str, **values: Any) -> None:
        self._file.write(json.dumps({"test": nodeid, **values}) + "\n")
        self._file.flush()

    # -- agreeing ------------------------------------------------------------------------------------------------

    def _agree_on_failure(self, failed: bool) -> bool:
        """Return whether any rank has failed, and stop the session then. Collective over all ranks; serves others."""
        if self._agreement.failures("" if failed else None):  # its text is in the file already
            self.stopped = True
            self._session.shouldstop = "a test has failed"
        return self.stopped


def _outcome(report: pytest.TestReport) -> str:
    """Return an outcome as it is without xfail: whether it was expected is for the session outside to say."""
    if report.skipped and hasattr(report, "wasxfail"):
        return "xfailed"
    strict = report.failed and report.longreprtext.startswith("[XPASS(strict)]")
    return "passed" if strict else report.outcome


def _text(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return report.wasxfail
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
