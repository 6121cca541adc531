"""Panels as tables: the figures of every chart, for those who read figures, or cannot see charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gondwana_bench.report.markup import Content, Markup, join, tag
from gondwana_bench.report.quantities import quantity, span
from gondwana_bench.report.rows import Panel, Row, figure
from gondwana_bench.report.scales import drawable

LONGEST = 400
"""Characters of a cell."""


def table(heads: Sequence[str], rows: Sequence[Sequence[Content]], class_: str | None = None) -> Markup:
    """Return a table with a line of headings; it scrolls sideways where it is too wide. Local.

    With a class, the style sheet knows the headings of its cells.
    """

    def line(row: Sequence[Content]) -> Markup:
        cells = zip(row, heads, strict=True)
        return tag("tr", *(tag("td", cell, data_head=(class_ and heading) or None) for cell, heading in cells))

    head = tag("tr", *(tag("th", heading, scope="col") for heading in heads))
    inner = tag("table", tag("thead", head), tag("tbody", *map(line, rows)), class_=class_)
    return tag("div", inner, class_="wide", tabindex="0", role="group", aria_label="table")


def of_panel(panel: Panel) -> Markup:
    """Return the rows of a panel as a table; the ends of an interval stand beside its value. Local."""
    keys = [key for key in panel.keys if not _is_end(key, panel.keys)]
    heads = [key.replace("_", " ") for key in keys]
    return table(heads, [[cell(panel, row, key) for key in keys] for row in panel.rows])


def cell(panel: Panel, row: Row, key: str) -> str:
    """Return a value of a row with its unit, and its interval if it has one. Local."""
    text = _words(row[key], panel.unit(key, row))
    ends = [figure(row.get(f"{key}_{end}")) for end in ("low", "high")]
    if ends[0] is not None and ends[1] is not None:
        text += f" ({span(ends[0], ends[1])})"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _is_end(key: str, keys: Sequence[str]) -> bool:
    return any(key.endswith(end) and key.removesuffix(end) in keys for end in ("_low", "_high"))


def _words(value: Any, unit: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return quantity(value, unit)
        case Mapping() if "median" in value:
            return _summary(value, unit)
        case Mapping():
            return "; ".join(f"{name}: {_words(part, unit)}" for name, part in value.items())
        case list() if len(value) > 3 or not all(drawable(part, log=False) for part in value):
            return f"{len(value)} values"
        case list():
            return ", ".join(_words(part, unit) for part in value)
        case _:
            return str(value)


def _summary(value: Mapping[str, Any], unit: str) -> str:
    low, high = figure(value.get("low")), figure(value.get("high"))
    interval = "" if low is None or high is None else f" ({quantity(low, unit)} to {quantity(high, unit)})"
    return _words(value["median"], unit) + interval


def join_lines(lines: Sequence[Content]) -> Markup:
    """Return contents as an unordered list. Local."""
    return tag("ul", join([tag("li", line) for line in lines]))
