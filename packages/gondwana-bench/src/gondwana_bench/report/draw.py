"""Figures of a panel: which charts its columns ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gondwana_bench.report import charts, layouts
from gondwana_bench.report.charts import Axis, Bar, Curve, Dot, Spread, Stack
from gondwana_bench.report.comparisons import Comparison, compare, in_words, label_of, rival_of, who
from gondwana_bench.report.layouts import Layout
from gondwana_bench.report.markup import Markup
from gondwana_bench.report.quantities import two_digits
from gondwana_bench.report.rows import Measure, Panel, Row, figure, groups, interval, is_whole, spread_of
from gondwana_bench.report.scales import drawable
from gondwana_bench.rows import grouped

MOST_BARS = 16
"""Rows of a figure; more are divided."""

HISTOGRAM = 100
"""Values from which on a sample is a histogram too."""

T = TypeVar("T")

_ENDS = {"min": ("fastest rank", 2), "median": ("median", 0), "max": ("slowest rank", 3)}
"""Columns with the seconds of ranks, their names, and their styles: that of the median is that of ours."""

_RIVAL = 1
"""Style of the rival: nothing else has its colour."""

_RATIO_AXIS = "times as fast as the rival, 95 % intervals"


@dataclass(frozen=True)
class Figure:
    """A chart with the text above and below it.

    Attributes:
        title: above it.
        chart: the drawing.
        caption: below it, in words.
    """

    title: str
    chart: Markup
    caption: str


def figures(panel: Panel) -> list[Figure]:
    """Return the figures of a panel; none if nothing in it can be drawn. Local."""
    how = layouts.layout(panel.benchmark, panel.name)
    kinds: dict[str, Callable[[Panel, Layout], Iterator[Figure]]] = {
        layouts.CURVES: _curves, layouts.RATIOS: _ratios, layouts.SCALING: _scaling, layouts.SCATTER: _scatter,
        layouts.PARTS: _parts, layouts.SPEEDUPS: _speedup_bars,
    }  # fmt: skip
    return [found for kind in how.kinds for found in kinds[kind](panel, how)] if panel.rows else []


def _curves(panel: Panel, how: Layout) -> Iterator[Figure]:
    """Times, rates and ratios over the size, a figure for each group of rows."""
    axis = panel.axis()
    if axis is None:
        return
    names = [name for name in panel.names() if name != axis]
    x = Axis(axis, panel.unit(axis), log=how.log)
    for rows in groups(panel.rows, names).values():
        if not _is_curve(rows, axis):
            continue
        label = label_of(panel, rows[0], names)
        for measure in _drawn_measures(panel, rows[0]):
            yield from _beside(panel, how, rows, measure, x, label)
        for key in panel.ratios():
            found = compare(Panel(panel.benchmark, panel.name, rows, panel.units), key, how)
            y = Axis("times as fast, 95 % intervals", "1", line=1.0)
            drawn = _ratio_curves(found, axis)
            title = f"{label}: {_prefix(key)}times as fast"
            yield from _figure(charts.curve_chart, title, _sentences(found), drawn, x, y)


def _beside(panel: Panel, how: Layout, rows: Sequence[Row], measure: Measure, x: Axis, label: str) -> Iterator[Figure]:
    """A figure of ours, the rivals and the bound over the size."""
    unit = panel.unit(measure.ours, rows[0])
    drawn = [Curve(who(rows[0]), _dots(rows, x.label, measure.ours, once=True))]
    if measure.theirs is not None:
        rivals = grouped(rows, lambda row: rival_of(panel, "ratio", how, row))
        drawn += [
            Curve(name, _dots(of, x.label, measure.theirs), number)
            for number, (name, of) in enumerate(rivals.items(), _RIVAL)
        ]
    bound = panel.bound(measure)
    if bound is not None:
        drawn.append(Curve(f"bound: {bound}", _dots(rows, x.label, bound, once=True), None))
    kind = "time" if panel.is_time(measure.ours, rows[0]) else "rate"
    y = Axis(_called(measure.ours) or kind, unit)
    yield from _figure(charts.curve_chart, f"{label}: {kind}", _left_out(rows, x), drawn, x, y)


def _ratios(panel: Panel, how: Layout) -> Iterator[Figure]:
    """Bars of ratios, where no curve has them."""
    axis = panel.axis() if layouts.CURVES in how.kinds else None
    for key in panel.ratios():
        found = compare(panel, key, how)
        if axis is not None:
            others = [name for name in panel.names() if name != axis]
            alone = [
                id(row) for rows in groups(panel.rows, others).values() if not _is_curve(rows, axis) for row in rows
            ]
            found = [one for one in found if id(one.row) in alone]
        what = _prefix(key)
        several = len({one.rival for one in found}) > 1
        for title, part in _divided(found):
            bars = [
                Bar(
                    f"{one.label} beside {one.rival}" if several else one.label, one.ratio, one.low, one.high, one.words
                )
                for one in part
            ]
            heading = f"{what}{title or panel.name} beside {part[0].rival if not several else 'rivals'}"
            yield from _figure(charts.ratio_chart, heading, _sentences(part), bars, _RATIO_AXIS)


def _scaling(panel: Panel, how: Layout) -> Iterator[Figure]:
    """Seconds of the fastest and the slowest rank, efficiency and speed-up over the ranks."""
    if "ranks" not in panel.names():
        return

    def over_ranks(what: str, drawn: Sequence[Curve], y: Axis, *more: Curve) -> Iterator[Figure]:
        x = Axis("ranks", "1", log=False)
        yield from _figure(charts.curve_chart, f"{panel.name}: {what}", _about_hollow(drawn), [*drawn, *more], x, y)

    if _ENDS.keys() <= set(panel.keys):
        drawn = [Curve(name, _dots(panel.rows, "ranks", key), style) for key, (name, style) in _ENDS.items()]
        yield from over_ranks("seconds of a step", drawn, Axis("time", panel.unit("median")))
    names = [name for name in panel.names() if name not in ("ranks", "problem", "size")]
    by_name = {label_of(panel, rows[0], names): rows for rows in groups(panel.rows, names).values()}
    if "efficiency" in panel.keys:
        drawn = _over_ranks(by_name, "efficiency")
        yield from over_ranks("efficiency", drawn, Axis("efficiency", "1", log=False, line=1.0))
    drawn = _speedups(panel, how, by_name)
    if drawn:
        ideal = tuple(Dot(ranks, ranks) for ranks in sorted({dot.x for curve in drawn for dot in curve.dots}))
        yield from over_ranks("speed-up", drawn, Axis("speed-up", "1", log=False), Curve("ideal", ideal, None))


def _speedup_bars(panel: Panel, how: Layout) -> Iterator[Figure]:
    """Bars of speed-ups, where rows are patterns of threads and ranks rather than numbers of ranks."""
    del how
    names = [name for name in panel.names() if name in ("pattern", "parallelism", "ranks")][:1]
    rows = [(row, value) for row in panel.rows if (value := figure(row.get("speedup"))) is not None] if names else []
    bars = [
        Bar(
            label_of(panel, row, names), value, figure(row.get("speedup_low")) or value,
            figure(row.get("speedup_high")) or value, f"speed-up {two_digits(value)}",
        )
        for row, value in rows
    ]  # fmt: skip
    yield from _several(charts.ratio_chart, f"{panel.name}: speed-up", bars, "speed-up")


def _over_ranks(by_name: Mapping[str, Sequence[Row]], key: str) -> list[Curve]:
    return [
        Curve(name, _dots(rows, "ranks", key), number + (number >= _RIVAL))
        for number, (name, rows) in enumerate(by_name.items())
    ]


def _speedups(panel: Panel, how: Layout, by_name: Mapping[str, Sequence[Row]]) -> list[Curve]:
    """The speed-ups in the rows and those of the rival, or those that follow from the efficiency of strong scaling."""
    if "speedup" in panel.keys:
        drawn, theirs = _over_ranks(by_name, "speedup"), panel.theirs("speedup")
        if theirs is not None:
            rival = rival_of(panel, "ratio", how, panel.rows[0])
            drawn.append(Curve(rival, _dots(panel.rows, "ranks", theirs, once=True), _RIVAL))
        return drawn
    if "efficiency" not in panel.keys or panel.rows[0].get("kind") != "strong":
        return []
    return [
        Curve(curve.name, tuple(Dot(dot.x, dot.y * dot.x, hollow=dot.hollow) for dot in curve.dots), curve.style)
        for curve in _over_ranks(by_name, "efficiency")
    ]


def _about_hollow(drawn: Sequence[Curve]) -> str:
    hollow = any(dot.hollow for curve in drawn for dot in curve.dots)
    return "Hollow: more ranks than cores, which take turns." if hollow else ""


def _scatter(panel: Panel, how: Layout) -> Iterator[Figure]:
    """Violins of samples, boxes of summaries, and histograms of large samples."""
    if panel.axis() is not None and layouts.CURVES in how.kinds:
        return
    names = panel.names()
    for ours, theirs in _samples(panel):
        found = [spread for row in panel.rows for spread in _spreads(panel, how, row, names, (ours, theirs))]
        unit = panel.unit(ours or "median", panel.rows[0])
        what = _called(ours or "time") or (
            "time" if ours is not None and panel.is_time(ours, panel.rows[0]) else "rate"
        )
        drawn = list(dict.fromkeys(found))
        yield from _several(charts.spread_chart, f"{panel.name}: {what}", drawn, unit, what, caption=_how_to_read)
        for spread in found:
            if len(spread.values) >= HISTOGRAM:
                yield from _figure(charts.histogram, f"{spread.label}: {what}", "", spread.values, unit, what)


def _spreads(
    panel: Panel, how: Layout, row: Row, names: Sequence[str], keys: tuple[str | None, str | None]
) -> list[Spread]:
    """The scatter of our sample and the rival's, as far as a row has them."""
    label, (ours, theirs) = label_of(panel, row, names), keys
    found = [spread_of(label, _sample(row, ours), 0) or _point(label, _sample(row, ours))]
    if theirs is not None:
        found.append(spread_of(f"{label}: {rival_of(panel, 'ratio', how, row)}", row[theirs], 1))
    return [spread for spread in found if spread is not None]


