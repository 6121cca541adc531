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


def check_names(option: str, given: Iterable[str], legal: Iterable[str]) -> None:
    """Check that an option lists legal names only. Local.

    Raises:
        UsageError: names one that is not, and what is legal.
    """
    for name in given:
        if name not in legal:
            raise UsageError(f"{option} {name}: legal are {', '.join(legal)}")


def check_numbers(option: str, given: Sequence[int], legal: str, *, least: int = 1, multiple: int = 1) -> None:
    """Check that an option lists numbers, and legal ones only. Local.

    Args:
        option: its name.
        given: the numbers.
        legal: which are legal, in words.
        least: the smallest legal number.
        multiple: of what all are multiples.

    Raises:
        UsageError: says what was given and what is legal.
    """
    if not given or any(number < least or number % multiple for number in given):
        raise UsageError(f"{option} {','.join(map(str, given))}: give {legal}")


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


def beside(theirs: Sequence[float], ours: Sequence[float]) -> Row:
    """Return the part of a row that compares ours with a rival, from seconds of both, one a round. Local."""
    return {
        **relative(theirs, ours),
        "seconds": asdict(summarize(ours)),
        "rival_seconds": asdict(summarize(theirs)),
    }


def _cell(row: Row, key: str) -> str:
    value = row[key]
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO" if key in ("verified", "met") else "no"
    if f"{key}_low" in row:
        return f"{value:.2f} ({row[f'{key}_low']:.2f}-{row[f'{key}_high']:.2f})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
