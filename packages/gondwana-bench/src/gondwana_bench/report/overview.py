"""The first screen of a report: a line for each benchmark, which opens into its rows, on one axis for all.

The drawings are our own few elements with places in per cent: they are as wide as the page leaves room for, and cost
no network and no megabytes, as the libraries that draw in a browser do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gondwana_bench.report.comparisons import Comparison, goal_in_words
from gondwana_bench.report.markup import Content, Markup, join, tag
from gondwana_bench.report.quantities import digits, quantity, span, two_digits
from gondwana_bench.report.rows import Panel, figure
from gondwana_bench.report.sources import Source, together
from gondwana_bench.report.verdicts import CHANGED, MISSED, SLOWER, Verdict, in_a_sentence

_FARTHEST = 10.0
"""The end of the axis: most rows are nearer to 1, and those beyond have their figure beside them, as all have."""

_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_MOST_LINES = 3
"""Panels without a rival that a line names."""


def head(found: Sequence[Verdict], *, compared: bool) -> Markup:
    """Return the outcome in a sentence, the filters, the legend and the axis. Local.

    Args:
        found: all rows.
        compared: whether they are compared with older results.
    """
    counts = {name: sum(name in one.marks for one in found) for name in (SLOWER, MISSED, CHANGED)}
    words = [in_a_sentence(found)]
    known = sum(one.before is not None for one in found)
    if compared:
        words.append(f"{counts[CHANGED]} of the {known} rows that were measured before have changed")
    filters = {"all": len(found), **{name: counts[name] for name in (SLOWER, MISSED, *([CHANGED] if compared else []))}}
    buttons = [
        tag("button", f"{name} {count}", type="button", data_filter=name, hidden="") for name, count in filters.items()
    ]
    return join(
        [
            tag("p", "; ".join(words), ".", class_="verdict"),
            tag("div", *buttons, class_="filters", role="group", aria_label="rows that are shown"),
            tag("p", *_legend(compared=compared), class_="about key"),
            tag("div", tag("span"), _axis(), tag("span"), tag("span"), class_="line axis"),
        ]
    )


def line(name: str, found: Sequence[Verdict], warnings: Sequence[str]) -> Markup:
    """Return the line of a benchmark: the ratios of all rows, how many are slower, and the worst. Local.

    Args:
        name: name of the benchmark.
        found: at least one row, those farthest from their goals first.
        warnings: what to know of its results.
    """
    slower, missed, goals = (
        sum(SLOWER in one.marks for one in found),
        sum(MISSED in one.marks for one in found),
        sum(one.met is not None for one in found),
    )
    loads = [one.load for one in found if one.load is not None]
    remarks = [
        f"{missed} of {goals} goals missed" if goals else "",
        f"{len(loads)} under foreign load" if loads else "",
        *warnings,
    ]
    places = [(_at(one.one.ratio), one.outcome) for one in found]
    ticks = [tag("line", x1=at, x2=at, y1=3, y2=17, class_=outcome) for at, outcome in places]
    ratios = [one.one.ratio for one in found]
    return tag(
        "summary",
        tag("h2", name, class_="name"),
        _plot(f"{name}: {span(min(ratios), max(ratios))} times as fast", ticks),
        tag("span", f"{slower} of {len(found)} slower", class_="figure"),
        tag("span", "; ".join(filter(None, [f"{span(min(ratios), max(ratios))} x", *remarks])), class_="remark"),
        class_="line",
    )


def rows(found: Sequence[Verdict]) -> Markup:
    """Return a line for each row, those farthest from their goals first. Local."""
    several = len({one.source.file for one in found}) > 1
    return tag("ul", *(_row(one, several=several) for one in found), class_="rows")


def line_without_rival(name: str, sources: Sequence[Source], warnings: Sequence[str]) -> Markup:
    """Return the line of results that are compared with nothing. Local."""
    first = sources[0]
    said = [_runs(sources)] if first.kind == "app" else [words for one in sources for words in _panels(one)]
    more = [f"{len(said) - _MOST_LINES} more"] if len(said) > _MOST_LINES else []
    words = "; ".join([*said[:_MOST_LINES], *more, *warnings])
    return tag("summary", tag("h2", name, class_="name"), tag("span", words, class_="words"), class_="line")


def classes(found: Sequence[Verdict]) -> str:
    """Return the filters under which something is shown, as classes. Local."""
    return " ".join(f"is-{mark}" for mark in dict.fromkeys(mark for one in found for mark in one.marks))


def axis_lines() -> Markup:
    """Return the lines of the ticks, which every drawing uses. Local."""
    lines = [
        tag("line", x1=_at(tick), x2=_at(tick), y1=0, y2="100%", class_="one" if tick == 1.0 else "grid")
        for tick in _TICKS
    ]
    return tag("svg", tag("defs", tag("g", *lines, id="axis")), class_="fillings", aria_hidden="true")


def _row(verdict: Verdict, *, several: bool) -> Markup:
    one, before = verdict.one, verdict.before
    file = tag("small", f" {verdict.source.file.removesuffix('.json')}") if several else None
    value, interval = _value(one)
    goal = goal_in_words(verdict.panel, one)
    judged = "met" if verdict.met else f"MISSED, {100 * verdict.distance:.3g} % reached"
    remarks = [
        f"beside {one.rival}",
        "" if verdict.met is None else f"goal {goal} {judged}",
        f"foreign load {digits(verdict.load)}" if verdict.load is not None else "",
        "was {} {}".format(*_value(before)).rstrip() if before is not None else "",
    ]
    drawn = [*([] if before is None else _mark(before, "before")), *_mark(one, verdict.outcome)]
    return tag(
        "li",
        tag("span", verdict.label, file, class_="name"),
        _plot(one.words, drawn),
        tag("span", tag("b", f"{value} x"), f" {interval}".rstrip(), class_="figure"),
        tag("span", "; ".join(filter(None, remarks)), class_="remark"),
        class_=" ".join(["line", *(f"is-{mark}" for mark in verdict.marks)]),
    )


def _value(one: Comparison) -> tuple[str, str]:
    """The ratio, and its interval if that has other digits."""
    value, interval = two_digits(one.ratio), span(one.low, one.high)
    return value, "" if interval == value else f"({interval})"


def _mark(one: Comparison, outcome: str) -> list[Markup]:
    """The interval and the ratio; an arrow at the edge for one beyond the axis."""
    at = _at(one.ratio)
    if not 1.0 / _FARTHEST <= one.ratio <= _FARTHEST:
        left = one.ratio < 1.0
        return [tag("text", "◀" if left else "▶", x=at, y=14, text_anchor="start" if left else "end", class_=outcome)]
    whisker = tag("line", x1=_at(one.low), x2=_at(one.high), y1=10, y2=10, class_=outcome)
    return [whisker, _shape(outcome, at)]


def _plot(title: str, drawn: Sequence[Markup]) -> Markup:
    return tag("svg", tag("use", href="#axis"), *drawn, class_="plot", role="img", aria_label=title)


def _axis() -> Markup:
    labels = [
        tag(
            "text", digits(tick), x=_at(tick), y=14, class_="tick",
            text_anchor={0.1: "start", 10.0: "end"}.get(tick, "middle"),
        )
        for tick in _TICKS
    ]  # fmt: skip
    return tag("svg", *labels, class_="plot", role="img", aria_label="times as fast as the rival, logarithmic axis")


def _legend(*, compared: bool) -> list[Content]:
    samples = {"faster": "faster", SLOWER: "slower", "even": "the interval holds 1"}
    parts: list[Content] = ["Times as fast as the rival, on a logarithmic axis, with 95 % intervals: "]
    for outcome, words in {**samples, **({"before": "before"} if compared else {})}.items():
        mark = tag("svg", _shape(outcome, "50%"), class_="sample", aria_hidden="true")
        parts += [mark, f" {words}; "]
    return [*parts, "◀ ▶ beyond the axis. The farthest from its goal is first; without a goal, from its rival."]


def _shape(outcome: str, at: str) -> Markup:
    """A mark: outcomes differ without colour."""
    if outcome == SLOWER:
        return tag("rect", x=at, y=6, width=8, height=8, transform="translate(-4)", class_=outcome)
    return tag("circle", cx=at, cy=10, r=4.5, class_=outcome)


def _panels(source: Source) -> Iterator[str]:
    """What the panels of a result without a rival show."""
    for panel in source.panels:
        yield _of_trace(panel) if source.kind == "trace" else f"{panel.name}: {_alone(panel)}"


def _alone(panel: Panel) -> str:
    """The errors of predictions, the efficiency, or the number of rows."""
    errors = sorted(abs(error) for row in panel.rows if (error := figure(row.get("error"))) is not None)
    if errors:
        middle, largest = (quantity(error, "%") for error in (errors[len(errors) // 2], errors[-1]))
        return f"error of the model: median {middle}, largest {largest}"
    efficiencies = [value for row in panel.rows if (value := figure(row.get("efficiency"))) is not None]
    if efficiencies and all("ranks" in row for row in panel.rows):
        return f"efficiency {span(min(efficiencies), max(efficiencies))}"
    return f"{len(panel.rows)} row{'' if len(panel.rows) == 1 else 's'}"


def _of_trace(panel: Panel) -> str:
    """The time of the slowest rank, and the kinds of work that took most time of the ranks."""
    seconds = [figure(row["seconds"]) or 0.0 for row in panel.rows]
    parts = {key: sum(figure(row[key]) or 0.0 for row in panel.rows) for key in panel.keys[2:]}
    whole = sum(parts.values())
    most = sorted((key for key in parts if parts[key] > 0), key=lambda key: -parts[key])[:3]
    shares = ", ".join(f"{name} {100 * parts[name] / whole:.0f} %" for name in most)
    ranks = f"{len(seconds)} rank{'' if len(seconds) == 1 else 's'}"
    return f"{ranks}, {quantity(max(seconds), 's')}" + (f": {shares}" if most else "")


def _runs(sources: Sequence[Source]) -> str:
    """The number of runs of an application, their time, and their rate."""
    panel = together(sources)
    rates = [key for key in panel.keys if panel.unit(key).endswith("/s") and figure(panel.rows[0][key]) is not None]
    ends = (_ends(panel, key) for key in ("seconds", *rates[:1]))
    return ", ".join([f"{len(sources)} run{'' if len(sources) == 1 else 's'}", *filter(None, ends)])


def _ends(panel: Panel, key: str) -> str:
    values = [value for row in panel.rows if (value := figure(row[key])) is not None]
    ends = (min(values), max(values)) if values else ()
    return " to ".join(dict.fromkeys(quantity(end, panel.unit(key)) for end in ends))


def _at(ratio: float) -> str:
    """The place of a ratio, in per cent of the width."""
    inside = min(max(ratio, 1.0 / _FARTHEST), _FARTHEST)
    return f"{50.0 + 49.0 * math.log(inside) / math.log(_FARTHEST):.1f}%"
