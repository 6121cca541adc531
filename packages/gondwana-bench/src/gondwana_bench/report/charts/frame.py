"""The common parts of charts: the drawing, axes, labels and the legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gondwana_bench.report.markup import Markup, join, tag
from gondwana_bench.report.scales import Scale

WIDTH = 360.0
"""Width of a drawing: that of a phone, so that text keeps its size; on a wide page several are side by side."""

LINE = 15.0
"""Distance between lines of text."""

STYLES = 6
"""Numbers of colours, dashes and markers in the style sheet."""

FILLINGS = 12
"""Number of fillings: colours with one hatch, then with another."""

LOG = " (log axis)"
"""The end of the label of a logarithmic axis."""

_CHARACTER = 6.4
"""Width of a character on average, of text of 11 pixels."""


def drawing(title: str, height: float, parts: Sequence[Markup]) -> Markup:
    """Return a drawing of `WIDTH` and a height; its title is read out. Local."""
    return tag(
        "svg",
        tag("title", title),
        *parts,
        role="img",
        aria_label=title,
        viewBox=f"0 0 {WIDTH:g} {height:.0f}",
        xmlns="http://www.w3.org/2000/svg",
    )


def text(
    x: float, y: float, words: str, anchor: str = "start", class_: str | None = None, room: float = WIDTH
) -> Markup:
    """Return a line of text; if it is too long for its room, it is cut, and is a hint as well. Local."""
    most = max(4, int(room / _CHARACTER))
    if len(words) <= most:
        return tag("text", words, x=x, y=y, text_anchor=anchor, class_=class_)
    return tag("text", tag("title", words), f"{words[: most - 1]}…", x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line. Local."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def ticks_below(
    scale: Scale, values: Sequence[float], label: Callable[[float], str], top: float, bottom: float
) -> list[Markup]:
    """Return the grid lines of a horizontal axis from top to bottom, with labels below that do not overlap. Local."""
    parts, free = [], 0.0
    for value in values:
        x, words = scale(value), label(value)
        half = len(words) * _CHARACTER / 2
        parts.append(line(x, top, x, bottom, "grid"))
        centre = min(max(x, half), WIDTH - half)
        if centre - half >= free:
            parts.append(text(centre, bottom + 13, words, "middle", "tick"))
            free = centre + half + _CHARACTER
    return parts


def ticks_left(
    scale: Scale, values: Sequence[float], label: Callable[[float], str], left: float, right: float
) -> list[Markup]:
    """Return the grid lines of a vertical axis from left to right, with labels before them. Local."""
    return [
        part
        for value in values
        for part in (
            line(left, scale(value), right, scale(value), "grid"),
            text(left - 4, scale(value) + 4, label(value), "end", "tick", room=left),
        )
    ]


def marker(style: int, x: float, y: float, *, hollow: bool = False, hint: str | None = None) -> Markup:
    """Return a marker in the shape of its style. Local.

    Args:
        style: number of the series.
        x: centre.
        y: centre.
        hollow: whether it is only an outline.
        hint: text that explains it.
    """
    number = style % STYLES
    class_ = f"mark s{number}" + (" hollow" if hollow else "")
    title = None if hint is None else tag("title", hint)
    if number == 0:
        return tag("circle", title, cx=x, cy=y, r=3.5, class_=class_)
    return tag("path", title, d=f"M{x:.2f} {y:.2f}{_SHAPES[number]}", class_=class_)


_SHAPES = (
    "",
    "m-3.3 -3.3h6.6v6.6h-6.6z",
    "m0 -4.4l4.2 7.4h-8.4z",
    "m0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8z",
    "m0 4.4l4.2 -7.4h-8.4z",
    "m-1.3 -4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
)
"""Outlines of the markers from their centres: circle, square, triangle, diamond, triangle on its tip, cross."""


def legend(entries: Sequence[tuple[Markup, str]], top: float) -> Markup:
    """Return a legend, one line for each entry of a sample 24 wide, drawn around (12, 0), and its name. Local."""
    return join(
        [
            part
            for number, (sample, name) in enumerate(entries)
            for part in (
                tag("g", sample, transform=f"translate(0 {top + number * LINE - 4:.2f})"),
                text(30, top + number * LINE, name, room=WIDTH - 30),
            )
        ]
    )
