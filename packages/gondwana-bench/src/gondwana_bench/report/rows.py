"""The meaning of the columns of a panel: keys of the rows, compared figures, intervals, bounds, goals.

Nothing here knows a benchmark. Panels that these rules draw poorly have an entry in `layouts`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gondwana_bench.report.charts import Spread
from gondwana_bench.report.scales import drawable
from gondwana_bench.rows import grouped

Row = Mapping[str, Any]

SIZES = ("size", "bytes", "nbytes", "message", "cells", "edge", "n", "points", "elements", "length")
"""Columns that are the horizontal axis where they take three values or more, the first of them."""

COUNTS = ("ranks", "threads", "workers", "nodes", "fields", "communications", "steps", *SIZES)
"""Columns of whole numbers that distinguish rows."""

ASIDE = frozenset(
    {
        "what",
        "unit",
        "goal",
        "verdict",
        "reason",
        "grid",
        "rival",
        "version",
        "note",
        "communication",
        "rival_communication",
    }
)
"""Columns of texts that do not distinguish rows."""

RIVALS = {"c_": "C", "official_": "the official program", "rival_": "the rival", "theirs_": "the rival"}
"""Prefixes of columns that have the rival's figure of the column without them."""

_OF_ROW = "unit of the row"
_LEAST_SIZES = 3
_RATIO = re.compile(r"(?!time_)(.*_)?ratio|speed")
_BOUND = re.compile(r"(.*_)?(bound|triad|peak|copy)(_.*)?")
_OF_BOUND = re.compile(r"of_(bound|triad|peak|copy)")
_SHARE = re.compile(r"(.*_)?share(_.*)?")
_TIMES = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Measure:
    """A figure and that of the rival, by the keys of a row; `theirs` is None where no column has it."""

    ours: str
    theirs: str | None


@dataclass(frozen=True)
class Panel:
    """A table of a result.

    Attributes:
        benchmark: name of the benchmark, "" for tables of applications and traces.
        name: name of the panel.
        rows: all with the same keys.
        units: units by key.
    """

    benchmark: str
    name: str
    rows: Sequence[Row]
    units: Mapping[str, str]

    @property
    def keys(self) -> list[str]:
        """The columns, in their order."""
        return list(self.rows[0]) if self.rows else []

    def unit(self, key: str, row: Row | None = None) -> str:
        """Return the unit of a column; of one that differs from row to row, that of a row. Local."""
        unit = self.units.get(key, "1")
        if unit != _OF_ROW:
            return unit
        return str((row or self.rows[0]).get("unit", "1"))

    def names(self) -> list[str]:
        """Return the columns that tell the rows apart, without those that have one value only. Local."""
        return [key for key in self.named() if len({row[key] for row in self.rows}) > 1]

    def named(self) -> list[str]:
        """Return the columns that say what a row has measured. Local."""
        return [key for key in self.keys if key not in ASIDE and self._names_rows(key)]

    def axis(self) -> str | None:
        """Return the column of sizes, if a group of rows that differ only in it has three of them or more. Local."""
        names = self.names()
        for key in (key for key in SIZES if key in names and not isinstance(self.rows[0][key], str)):
            others = [name for name in names if name != key]
            if any(
                len({row[key] for row in rows}) >= _LEAST_SIZES
                for rows in groups(self.rows, [*others, "rival"]).values()
            ):
                return key
        return None

    def measures(self) -> list[Measure]:
        """Return the figures that are times or rates: those with the rival's beside them, or else all. Local."""
        paired = [
            Measure(key, theirs)
            for key in self.keys
            if self._is_time_or_rate(key) and (theirs := self.theirs(key)) is not None
        ]
        if paired:
            return paired
        return [Measure(key, None) for key in self.keys if self._is_time_or_rate(key) and not _BOUND.fullmatch(key)]

    def theirs(self, key: str) -> str | None:
        """Return the column with the rival's figure of a column, None without one. Local."""
        candidates = [f"{prefix}{key}" for prefix in RIVALS]
        if key == "ours" or key.startswith("ours_"):
            candidates += [key.replace("ours", other, 1) for other in ("theirs", "rival")]
        return next((other for other in candidates if other in self.keys), None)

    def is_time(self, key: str, row: Row | None = None) -> bool:
        """Return whether less of a figure is better. Local."""
        return self.unit(key, row) in _TIMES

    def ratios(self) -> list[str]:
        """Return the columns that have our speed over the rival's, with an interval beside them. Local."""
        return [key for key in self.keys if _RATIO.fullmatch(key) and {f"{key}_low", f"{key}_high"} <= set(self.keys)]

    def bound(self, measure: Measure) -> str | None:
        """Return the column with the bound of a figure: one named so, in the same unit. Local."""
        return next(
            (key for key in self.keys if _BOUND.fullmatch(key) and self.unit(key) == self.unit(measure.ours)), None
        )

    def of_bound(self) -> str | None:
        """Return the column that has the part of the bound that is reached. Local."""
        return next((key for key in self.keys if _OF_BOUND.fullmatch(key)), None)

    def shares(self) -> list[str]:
        """Return the columns that have parts of one. Local."""
        return [key for key in self.keys if _SHARE.fullmatch(key) and self.unit(key) == "1"]

    def parts(self) -> list[str]:
        """Return the columns that have mappings of at least two numbers that are parts of a whole. Local."""
        return [
            key
            for key in self.keys
            if not self.unit(key).endswith("/s") and any(is_whole(row[key]) for row in self.rows)
        ]

    def _names_rows(self, key: str) -> bool:
        values = [row[key] for row in self.rows if row[key] is not None]
        if all(isinstance(value, str) for value in values):
            return bool(values) and len(values) == len(self.rows)
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
        return key in COUNTS and whole and len(values) == len(self.rows)

    def _is_time_or_rate(self, key: str) -> bool:
        unit = self.units.get(key, "1")
        known = unit in _TIMES or unit.endswith("/s") or unit == _OF_ROW
        ours = not any(key.startswith(prefix) for prefix in RIVALS) and key not in ("theirs", "goal", "rival_us")
        return known and ours and any(figure(row[key]) is not None for row in self.rows)


