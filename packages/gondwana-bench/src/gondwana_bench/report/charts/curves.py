"""Curves of figures over a size or over ranks, with intervals, beside those of rivals and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gondwana_bench.report import scales
from gondwana_bench.report.charts import frame
from gondwana_bench.report.markup import Markup, tag
from gondwana_bench.report.quantities import BYTES, digits, quantity
from gondwana_bench.report.scales import Scale, drawable

LEFT, RIGHT, TOP, HEIGHT = 62.0, 352.0, 20.0, 200.0
MOST_LABELS = 7


@dataclass(frozen=True)
class Axis:
    """The description of an axis.

    Attributes:
        label: label of its values.
        unit: unit of its values.
        log: whether it is logarithmic; values that are not positive are left out then.
        line: a value across the chart that others are read against, such as a ratio of 1; only on the vertical axis.
    """

    label: str
    unit: str
    log: bool = True
    line: float | None = None


@dataclass(frozen=True)
class Dot:
    """A point of a curve, with an interval of its value if that is known; `hollow` is explained by the caller."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    hollow: bool = False


@dataclass(frozen=True)
class Curve:
    """A curve: its name, its points, and the number of its style; None for a bound, which is dotted."""

    name: str
    dots: tuple[Dot, ...]
    style: int | None = 0


def curve_chart(title: str, drawn: Sequence[Curve], x: Axis, y: Axis) -> Markup | None:
    """Return a chart of curves. Local.

    Args:
        title: title of the chart.
        drawn: the curves; points without a place on the axes are left out.
        x: the horizontal axis, with ticks at the values of the points.
        y: the vertical axis.

    Returns:
        None if no point has a place on the axes.
    """
    kept = [Curve(curve.name, _placed(curve, x, y), curve.style) for curve in drawn]
    kept = [curve for curve in kept if curve.dots]
    if not any(curve.style is not None for curve in kept):
        return None
    dots = [dot for curve in kept for dot in curve.dots]
    bottom = TOP + HEIGHT
    across = scales.over((dot.x for dot in dots), LEFT, RIGHT, log=x.log)
    values = [value for dot in dots for value in (dot.y, dot.low, dot.high) if value is not None]
    up = scales.covering([*values, *([] if y.line is None else [y.line])], bottom, TOP, log=y.log)
    parts = [
        *frame.ticks_below(across, _labelled(sorted({dot.x for dot in dots})), lambda v: _tick(v, x.unit), TOP, bottom),
        *frame.ticks_left(up, up.ticks(), lambda v: quantity(v, y.unit), LEFT, RIGHT),
        frame.text((LEFT + RIGHT) / 2, bottom + 28, _labelled_axis(x), "middle", "label"),
        frame.text(2, 11, y.label + frame.LOG * y.log, class_="label"),
    ]
    if y.line is not None:
        parts.append(frame.line(LEFT, up(y.line), RIGHT, up(y.line), "one"))
    parts += [_curve(curve, across, up, x, y) for curve in kept]
    top = bottom + 48
    parts.append(frame.legend([(_sample(curve), curve.name) for curve in kept], top))
    return frame.drawing(title, top + len(kept) * frame.LINE - 4, parts)


def _placed(curve: Curve, x: Axis, y: Axis) -> tuple[Dot, ...]:
    """The points that have a place on the axes, without the ends of intervals that have none, from left to right."""

    def end(value: float | None) -> float | None:
        return value if drawable(value, log=y.log) else None

    return tuple(
        replace(dot, low=end(dot.low), high=end(dot.high))
        for dot in sorted(curve.dots, key=lambda dot: dot.x)
        if drawable(dot.x, log=x.log) and drawable(dot.y, log=y.log)
    )


def _labelled_axis(axis: Axis) -> str:
    """The label, with the unit that the ticks do not have."""
    unit = "" if axis.unit in ("1", BYTES) else f", {axis.unit}"
    return f"{axis.label}{unit}{frame.LOG * axis.log}"


def _tick(value: float, unit: str) -> str:
    return quantity(value, unit) if unit == BYTES else digits(value)


def _labelled(values: list[float]) -> list[float]:
    """At most `MOST_LABELS` of the values, evenly chosen."""
    every = -(-len(values) // MOST_LABELS)
    return values[::every]


def _curve(curve: Curve, across: Scale, up: Scale, x: Axis, y: Axis) -> Markup:
    places = " ".join(f"{across(dot.x):.2f},{up(dot.y):.2f}" for dot in curve.dots)
    if curve.style is None:
        if len(curve.dots) == 1:
            return frame.line(across.start, up(curve.dots[0].y), across.end, up(curve.dots[0].y), "curve bound")
        return tag("polyline", points=places, class_="curve bound")
    parts = [tag("polyline", points=places, class_=f"curve s{curve.style % frame.STYLES}")]
    for dot in curve.dots:
        if dot.low is not None and dot.high is not None:
            place = across(dot.x)
            parts.append(frame.line(place, up(dot.low), place, up(dot.high), f"interval s{curve.style % frame.STYLES}"))
        hint = f"{curve.name}, {quantity(dot.x, x.unit)}: {quantity(dot.y, y.unit)}"
        parts.append(frame.marker(curve.style, across(dot.x), up(dot.y), hollow=dot.hollow, hint=hint))
    return tag("g", *parts)


def _sample(curve: Curve) -> Markup:
    if curve.style is None:
        return frame.line(0, 0, 24, 0, "curve bound")
    return tag("g", frame.line(0, 0, 24, 0, f"curve s{curve.style % frame.STYLES}"), frame.marker(curve.style, 12, 0))
