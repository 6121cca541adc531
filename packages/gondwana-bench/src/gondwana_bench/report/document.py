"""A report: one HTML page that needs no network, with all figures, tables, styles and its script inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from gondwana_bench.report import overview, tables
from gondwana_bench.report.charts import Stack, matrix_chart, stack_chart
from gondwana_bench.report.charts.frame import FILLINGS, STYLES
from gondwana_bench.report.draw import Figure, figures
from gondwana_bench.report.markup import Markup, join, tag
from gondwana_bench.report.quantities import quantity
from gondwana_bench.report.rows import Panel
from gondwana_bench.report.sources import Source, together
from gondwana_bench.report.verdicts import Verdict, verdicts
from gondwana_bench.rows import grouped

_KINDS = {"benchmark": "Benchmark", "app": "Application", "model": "Model of", "trace": "Trace"}
_MOST_BESIDE = 4
"""Figures of a panel up to which those of several files are in columns; more are below each other."""
_LARGEST_MATRIX = 32
"""Ranks up to which the communication matrix is a table, too."""

_HATCHES = (
    "",
    "M0 6L6 0M-1.5 1.5L1.5 -1.5M4.5 7.5L7.5 4.5",
    "M3 2v2M0 5v2M6 5v2M0 -1v2M6 -1v2",
    "M0 0L6 6M-1.5 4.5L1.5 7.5M4.5 -1.5L7.5 1.5",
    "M0 3H6",
    "M0 3H6M3 0V6",
)
"""Patterns, in tiles of 6 x 6, that distinguish fillings without colour."""


def page(sources: Sequence[Source], since: Sequence[Source] = ()) -> str:
    """Return a report as HTML: the same for the same results. Local.

    Args:
        sources: at least one result; those of one benchmark or application are shown beside each other.
        since: older results, with which the rows are compared.
    """
    groups = grouped(sources, lambda source: (str(source.kind), source.name))
    judged = {key: verdicts(of, since) for key, of in groups.items()}
    farthest = sorted((key for key in groups if judged[key]), key=lambda key: judged[key][0].distance)
    others = [key for key in groups if not judged[key]]
    parts = [_group(key, groups[key], judged[key]) for key in farthest]
    if others:
        parts += [tag("p", "Beside no rival:", class_="about"), *(_group(key, groups[key], []) for key in others)]
    rows = [one for of in judged.values() for one in of]
    top = overview.head(rows, compared=bool(since)) if rows else None
    body = [
        _fillings(),
        overview.axis_lines(),
        tag("header", tag("h1", "Results"), Markup('<button id="theme" type="button" hidden></button>')),
        _machines(sources),
        tag("main", top, *parts),
    ]
    title = ", ".join(dict.fromkeys(name for _, name in groups))
    return f'<!doctype html>\n<html lang="en">\n{_head(title)}\n{tag("body", *body, _script())}\n</html>\n'


def _group(key: tuple[str, str], sources: Sequence[Source], found: Sequence[Verdict]) -> Markup:
    """A line that opens into the rows of a benchmark, below which its charts are folded."""
    warnings = _warnings(sources)
    details = _section(sources)
    if not found:
        return tag("details", overview.line_without_rival(_heading(key), sources, warnings), details, class_="group")
    charts = tag("details", tag("summary", "How it was measured, charts and tables"), details)
    line = overview.line(key[1], found, warnings)
    return tag("details", line, overview.rows(found), charts, class_=f"group {overview.classes(found)}")


def _warnings(sources: Sequence[Source]) -> list[str]:
    contents = [source.content for source in sources]
    found = {
        "NOT VERIFIED": any(content["verified"] is False for content in contents),
        "FAILURES": any(content.get("failures") for content in contents),
        "not complete": any(content.get("complete") is False for content in contents),
    }
    return [words for words, holds in found.items() if holds]


def _head(title: str) -> Markup:
    """The head of the page: it may load nothing, and run its own script only."""
    style, script = _part("page.css"), _part("page.js")
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; base-uri 'none'"
    return tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", f"Results: {title}"),
        Markup(f"<style>{style}</style>"),
    )


def _script() -> Markup:
    return Markup(f"<script>{_part('page.js')}</script>")


def _part(name: str) -> str:
    return resources.files("gondwana_bench.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _fillings() -> Markup:
    patterns = [_filling(number) for number in range(FILLINGS)]
    return tag("svg", tag("defs", *patterns), class_="fillings", aria_hidden="true")


def _filling(number: int) -> Markup:
    round_, colour = divmod(number, STYLES)
    hatch = _HATCHES[(colour + round_) % len(_HATCHES)]
    return tag(
        "pattern",
        tag("rect", width=6, height=6, class_=f"p{colour}"),
        tag("path", d=hatch, class_="hatch") if hatch else None,
        id=f"f{number}", width=6, height=6, patternUnits="userSpaceOnUse",
    )  # fmt: skip


def _heading(key: tuple[str, str]) -> str:
    return f"{_KINDS[key[0]]} {key[1]}"


def _machines(sources: Sequence[Source]) -> Markup:
    """The machines of the results, and, if they are several, which results are from which."""
    files: dict[str, list[str]] = {}
    for source in sources:
        if source.kind != "model":
            files.setdefault(source.machine, []).append(source.file)
    if not files:
        return tag("p", "Predicted by models of machines.", class_="about")
    if len(files) == 1:
        return tag("p", f"Measured on {next(iter(files))}.", class_="about")
    named = [f"{machine}: {', '.join(dict.fromkeys(of))}" for machine, of in files.items()]
    said = tag("summary", f"Measured on {len(files)} different machines")
    return tag("details", said, tables.join_lines(named), class_="about")


def _section(sources: Sequence[Source]) -> Markup:
    first = sources[0]
    parts: list[Markup] = []
    if first.kind == "app":
        panel = together(sources) if len(sources) > 1 else first.panels[0]
        files = {source.file: source for source in sources}
        return tag("section", *parts, *map(_about, files.values()), *_beside([panel], [None]))
    parts += [_about(source) for source in sources]
    if first.kind == "trace":
        return tag("section", *parts, *(_trace(source) for source in sources))
    told = dict(zip(map(id, sources), _told_apart(sources), strict=True))
    pairs = ((source, panel) for source in sources for panel in source.panels)
    for name, of in grouped(pairs, lambda pair: pair[1].name).items():
        if name != first.name:
            parts.append(tag("h3", name))
        captions = [told[id(source)] if len(sources) > 1 else None for source, _ in of]
        parts += _beside([panel for _, panel in of], captions)
    return tag("section", *parts)


def _beside(panels: Sequence[Panel], captions: Sequence[str | None]) -> Iterator[Markup]:
    """The figures and the tables of panels: beside each other if they are several of few figures."""
    drawn = [figures(panel) for panel in panels]
    parts = [_panel(panel, of, caption) for panel, of, caption in zip(panels, drawn, captions, strict=True)]
    few = len(parts) > 1 and max(map(len, drawn)) <= _MOST_BESIDE
    yield from [tag("div", *parts, class_="beside")] if few else parts


def _panel(panel: Panel, drawn: Sequence[Figure], caption: str | None) -> Markup:
    count = f"{len(panel.rows)} row{'' if len(panel.rows) == 1 else 's'}"
    alternative = tag("summary", f"The figures as a table ({count})" if drawn else "Table")
    return tag(
        "div",
        None if caption is None else tag("p", caption, class_="about"),
        _grid(drawn),
        tag("p", "No rows.") if not panel.rows else tag("details", alternative, tables.of_panel(panel)),
    )


def _grid(drawn: Sequence[Figure]) -> Markup | None:
    if not drawn:
        return None
    captions = [
        tag("figcaption", tag("strong", one.title), tag("small", one.caption) if one.caption else None) for one in drawn
    ]
    shown = (tag("figure", caption, one.chart) for caption, one in zip(captions, drawn, strict=True))
    return tag("div", *shown, class_="figures")


def _about(source: Source) -> Markup:
    """The origin of a result, and what to know before reading its figures."""
    content = source.content
    measured = f"{_from(source)}, {content['environment'].get('time', 'time not known')}. {source.load.capitalize()}."
    parts = [tag("p", measured, class_="about"), tag("p", tag("code", " ".join(content["command"])), class_="about")]
    remarks: list[str] = []
    if source.kind in ("benchmark", "trace"):
        remarks += [*content["notes"], *(f"FAILED: {failure}" for failure in content.get("failures", []))]
        remarks += [] if content["complete"] else ["not complete: the measurement ended early"]
    if content["verified"] is False:
        remarks.append("NOT VERIFIED: results were wrong")
    if remarks:
        parts.append(tables.join_lines(remarks))
    return join(parts)


def _from(source: Source) -> str:
    placement: Any = source.environment.get("placement")
    pattern = placement.get("pattern") if isinstance(placement, dict) else None
    where = "" if pattern is None else f", {pattern} threads x ranks x nodes"
    return f"{source.file}, {source.machine}{where}"


def _told_apart(sources: Sequence[Source]) -> list[str]:
    """Where results are from, with the words of their commands that not all of them have."""
    commands = [[word for word in source.content["command"] if not word.endswith(".json")] for source in sources]
    common = set.intersection(*map(set, commands))
    own = (" ".join(word for word in words if word not in common) for words in commands)
    return [f"{_from(source)}" + (f": {words}" if words else "") for source, words in zip(sources, own, strict=True)]


def _trace(source: Source) -> Markup:
    content, ranks = source.content, source.content["ranks"]
    stacks = [
        Stack(f"rank {rank}", tuple((name, of[rank]) for name, of in content["spans"].items())) for rank in range(ranks)
    ]
    name, matrix = source.name, content["matrix"]
    found = {
        "Seconds of each rank": stack_chart(f"{name}: seconds of each rank", stacks, "s"),
        "Bytes from rank to rank": matrix_chart(f"{name}: bytes sent", matrix["bytes"], "B"),
        "Messages from rank to rank": matrix_chart(f"{name}: messages sent", matrix["messages"], "1"),
    }
    drawn = [Figure(f"{name}: {title}", chart, source.file) for title, chart in found.items() if chart is not None]
    (panel,) = source.panels
    details = [tag("summary", "The seconds as a table"), tables.of_panel(panel)]
    parts = [_grid(drawn), tag("details", *details)]
    if ranks <= _LARGEST_MATRIX:
        parts.append(tag("details", tag("summary", "The communication as a table"), _matrix(matrix, ranks)))
    return tag("div", *parts)


def _matrix(matrix: Mapping[str, list[list[float]]], ranks: int) -> Markup:
    def cell(sender: int, to: int) -> str:
        nbytes, messages = (matrix[what][sender][to] for what in ("bytes", "messages"))
        return f"{quantity(nbytes, 'B')} in {quantity(messages, '1')}"

    rows = [[f"rank {sender}", *(cell(sender, to) for to in range(ranks))] for sender in range(ranks)]
    return tables.table(["bytes in messages", *(f"to {rank}" for rank in range(ranks))], rows)