def _parts(panel: Panel, how: Layout) -> Iterator[Figure]:
    """Stacked bars of mappings of parts, and of shares: ours, and the rival's if they are there."""
    names = panel.names()
    for key in panel.parts():
        stacks = [
            Stack(
                label_of(panel, row, names),
                tuple((str(name), part) for name, part in row[key].items() if name != "total"),
            )
            for row in panel.rows
            if is_whole(row[key])
        ]
        yield from _several(charts.stack_chart, f"{panel.name}: {_called(key)}", stacks, panel.unit(key))
    shares = {key: panel.name if key == "share" else _called(key) for key in panel.shares()}
    theirs = {other: name for key, name in shares.items() if (other := panel.theirs(key)) in shares}
    ours = {key: name for key, name in shares.items() if key not in theirs}
    stacks = []
    for row in panel.rows:
        label = label_of(panel, row, names)
        stacks.append(Stack(label, _with_rest(row, ours)))
        if theirs:
            stacks.append(Stack(f"{label}: {rival_of(panel, 'ratio', how, row)}", _with_rest(row, theirs)))
    yield from _several(charts.stack_chart, f"{panel.name}: shares", stacks, "1")


def _figure(draw: Callable[..., Markup | None], title: str, caption: str, *what: Any) -> Iterator[Figure]:
    """A figure of a chart, if that has anything to show."""
    chart = draw(title, *what)
    if chart is not None:
        yield Figure(title, chart, caption)


