"""Tables: those that fit a terminal, and plain columns for programs that read them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gondwana.runtime import terminal
from gondwana_bench.disturbance import LIMIT
from gondwana_bench.rows import WIDE, Row

_GAP = "  "
_FIXED = "\N{NO-BREAK SPACE}%"
_LEAST = 12
"""Columns that a text has at least, if it is so long, where it is folded between words."""

_LEFT_OUT = (
    r"(c|rival|official|theirs|mpi|driver|host)_(?!.*ratio).*|theirs",
    r"of_.*|.*_of_best|.*bound.*|.*processor.*|staged_ratio|registers|local_bytes|open|mib|paper_.*|p1|p99|slowest",
    r"(gb|mb)_per_s|.*_per_s|descriptors|megabytes|communication|goal|goal_us|iqr|bandwidth_gb_s|sync",
    r"(?!ratio|speed$).*_ratio",
)
"""Keys of columns in the order in which a narrow table goes without them, those of one value before all."""

_LEFT_OUT_LAST = r"read|write|unit|ours|.*microseconds|median"
"""Keys of columns without which it goes where even folded texts leave no room."""


@dataclass(frozen=True)
class _Column:
    key: str
    heading: str
    cells: tuple[str, ...]
    number: bool

    @property
    def narrow(self) -> int:
        """The width with a heading of a word a line."""
        return max(map(len, [*self.cells, *_parts(self.heading)]), default=0)

    @property
    def least(self) -> int:
        """The width with texts folded between words."""
        words = [word for text in (self.heading, *self.cells) for word in _parts(text)]
        return self.narrow if self.number else min(self.narrow, max(_LEAST, *map(len, words)))


def show_table(title: str, caption: str, columns: Mapping[str, str], rows: Iterable[Row], verdict: str) -> None:
    """Print rows as a table: on a terminal one that fits, else plain columns, all other lines of which begin with "#".

    A narrow table goes without columns that have one value only, and then without those that say least; it names them.
    Then texts are folded between words. Local.

    Args:
        title: what the rows are.
        caption: where they are from.
        columns: heading by the row's key, in the order of the table.
        rows: one mapping for each line; a load of other programs that disturbed any of them is a further column.
        verdict: what they say, in a sentence, which is in the first and in the last line.
    """
    width = terminal.columns("stdout")
    print("\n".join(table(title, caption, columns, [*rows], verdict, width)), flush=True)


def table(
    title: str, caption: str, columns: Mapping[str, str], rows: Sequence[Row], verdict: str, width: int | None
) -> list[str]:
    """Return the lines of a table, as `show_table` prints it; a width of None is no terminal. Local."""
    every = [_column(key, heading, rows) for key, heading in columns.items()]
    loads = [load for row in rows if (load := row.get("foreign_load") or 0.0) > LIMIT]
    if loads:
        cells = (f"{load:.2f}" if (load := row.get("foreign_load") or 0.0) > LIMIT else "" for row in rows)
        every.append(_Column("foreign_load", "foreign load", tuple(cells), number=True))
    room = None if width is None or os.environ.get(WIDE) else width
    kept = every if room is None else _fitting(every, room)
    above = [f"{title}: {verdict}"]
    below = [*_about(every, kept), caption]
    if loads:
        below.append(
            f"{len(loads)} of {len(rows)} rows were measured while other programs kept up to {max(loads):.2f} "
            "processors busy"
        )
    if width is None:
        return [*_marked(above), *_plain(kept), *_marked([*below, verdict])]
    return [*_folded(above, width), "", *_drawn(kept, room), "", *_folded([*below, verdict], width)]


def _column(key: str, heading: str, rows: Sequence[Row]) -> _Column:
    number = all(isinstance(row[key], int | float | None) and not isinstance(row[key], bool) for row in rows)
    return _Column(key, heading or key, tuple(cell(row, key) for row in rows), number)


def cell(row: Row, key: str) -> str:
    """Return a value of a row as text, with its interval if it has one. Local.

    Example:
        >>> cell({"ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1}, "ratio"), cell({"met": False}, "met")
        ('2.00 (1.90-2.10)', 'NO')
    """
    value = row[key]
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO" if key in ("verified", "met") else "no"
    if f"{key}_low" in row:
        value, low, high = (
            f"{number:.2f}" if abs(number) < 100 else f"{number:.0f}"
            for number in (value, row[f"{key}_low"], row[f"{key}_high"])
        )
        return f"{value} ({low}-{high})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _fitting(every: Sequence[_Column], room: int) -> list[_Column]:
    """The columns that fit, or the fewest that are left; the first ratio stays."""
    constant = [one for one in every if len(one.cells) > 1 and len(set(one.cells)) == 1]
    first = next((one for one in every if "ratio" in one.key or one.key == "speed"), None)
    rest, last = (
        [one for pattern in patterns for one in reversed(every) if re.fullmatch(pattern, one.key) and one is not first]
        for patterns in (_LEFT_OUT, (_LEFT_OUT_LAST,))
    )
    kept = list(every)
    for leaving, width in ((constant + rest, _width), (last, _folded_width)):
        for one in leaving:
            if width(kept) <= room:
                break
            if one in kept and len(kept) > 1:
                kept.remove(one)
    return kept


def _width(columns: Sequence[_Column]) -> int:
    return sum(one.narrow for one in columns) + len(_GAP) * (len(columns) - 1)


def _folded_width(columns: Sequence[_Column]) -> int:
    return _width(columns) - sum(one.narrow - one.least for one in columns)


def _about(every: Sequence[_Column], kept: Sequence[_Column]) -> list[str]:
    """What a table has gone without: values that all rows have, and names of columns."""
    gone = [one for one in every if one not in kept]
    same = [f"{one.heading} {one.cells[0]}".rstrip() for one in gone if len(set(one.cells)) == 1]
    more = [one.key.replace("_", " ") for one in gone if len(set(one.cells)) > 1]
    lines = {"in all rows": ", ".join(same), "left out, see --wide": ", ".join(more)}
    return [f"{what}: {words}" for what, words in lines.items() if words]


def _drawn(columns: Sequence[_Column], room: int | None) -> list[str]:
    """The table with headings of several lines, and texts folded at words where it is still too wide."""
    widths = [one.narrow for one in columns]
    texts = sorted((at for at, one in enumerate(columns) if not one.number), key=lambda at: -widths[at])
    for at in texts if room is not None and columns else ():
        over = sum(widths) + len(_GAP) * (len(widths) - 1) - (room or 0)
        widths[at] = max(widths[at] - max(over, 0), columns[at].least)
    heads = _row([one.heading for one in columns], columns, widths, below=True)
    lines = [_row(texts, columns, widths) for texts in zip(*(one.cells for one in columns), strict=True)]
    return [*heads, _GAP.join("-" * width for width in widths), *(line for of in lines for line in of)]


def _row(texts: Sequence[str], columns: Sequence[_Column], widths: Sequence[int], *, below: bool = False) -> list[str]:
    """The lines of a row, whose cells begin at the top, or end below."""
    cells = [_words(text, width) for text, width in zip(texts, widths, strict=True)]
    height = max(map(len, cells), default=0)
    padded = [[""] * (height - len(of)) + of if below else of + [""] * (height - len(of)) for of in cells]
    return [
        _GAP.join(
            text.rjust(width) if one.number else text.ljust(width)
            for text, one, width in zip(line, columns, widths, strict=True)
        ).rstrip()
        for line in zip(*padded, strict=True)
    ]


def _parts(text: str) -> list[str]:
    """The words of a text, of which none is a sign of per cent alone."""
    return text.replace(" %", _FIXED).split(" ")


def _words(text: str, width: int) -> list[str]:
    return [line.replace(_FIXED, " %") for line in terminal.folded(text.replace(" %", _FIXED), width)]


def _plain(columns: Sequence[_Column]) -> list[str]:
    """A line for the headings and for each row."""
    return terminal.aligned([[one.heading for one in columns], *zip(*(one.cells for one in columns), strict=True)])


def _marked(lines: Sequence[str]) -> list[str]:
    return [f"# {line}" for line in lines]


def _folded(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in _words(line, width)]
