"""The table at the top of a report: what is compared with what, how it ended, and under which load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gondwana.report import layouts
from gondwana.report.comparisons import Comparison, compare, goal_met, in_words
from gondwana.report.quantities import quantity, span
from gondwana.report.rows import Panel, figure
from gondwana.report.sources import Source, load_in_words


@dataclass(frozen=True)
class Line:
    """A line of the summary: all its columns but the first are text."""

    name: str
    what: str
    words: str
    goal: str
    load: str
    verified: str
    anchor: str


def lines(source: Source, panels: Sequence[Panel], anchor: str) -> Iterator[Line]:
    """Yield the lines of a result: one for each subject and rival, or for a panel that has no rival. Local.

    Args:
        source: the result.
        panels: of it.
        anchor: of its section.
    """
    verified = {True: "yes", False: "NO", None: "nothing to compare with"}[source.content["verified"]]
    for panel in panels:
        load = load_in_words(panel.rows, source.environment)
        for what, words, goal in _panel(panel):
            yield Line(source.name, what, words, goal, load, verified, anchor)


def _panel(panel: Panel) -> Iterator[tuple[str, str, str]]:
    how = layouts.layout(panel.benchmark, panel.name)
    found: dict[tuple[str, str], list[Comparison]] = {}
    for key in panel.ratios():
        part = "" if key in ("ratio", "speed") else f", {key.removesuffix('_ratio').replace('_', ' ')}"
        for one in compare(panel, key, how):
            found.setdefault((f"{one.subject}{part}", one.rival), []).append(one)
    for (subject, _), compared in found.items():
        prefix = "" if panel.name in (panel.benchmark, subject) else f"{panel.name}: "
        yield f"{prefix}{subject}", in_words(compared), _goals(panel, compared)
    if not found:
        yield panel.name, _without_rival(panel), ""


def _goals(panel: Panel, compared: Sequence[Comparison]) -> str:
    """Whether goals are met, and what part of the bound is reached."""
    parts = []
    judged = [met for one in compared if (met := goal_met(panel, one.row)) is not None]
    if judged:
        goals = {_goal(panel, one) for one in compared} - {""}
        of = f" ({goals.pop()})" if len(goals) == 1 else ""
        if len(judged) == 1:
            parts.append(f"goal{of} {'met' if judged[0] else 'missed'}")
        else:
            parts.append(f"goals{of}: {sum(judged)} of {len(judged)} met")
    key = panel.of_bound()
    reached = [] if key is None else [part for one in compared if (part := figure(one.row[key])) is not None]
    if key is not None and reached:
        parts.append(f"{span(min(reached), max(reached))} {key.replace('_', ' ')}")
    return "; ".join(parts)


def _goal(panel: Panel, one: Comparison) -> str:
    for key in ("goal", "goal_us"):
        goal = one.row.get(key)
        if isinstance(goal, str):
            return goal
        value = figure(goal)
        if value is not None:
            return quantity(value, panel.unit(key, one.row))
    return ""


def _without_rival(panel: Panel) -> str:
    efficiencies = [value for row in panel.rows if (value := figure(row.get("efficiency"))) is not None]
    if efficiencies and all("ranks" in row for row in panel.rows):
        return f"efficiency {span(min(efficiencies), max(efficiencies))}"
    seconds = [value for row in panel.rows if (value := figure(row.get("seconds"))) is not None]
    if len(seconds) == 1 and panel.unit("seconds") == "s":
        rates = [key for key in panel.keys if panel.unit(key).endswith("/s") and figure(panel.rows[0][key]) is not None]
        merit = "".join(f", {quantity(figure(panel.rows[0][key]) or 0.0, panel.unit(key))}" for key in rates[:1])
        return f"{quantity(seconds[0], 's')}{merit}"
    count = len(panel.rows)
    return (
        f"{count} row{'' if count == 1 else 's'}, nothing beside {'it' if count == 1 else 'them'}" if count else "empty"
    )
