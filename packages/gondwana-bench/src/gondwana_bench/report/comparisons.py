"""Ratios of a panel with the names of rivals, in words: the part of a row that says who is faster."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gondwana_bench.report import quantities
from gondwana_bench.report.layouts import NOT_OURS, Layout
from gondwana_bench.report.rows import RIVALS, Panel, Row, figure
from gondwana_bench.report.scales import drawable


@dataclass(frozen=True)
class Comparison:
    """A row beside a rival.

    Attributes:
        label: name of the measurement, which distinguishes the row from others.
        subject: the first part of that.
        rival: name of the other.
        ratio: our speed over theirs.
        low: lower end of its interval.
        high: upper end.
        row: place of the row.
        who: "ours", or the name of another rival.
    """

    label: str
    subject: str
    rival: str
    ratio: float
    low: float
    high: float
    row: Row
    who: str = "ours"

    @property
    def words(self) -> str:
        """Our speed relative to the rival's."""
        return quantities.times_as_fast(self.ratio, self.low, self.high, self.rival, self.who)


def compare(panel: Panel, key: str, how: Layout) -> list[Comparison]:
    """Return the comparisons in a column of ratios; rows without a positive one are left out. Local.

    Args:
        panel: a panel.
        key: a key of `panel.ratios()`.
        how: layout of the panel.
    """
    names = panel.names()
    found = []
    for row in panel.rows:
        values = [row[name] for name in (key, f"{key}_low", f"{key}_high")]
        if not drawable(values[0], log=True):
            continue
        ratio, low, high = (value if drawable(value, log=True) else values[0] for value in values)
        rival = rival_of(panel, key, how, row)
        if rival == row.get(names[0] if names else "") and ratio == 1.0:
            continue  # the row of the rival itself
        subject = _subject(panel, row, names, how)
        found.append(Comparison(label_of(panel, row, names), subject, rival, ratio, low, high, row, who(row)))
    return found


def who(row: Row) -> str:
    """Return whose figures a row has: "ours", or the name of a rival that is compared with another. Local."""
    return next((name for name in (str(row.get(key)) for key in ("operation", "variant")) if name in NOT_OURS), "ours")


def rival_of(panel: Panel, key: str, how: Layout, row: Row) -> str:
    """Return the name of whom a row is compared with. Local."""
    said = row.get("rival")
    if isinstance(said, str) and said:
        return said
    if how.rival is not None:
        return how.rival
    if key.endswith("_ratio"):
        return key.removesuffix("_ratio").replace("_", " ")
    for measure in panel.measures():
        for prefix, name in RIVALS.items():
            if measure.theirs is not None and measure.theirs.startswith(prefix):
                return name
    return "the rival"


def label_of(panel: Panel, row: Row, names: Sequence[str]) -> str:
    """Return the distinctive entries of a row in words. Local."""
    return ", ".join(_named(panel, row, name) for name in names) or panel.name


def in_words(comparisons: Sequence[Comparison]) -> str:
    """Return several comparisons of one with one rival in a sentence: the least, the most, the median. Local."""
    first = comparisons[0]
    if len(comparisons) == 1:
        return first.words
    ratios = sorted(one.ratio for one in comparisons)
    middle = quantities.two_digits(statistics.median(ratios))
    times = quantities.span(ratios[0], ratios[-1])
    return f"{first.who} is {times} times as fast as {first.rival}, median {middle}, in {len(ratios)} cases"


def goal_met(panel: Panel, row: Row) -> bool | None:
    """Return whether a row meets its goal, None without one. Local.

    A goal that is a number is compared with our figure in the unit of the row.
    """
    if isinstance(row.get("met"), bool):
        return bool(row["met"])
    for goal, ours in (("goal", "ours"), ("goal_us", "ours_us")):
        wanted, there = figure(row.get(goal)), figure(row.get(ours))
        if wanted is not None and there is not None:
            return there <= wanted if panel.is_time(ours, row) else there >= wanted
    return None


def goal_in_words(panel: Panel, one: Comparison) -> str:
    """Return the goal of a row with its unit, "" without one. Local."""
    for key in ("goal", "goal_us"):
        goal = one.row.get(key)
        if isinstance(goal, str):
            unit = one.row.get("unit")
            return f"{goal} {unit}" if isinstance(unit, str) and goal[-1:].isdigit() else goal
        value = figure(goal)
        if value is not None:
            least = "<=" if panel.is_time(key.replace("goal", "ours"), one.row) else ">="
            return f"{least} {quantities.quantity(value, panel.unit(key, one.row))}"
    return ""


def _named(panel: Panel, row: Row, name: str) -> str:
    value = row[name]
    if isinstance(value, str):
        return value
    unit = panel.unit(name, row)
    if unit == "1":
        words = {"ranks": "rank", "threads": "thread", "workers": "worker", "nodes": "node"}
        return f"{value} {words.get(name, name) if value == 1 else name}"
    return quantities.quantity(value, unit)


def _subject(panel: Panel, row: Row, names: Sequence[str], how: Layout) -> str:
    """The texts that make a line of the summary."""
    texts = [name for name in names if isinstance(row[name], str)]
    kept = [name for name in how.subject if name in texts] or texts[:1]
    return ", ".join(str(row[name]) for name in kept) or panel.name
