"""The result of a benchmark with several panels: a table for each, and one file that grows with them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gondwana.bench.progress import with_progress
from gondwana.bench.report import Row, environment, show_table
from gondwana.results import ResultError, write_json


@dataclass
class Panels:
    """The figures of a benchmark with several panels.

    Attributes:
        benchmark: its name.
        file: where they are written as JSON, None: nowhere.
        device: what was measured, for the captions.
        panels: rows of each panel by its name; those of one panel have the same keys.
        notes: what was left out, and why.
        failures: what could not be measured because of an error.
        complete: whether all was measured.
        command: the command line that repeats it.
        environment: of the machine, at the start.
    """

    benchmark: str
    file: Path | None = None
    device: dict[str, Any] = field(default_factory=dict)
    panels: dict[str, list[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    complete: bool = False
    command: list[str] = field(default_factory=lambda: list(sys.argv))
    environment: dict[str, Any] = field(default_factory=environment)

    @property
    def verified(self) -> bool:
        """Whether nothing failed so far, and all rows are right."""
        return not self.failures and all(row["verified"] for rows in self.panels.values() for row in rows)

    def add(
        self,
        panel: str,
        columns: Mapping[str, str],
        rows: Iterable[Row],
        total: int,
        shown: Callable[[Row], bool] = lambda row: True,
    ) -> None:
        """Measure a panel, with a progress bar on a terminal, print it and write all panels so far. Local.

        Args:
            panel: its name.
            columns: heading by the row's key, in the order of the table.
            rows: measured as they are asked for; what was measured before an error stays.
            total: how many there will be at most.
            shown: which of them the table has; the file has all.
        """
        kept = self.panels.setdefault(panel, [])
        try:
            for row in with_progress(rows, total, panel):
                kept.append(row)
                # The rest is still measured and printed; what the file lacks at the end is an error then.
                with contextlib.suppress(ResultError):
                    self.write()
        finally:
            self.show(panel, columns, filter(shown, kept))

    def show(self, panel: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """Print rows of a panel as a table. Local."""
        caption = self.device.get("name", self.environment["cpu"])
        show_table(f"gondwana bench {self.benchmark}: {panel}", caption, columns, rows)

    def note(self, text: str) -> None:
        """Print and record why something was left out. Local."""
        self.notes.append(text)
        print(f"gondwana: {text}", file=sys.stderr, flush=True)

    def fail(self, text: str) -> None:
        """Print and record what could not be measured because of an error. Local."""
        self.failures.append(text)
        print(f"gondwana: FAILED: {text}", file=sys.stderr, flush=True)

    def write(self) -> None:
        """Write the file, if there is one. Local.

        Raises:
            ResultError: it cannot be written.
        """
        if self.file is not None:
            content = asdict(self)
            del content["file"]
            write_json(self.file, content)