def _several(
    draw: Callable[..., Markup | None],
    title: str,
    items: Sequence[T],
    *what: Any,
    caption: Callable[[Sequence[T]], str] = lambda part: "",
) -> Iterator[Figure]:
    """Figures of at most `MOST_BARS` items each."""
    for heading, part in _chunks(title, items):
        yield from _figure(draw, heading, caption(part), part, *what)


def _drawn_measures(panel: Panel, row: Row) -> list[Measure]:
    """One time and one rate: plain figures before samples, because the benchmark prints those."""
    found: dict[bool, Measure] = {}
    for plain in (True, False):
        for measure in panel.measures():
            if isinstance(row[measure.ours], int | float) == plain and row[measure.ours] is not None:
                found.setdefault(panel.is_time(measure.ours, row), measure)
    return [found[kind] for kind in (True, False) if kind in found]


def _dots(rows: Sequence[Row], x: str, y: str, *, once: bool = False) -> tuple[Dot, ...]:
    """The points of a column; `once`: only the first of several rows with the same place."""
    found: dict[Any, Dot] = {}
    for number, row in enumerate(rows):
        place, value = figure(row[x]), figure(row[y])
        if place is None or value is None:
            continue
        low, high = interval(row[y])
        if {f"{y}_low", f"{y}_high"} <= row.keys():
            low, high = figure(row[f"{y}_low"]), figure(row[f"{y}_high"])
        found.setdefault(place if once else number, Dot(place, value, low, high, bool(row.get("beyond_cores"))))
    return tuple(found.values())