def groups(rows: Sequence[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by their values of some columns, in the order of the rows. Local."""
    return grouped(rows, lambda row: tuple(str(row.get(key)) for key in keys))


def figure(value: Any) -> float | None:
    """Return the number for a value: the median of a sample; None if it is not a figure. Local.

    Example:
        >>> figure({"median": 2.0, "n": 3}), figure([3.0, 1.0, 2.0]), figure(4), figure("4"), figure([])
        (2.0, 2.0, 4.0, None, None)
    """
    if isinstance(value, Mapping):
        return figure(value.get("median"))
    if isinstance(value, list):
        numbers = sorted(one for one in value if drawable(one, log=False))
        return float(numbers[len(numbers) // 2]) if numbers and len(numbers) == len(value) else None
    return float(value) if drawable(value, log=False) else None


def interval(value: Any) -> tuple[float | None, float | None]:
    """Return the interval of the median of a summary, Nones for anything else. Local."""
    if isinstance(value, Mapping):
        return figure(value.get("low")), figure(value.get("high"))
    return None, None


def is_whole(value: Any) -> bool:
    """Return whether a value is a mapping of parts: at least two numbers, and no statistics of a sample. Local."""
    if not isinstance(value, Mapping) or "median" in value:
        return False
    return sum(drawable(part, log=True) for part in value.values()) > 1


def spread_of(label: str, value: Any, style: int) -> Spread | None:
    """Return the scatter of a sample, from its values or from a mapping with its statistics; None without. Local.

    Args:
        label: name of the sample.
        value: a list of numbers, or a mapping with a median and percentiles.
        style: number of the series.
    """
    median = figure(value)
    if median is None or isinstance(value, int | float):
        return None
    if isinstance(value, list):
        ordered = sorted(value)
        quarter = len(ordered) // 4
        return Spread(
            label, median, (ordered[quarter], ordered[-1 - quarter]), (ordered[0], ordered[-1]), tuple(value), style
        )
    inner = _ends(value, (("p25", "p75"), ("p5", "p95"), ("low", "high")), median)
    outer = _ends(value, (("p1", "p99"), ("minimum", "p99"), ("min", "max"), ("minimum", "p95")), median)
    return Spread(label, median, inner, outer, (), style)


def _ends(value: Mapping[str, Any], pairs: Sequence[tuple[str, str]], median: float) -> tuple[float, float]:
    for low, high in pairs:
        ends = figure(value.get(low)), figure(value.get(high))
        if ends[0] is not None and ends[1] is not None:
            return ends[0], ends[1]
    return median, median
