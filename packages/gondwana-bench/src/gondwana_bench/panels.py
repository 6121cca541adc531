"""The result of a benchmark: a table for each of its panels, and one file that grows with them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from gondwana import ProgressBar, Team, results, world
from gondwana.errors import UsageError
from gondwana.results import ResultError, units_of, write_json
from gondwana_bench import build
from gondwana_bench.disturbance import LIMIT, watched
from gondwana_bench.measure import pin
from gondwana_bench.processes import job_options
from gondwana_bench.rows import Row

T = TypeVar("T")

Derived = tuple[Mapping[str, str], Callable[[Sequence[Row]], list[Row]]]
"""Headings of a panel, and the function that computes its rows from those of another."""


def environment() -> dict[str, Any]:
    """Return a description of the machine and software, with the C compiler, on which figures depend. Local."""
    return {**results.environment(), "compiler": _compiler(), "compiler_flags": list(build.FLAGS)}


@dataclass
class Panels:
    """The figures of a benchmark.

    Attributes:
        benchmark: name of the benchmark.
        file: path of the JSON file, or None.
        device: description of the device, for the captions.
        panels: rows of each panel by its name; those of one panel have the same keys.
        notes: cases that were left out, with the reason.
        failures: cases that could not be measured because of an error.
        complete: whether all was measured.
        command: the command line that repeats it.
        environment: description of the machine, at the start.
        meanwhile: load that disturbed the jobs that were run last.
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
    meanwhile: Row = field(default_factory=dict)

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
        team: Team | None = None,
    ) -> None:
        """Measure a panel, with a progress bar on a terminal, print it and write all panels so far. Local.

        With a team its rank 0 does this; the others ask for the rows of `watched` meanwhile.

        Args:
            panel: name of the panel.
            columns: heading by the row's key, in the order of the table.
            rows: rows that are measured as they are asked for; those before an error stay.
            total: largest number of rows.
            shown: function that selects rows for the table; the file has all.
            team: ranks that measure together.
        """
        kept = self.panels.setdefault(panel, [])
        try:
            for row in with_progress(watched(rows, team), total, panel):
                kept.append(row)
                # The rest is still measured and printed; what the file lacks at the end is an error then.
                with contextlib.suppress(ResultError):
                    self.write()
        finally:
            self.show(panel, columns, filter(shown, kept))

    def run(self, jobs: Iterable[T], total: int, what: str) -> list[T]:
        """Run jobs, with a progress bar on a terminal, and return their results: for rows to `put`. Local."""
        [self.meanwhile] = watched({"found": list(with_progress(jobs, total, what))} for _ in range(1))
        return [*self.meanwhile.pop("found")]

    def put(self, panel: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """Record a panel of rows that are computed from others or from jobs, and print it. Local."""
        self.panels[panel] = [{**self.meanwhile, **row} for row in rows]
        self.show(panel, columns, self.panels[panel])

    def show(self, panel: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """Print rows of a panel as a table. Local."""
        from gondwana_bench.report.text_tables import show_table
        from gondwana_bench.report.verdicts import verdict_of_panel

        title = f"gondwana bench {self.benchmark}" + (f", {panel}" if panel != self.benchmark else "")
        shown = [*rows]
        verdict = verdict_of_panel(self.benchmark, panel, shown)
        show_table(title, self.device.get("name", self.environment["cpu"]), columns, shown, verdict)

    def note(self, text: str) -> None:
        """Print and record why something was left out. Local."""
        self.notes.append(text)
        print(f"gondwana: {text}", file=sys.stderr, flush=True)

    def fail(self, text: str) -> None:
        """Print and record a case that could not be measured because of an error. Local."""
        self.failures.append(text)
        print(f"gondwana: FAILED: {text}", file=sys.stderr, flush=True)

    def finish(self, *, complete: bool = True) -> None:
        """Write the file at the end, and warn of rows that were measured while other programs ran. Local.

        Args:
            complete: whether all was measured.

        Raises:
            ResultError: the file cannot be written.
        """
        self.complete = complete
        self.write()
        if any((row.get("foreign_load") or 0.0) > LIMIT for rows in self.panels.values() for row in rows):
            advice = "measure again on a quiet machine, or wait for one with --quiet-wait"
            print(f"gondwana: {advice}", file=sys.stderr, flush=True)

    def write(self) -> None:
        """Write the file, if one was asked for. Local.

        Raises:
            ResultError: the file cannot be written.
        """
        if self.file is not None:
            write_json(self.file, self.content())

    def content(self) -> dict[str, Any]:
        """Return the result as the file has it: see `results.schema.BenchmarkResult`. Local."""
        return {
            "schema": results.VERSION,
            "benchmark": self.benchmark,
            "command": self.command,
            "verified": self.verified,
            "complete": self.complete,
            "environment": self.environment,
            "device": self.device,
            "units": units_of(self.benchmark, (row for rows in self.panels.values() for row in rows)),
            "panels": self.panels,
            "notes": self.notes,
            "failures": self.failures,
        }


def measure_on_ranks(
    benchmark: str,
    columns: Mapping[str, str],
    measure: Callable[..., Iterable[Row]],
    *,
    derived: Mapping[str, Derived] = MappingProxyType({}),
    pinned: bool = False,
) -> int:
    """Measure a benchmark of one panel, print its table and write the file. Collective over all ranks.

    The only argument of the program has the options as a JSON object.

    Args:
        benchmark: name of the benchmark.
        columns: heading by the row's key, in the order of the table.
        measure: yields the rows, the same on every rank; called with the world and the options.
        derived: panels that are computed from the rows of the first; those without rows are left out.
        pinned: whether each rank is bound to a core of its own.

    Returns:
        The exit status: 0 if all rows are verified.
    """
    options = job_options()
    command, file = options.pop("command"), options.pop("file")
    world.barrier()  # starts MPI, which the description of the environment names
    report = Panels(benchmark, None if file is None else Path(file), command=command)
    if pinned:
        pin(world)
    report.panels[benchmark] = list(watched(measure(world, **options), world))
    if world.rank == 0:
        report.show(benchmark, columns, report.panels[benchmark])
        for panel, (headings, rows_from) in derived.items():
            if rows := rows_from(report.panels[benchmark]):
                report.put(panel, headings, rows)
        report.finish()
    return 0 if report.verified else 1


class _Launcher:
    """The process that starts the measured ones: in no team, and alone on the terminal."""

    rank = 0


def with_progress(rows: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yield rows, with a progress bar if standard error is a terminal. Local."""
    with ProgressBar(_Launcher(), what, total, transient=True) as bar:
        for done, row in enumerate(rows, 1):
            yield row
            bar.show(done)


def _compiler() -> str | None:
    """Return the version of the C compiler, or None: benchmarks of GPUs need no compiler."""
    try:
        return build.compiler_version()
    except UsageError:
        return None
