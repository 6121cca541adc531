"""Rows of figures: a table on the terminal, and ours relative to a rival."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gondwana.errors import UsageError
from gondwana.runtime import terminal
from gondwana_bench.statistics import ratio, summarize

Row = dict[str, Any]


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
