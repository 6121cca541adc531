"""The table at the top of a report: comparisons, their outcome, and the load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from gondwana_bench.report import layouts
from gondwana_bench.report.comparisons import Comparison, compare, goal_met, in_words
from gondwana_bench.report.markup import Content, Markup, join, tag
from gondwana_bench.report.quantities import quantity, span
from gondwana_bench.report.rows import Panel, figure
from gondwana_bench.report.sources import Source, load_in_words, together
from gondwana_bench.report.tables import table

T = TypeVar("T")

_HEADS = ("", "what", "in words", "goal, bound", "machine", "load", "verified")
_VERIFIED = {True: "yes", False: "NO", None: "nothing to compare with"}


def summary(groups: Mapping[tuple[str, str], Sequence[Source]], anchors: Mapping[tuple[str, str], str]) -> Markup:
    """Return the table: a line for each subject and rival of a result, and one for the runs of an application. Local.

    Args:
        groups: results by kind and name.
        anchors: anchors of the sections of the page.
    """
    rows: list[Sequence[Content]] = []
    for key, of in groups.items():
        name = tag("a", key[1], href=f"#{anchors[key]}")
        rows += [[name, *line] for line in ([_runs(of)] if key[0] == "app" else _lines(of))]
    if len({source.machine for of in groups.values() for source in of}) == 1:
        return join([tag("h2", "Summary"), table(_without_machine(_HEADS), [*map(_without_machine, rows)], "summary")])
    return join([tag("h2", "Summary"), table(_HEADS, rows, "summary")])


def _without_machine(line: Sequence[T]) -> list[T]:
    at = _HEADS.index("machine")
    return [*line[:at], *line[at + 1 :]]


def _lines(sources: Sequence[Source]) -> Iterator[list[Content]]:
    for source in sources:
        for panel in source.panels:
            load = source.load if source.kind == "model" else load_in_words(panel.rows, source.environment)
            for what, words, goal in _LINES[source.kind](panel):
                named = f"{what} ({source.file})" if len(sources) > 1 else what
                yield [named, words, goal, source.machine, load, _verified([source])]


def _runs(sources: Sequence[Source]) -> list[Content]:
    """The line of an application: the number of runs, and their time."""
    panel = together(sources)
    rates = [key for key in panel.keys if panel.unit(key).endswith("/s") and figure(panel.rows[0][key]) is not None]
    words = ", ".join(_ends(panel, key) for key in ("seconds", *rates[:1]))
    machines = ", ".join(dict.fromkeys(source.machine for source in sources))
    load = sources[0].load if len(sources) == 1 else "see there"
    count = len(sources)
    return [f"{count} run{'' if count == 1 else 's'}", words, "", machines, load, _verified(sources)]


def _ends(panel: Panel, key: str) -> str:
    values = [value for row in panel.rows if (value := figure(row[key])) is not None]
    return (
        " to ".join(dict.fromkeys(quantity(end, panel.unit(key)) for end in (min(values), max(values))))
        if values
        else ""
    )


def _verified(sources: Sequence[Source]) -> Content:
    """The line of the worst of some results."""
    said = [source.content["verified"] for source in sources]
    worst = _VERIFIED[False if False in said else None if None in said else True]
    return tag("span", worst, class_="warn") if False in said else worst


def _panel(panel: Panel) -> Iterator[tuple[str, str, str]]:
    how = layouts.layout(panel.benchmark, panel.name)
    if layouts.RATIOS not in how.kinds:
        return  # another panel has these ratios
    found: dict[tuple[str, str, str], list[Comparison]] = {}
    for key in panel.ratios():
        part = "" if key in ("ratio", "speed") else f", {key.removesuffix('_ratio').replace('_', ' ')}"
        for one in compare(panel, key, how):
            found.setdefault((f"{one.subject}{part}", one.rival, one.who), []).append(one)
    for (subject, *_), compared in found.items():
        prefix = "" if panel.name == panel.benchmark or subject.startswith(panel.name) else f"{panel.name}: "
        yield f"{prefix}{subject}", in_words(compared), _goals(panel, compared)
    if not found:
        yield panel.name, _without_rival(panel), ""


def _of_trace(panel: Panel) -> Iterator[tuple[str, str, str]]:
    """The kind of work that took most time of the ranks."""
    seconds = [figure(row["seconds"]) or 0.0 for row in panel.rows]
    parts = {key: sum(figure(row[key]) or 0.0 for row in panel.rows) for key in panel.keys[2:]}
    whole = sum(parts.values())
    most = sorted((key for key in parts if parts[key] > 0), key=lambda key: -parts[key])[:3]
    shares = ", ".join(f"{name} {100 * parts[name] / whole:.0f} %" for name in most)
    ranks = f"{len(seconds)} rank{'' if len(seconds) == 1 else 's'}"
    yield ranks, f"{quantity(max(seconds), 's')}: {shares}" if most else quantity(max(seconds), "s"), ""


def _of_model(panel: Panel) -> Iterator[tuple[str, str, str]]:
    """The errors of predictions, or the predictions."""
    errors = sorted(abs(error) for row in panel.rows if (error := figure(row.get("error"))) is not None)
    if errors:
        middle, largest = (quantity(error, "%") for error in (errors[len(errors) // 2], errors[-1]))
        yield panel.name, f"median {middle}, largest {largest}", ""
    else:
        yield panel.name, _without_rival(panel), ""


_LINES: dict[str, Callable[[Panel], Iterator[tuple[str, str, str]]]] = {
    "benchmark": _panel,
    "model": _of_model,
    "trace": _of_trace,
}
"""The lines of a panel by the kind of its result, without applications."""


def _goals(panel: Panel, compared: Sequence[Comparison]) -> str:
    """Whether goals are met, and the part of the bound that is reached."""
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
            unit = one.row.get("unit")
            return f"{goal} {unit}" if isinstance(unit, str) and goal[-1:].isdigit() else goal
        value = figure(goal)
        if value is not None:
            return quantity(value, panel.unit(key, one.row))
    return ""


def _without_rival(panel: Panel) -> str:
    efficiencies = [value for row in panel.rows if (value := figure(row.get("efficiency"))) is not None]
    if efficiencies and all("ranks" in row for row in panel.rows):
        return f"efficiency {span(min(efficiencies), max(efficiencies))}"
    count = len(panel.rows)
    return (
        f"{count} row{'' if count == 1 else 's'}, nothing beside {'it' if count == 1 else 'them'}" if count else "empty"
    )