def _ratio_curves(found: Sequence[Comparison], axis: str) -> list[Curve]:
    return [
        Curve(
            f"beside {rival}",
            tuple(
                Dot(place, one.ratio, one.low, one.high)
                for one in of_rival
                if (place := figure(one.row[axis])) is not None
            ),
            number,
        )
        for number, (rival, of_rival) in enumerate(grouped(found, lambda one: one.rival).items(), 1)
    ]


def _is_curve(rows: Sequence[Row], axis: str) -> bool:
    return len({row[axis] for row in rows if drawable(row[axis], log=True)}) > 1


def _left_out(rows: Sequence[Row], x: Axis) -> str:
    """The note on sizes without a place on a logarithmic axis."""
    return f"{x.label.capitalize()} 0 is in the table only." if x.log and any(row[x.label] == 0 for row in rows) else ""


def _prefix(key: str) -> str:
    """The name of a ratio, if the panel has several."""
    return "" if key in ("ratio", "speed") else f"{_called(key.removesuffix('_ratio'))}: "


def _samples(panel: Panel) -> list[tuple[str | None, str | None]]:
    """The columns with samples, ours and the rival's; None for rows that are themselves the statistics of a sample."""
    if {"median", "p1", "p99"} <= set(panel.keys):
        return [(None, None)]
    keys = [
        (measure.ours, measure.theirs)
        for measure in panel.measures()
        if any(spread_of("", row[measure.ours], 0) is not None for row in panel.rows)
    ]
    if not keys and not any(f"{measure.ours}_low" in panel.keys for measure in panel.measures()):
        return [(measure.ours, None) for measure in _drawn_measures(panel, panel.rows[0])]
    lists = [pair for pair in keys if any(isinstance(row[pair[0]], list) for row in panel.rows)]
    return list(lists or keys)


def _sample(row: Row, key: str | None) -> Any:
    return row if key is None else row[key]


def _point(label: str, value: Any) -> Spread | None:
    """A single figure among the samples."""
    found = None if isinstance(value, Mapping) else figure(value)
    return None if found is None else Spread(label, found, (found, found), (found, found), (found,))


def _with_rest(row: Row, shares: Mapping[str, str]) -> tuple[tuple[str, float], ...]:
    found = [
        (name, value) for key, name in shares.items() if (value := figure(row[key])) is not None and 0.0 <= value <= 1.0
    ]
    rest = 1.0 - math.fsum(value for _, value in found)
    return (*found, ("the rest", rest)) if found and rest > 1e-6 else tuple(found)


def _divided(found: Sequence[Comparison]) -> Iterator[tuple[str, Sequence[Comparison]]]:
    """The comparisons in figures of at most `MOST_BARS` rows, by their subjects if there are more."""
    if len(found) <= MOST_BARS:
        yield from [("", found)] if found else []
        return
    for subject, part in grouped(found, lambda one: one.subject).items():
        yield from _chunks(subject, part)


def _chunks(title: str, items: Sequence[T]) -> Iterator[tuple[str, Sequence[T]]]:
    """At most `MOST_BARS` items at a time, with a title."""
    for first in range(0, len(items), MOST_BARS):
        yield title + (", continued" if first else ""), items[first : first + MOST_BARS]


def _sentences(found: Sequence[Comparison]) -> str:
    """A sentence about each rival from the comparisons."""
    return "; ".join(map(in_words, grouped(found, lambda one: (one.who, one.rival)).values()))


def _how_to_read(spreads: Sequence[Spread]) -> str:
    if any(len(spread.values) >= charts.FEW for spread in spreads):
        return "The width is the density of the values, the thick line the middle half."
    if any(spread.values for spread in spreads):
        return "Each value is a circle." if any(len(spread.values) > 1 for spread in spreads) else ""
    thin = "thin: from the smallest, or from 1 %, to 99 % of the values"
    return (
        f"Thick: the middle half or 90 %; {thin}."
        if any(one.inner[0] < one.inner[1] for one in spreads)
        else f"{thin.capitalize()}."
    )


def _called(key: str) -> str:
    """A column's name in words."""
    return layouts.CALLED.get(key, key.replace("_", " "))
