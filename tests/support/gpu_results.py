"""A plugin of pytest that writes the results of a session to a file after each test: a session may be cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LONGEST = 4000
"""Characters of a failure that are kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--gpu-results", type=Path, required=True, help="file of results, in JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Collect what the tests report."""
    config.pluginmanager.register(Results(config.getoption("--gpu-results")), "gpu-results")


class Results:
    """The results so far, in a file.

    Args:
        file: path of the file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[str, Any] = {"passed": 0, "failed": 0, "skipped": 0, "seconds": 0.0, "failures": []}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a part of a test: its set-up, its call or its end."""
        found = self._found
        found["seconds"] = round(found["seconds"] + report.duration, 2)
        if report.failed:
            found["failures"].append({"test": report.nodeid, "text": report.longreprtext[-LONGEST:]})
            self._failed.add(report.nodeid)
        elif report.skipped:
            found["skipped"] += 1
        elif report.when == "call":
            found["passed"] += 1
        found["failed"] = len(self._failed)
        if report.when == "teardown":
            self._write()

    def pytest_sessionfinish(self) -> None:
        """Write what came last."""
        self._write()

    def _write(self) -> None:
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps(self._found, indent=2) + "\n")
        part.replace(self._file)
