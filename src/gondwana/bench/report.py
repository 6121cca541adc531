"""The result of a benchmark with one table: rows of figures and the machine, printed and as a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gondwana import results
from gondwana.bench import build
from gondwana.bench.statistics import ratio, summarize
from gondwana.errors import UsageError
from gondwana.runtime import exits, terminal
from gondwana.teams import world

Row = dict[str, Any]


def environment() -> dict[str, Any]:
    """Return a description of the machine and software, with the C compiler, on which figures depend. Local."""
    return {**results.environment(), "compiler": _compiler(), "compiler_flags": list(build.FLAGS)}


@dataclass
class Report:
    """The figures of one benchmark.

    Attributes:
        benchmark: its name.
        rows: one mapping for each measured case, all with the same keys.
        command: the command line that repeats it.
        environment: of the machine, at the start.
    """

    benchmark: str
    rows: list[Row] = field(default_factory=list)
    command: list[str] = field(default_factory=lambda: list(sys.argv))
    environment: dict[str, Any] = field(default_factory=environment)

    def write(self, path: str | Path) -> None:
        """Write the report as JSON: see `results.write_json`. Local.

        Raises:
            ResultError: the file cannot be written.
        """
        results.write_json(path, asdict(self))

    def show(self, columns: Mapping[str, str]) -> None:
        """Print the rows as a table. Local.

        Args:
            columns: heading by the row's key, in the order of the table.
        """
        show_table(f"gondwana bench {self.benchmark}", self.environment["cpu"], columns, self.rows)


def show_table(title: str, caption: str, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
    """Print rows as a table. Local.

    Args:
        title: above it.
        caption: below it.
        columns: heading by the row's key, in the order of the table.
        rows: one mapping for each line.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    width = terminal.columns("stdout")
    console = Console(force_terminal=width is not None, width=width)
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD)
    for heading in columns.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(row, key) for key in columns))
    # Figures are never truncated: on a narrow terminal lines wrap.
    console.width = max(console.width, Measurement.get(console, console.options.update(width=200), table).maximum)
    console.print(table)


def measure_on_ranks(
    benchmark: str, columns: Mapping[str, str], measure: Callable[..., Iterable[Row]], argv: Sequence[str]
) -> int:
    """Measure, print the table and write the report. Collective over all ranks.

    Args:
        benchmark: its name.
        columns: heading by the row's key, in the order of the table.
        measure: yields the rows, the same on every rank; called with the world and the options.
        argv: the options of the command line as one JSON object.

    Returns:
        The exit status: 0 if all rows are verified.
    """
    exits.install()
    exits.report_in_one_line()
    options = json.loads(argv[0])
    report = Report(benchmark, command=options.pop("command"))
    file = options.pop("file")
    report.rows.extend(measure(world, **options))
    if world.rank == 0:
        report.show(columns)
        if file is not None:
            report.write(file)
    return 0 if all(row["verified"] for row in report.rows) else 1


def check_cases(parts: Sequence[str] | None, names: Sequence[str]) -> None:
    """Check that every part of a name, as `--cases` lists them, is in the name of a case. Local.

    Raises:
        UsageError: names one that is not, and the cases.
    """
    for part in parts or ():
        if not any(part in name for name in names):
            raise UsageError(f"--cases {part}: no case has that in its name; there are {'; '.join(names)}")


def beside_c(samples: Mapping[str, Sequence[float]], verified: bool) -> Row:
    """Return the part of a row that compares ours with C. Local.

    Args:
        samples: seconds of "ours" and "c", one a round.
        verified: whether both computed the same.
    """
    ours, native = summarize(samples["ours"]), summarize(samples["c"])
    return {
        **relative(samples["c"], samples["ours"]),
        "ratio_of_best": native.minimum / ours.minimum,
        "verified": verified,
        "seconds": asdict(ours),
        "c_seconds": asdict(native),
    }


def relative(theirs: Sequence[float] | None, ours: Sequence[float], key: str = "ratio") -> Row:
    """Return our speed relative to theirs, the inverse ratio of the times; None without theirs. Local."""
    if theirs is None:
        return dict.fromkeys((key, f"{key}_low", f"{key}_high"))
    speed = ratio(theirs, ours)
    return {key: speed.value, f"{key}_low": speed.low, f"{key}_high": speed.high}


def _cell(row: Row, key: str) -> str:
    value = row[key]
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO" if key in ("verified", "met") else "no"
    if f"{key}_low" in row:
        return f"{value:.2f} ({row[f'{key}_low']:.2f}-{row[f'{key}_high']:.2f})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _compiler() -> str | None:
    """Return the version of the C compiler, None if there is none: benchmarks of GPUs need none."""
    try:
        return build.compiler_version()
    except UsageError:
        return None
