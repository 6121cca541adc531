"""Bars: ratios on a logarithmic axis that start at 1, and parts of a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gondwana_bench.report import scales
from gondwana_bench.report.charts import frame
from gondwana_bench.report.markup import Markup, tag
from gondwana_bench.report.quantities import quantity, two_digits
from gondwana_bench.report.scales import drawable

LEFT, RIGHT = 4.0, 316.0
ROW = 32.0
BAR = 11.0
WIDE = 0.12
"""Part of the whole from which on a name stands in it."""

_FREE = [number for number in range(frame.FILLINGS) if number % frame.STYLES not in (0, 1)]
"""Fillings of parts: the first colours are those of ours and of the rival."""


@dataclass(frozen=True)
class Bar:
    """A ratio with its interval: above 1 ours is faster. `hint` says it in words."""

    label: str
    ratio: float
    low: float
    high: float
    hint: str


@dataclass(frozen=True)
class Stack:
    """A whole in parts: values by name, in their order."""

    label: str
    parts: tuple[tuple[str, float], ...]


def ratio_chart(title: str, bars: Sequence[Bar], axis: str) -> Markup | None:
    """Return bars of ratios from 1 to the right for faster and to the left for slower. Local.

    Args:
        title: title of the chart.
        bars: the bars; those that are not positive are left out.
        axis: meaning of the ratio.

    Returns:
        None without any.
    """
    kept = [bar for bar in bars if drawable(bar.ratio, log=True)]
    if not kept:
        return None
    ends = [end for bar in kept for end in (bar.ratio, bar.low, bar.high)]
    scale = scales.covering([1.0, *ends], LEFT, RIGHT, log=True)
    bottom = len(kept) * ROW + 2
    parts = [
        *frame.ticks_below(scale, scale.ticks(), two_digits, 0, bottom),
        *(_ratio(bar, scale, number * ROW) for number, bar in enumerate(kept)),
        frame.text((LEFT + RIGHT) / 2, bottom + 28, axis + frame.LOG, "middle", "label"),
    ]
    return frame.drawing(title, bottom + 34, parts)


def stack_chart(title: str, stacks: Sequence[Stack], unit: str) -> Markup | None:
    """Return bars of parts, each as long as a whole; parts that are not positive are left out. Local.

    Args:
        title: title of the chart.
        stacks: the wholes.
        unit: unit of the parts.

    Returns:
        None without any part.
    """
    kept = [
        Stack(stack.label, tuple((name, value) for name, value in stack.parts if drawable(value, log=True)))
        for stack in stacks
    ]
    kept = [stack for stack in kept if stack.parts]
    if not kept:
        return None
    names = list(dict.fromkeys(name for stack in kept for name, _ in stack.parts))
    parts = [_stack(stack, names, unit, number * ROW) for number, stack in enumerate(kept)]
    top = len(kept) * ROW + 16
    samples = [tag("rect", x=4, y=-5, width=16, height=10, class_=_filling(names, name)) for name in names]
    parts.append(frame.legend(list(zip(samples, names, strict=True)), top))
    return frame.drawing(title, top + len(names) * frame.LINE - 4, parts)


def _ratio(bar: Bar, scale: scales.Scale, top: float) -> Markup:
    one, end, middle = scale(1.0), scale(bar.ratio), top + 23
    parts = [
        tag("title", bar.hint),
        frame.text(LEFT, top + 12, bar.label, room=RIGHT),
        frame.line(one, middle - BAR, one, middle + BAR - 2, "one"),
        tag(
            "rect", x=min(one, end), y=middle - BAR / 2, width=max(abs(end - one), 0.5), height=BAR,
            class_="faster" if bar.ratio >= 1.0 else "slower",
        ),
        frame.text(frame.WIDTH - 2, middle + 4, two_digits(bar.ratio), "end", "value"),
    ]  # fmt: skip
    if drawable(bar.low, log=True) and drawable(bar.high, log=True):
        low, high = scale(bar.low), scale(bar.high)
        parts.append(tag("path", d=f"M{low:.2f} {middle - 3:.2f}v6m0 -3H{high:.2f}m0 -3v6", class_="whisker"))
    return tag("g", *parts)


def _stack(stack: Stack, names: list[str], unit: str, top: float) -> Markup:
    whole = sum(value for _, value in stack.parts)
    parts = [frame.text(LEFT, top + 12, f"{stack.label} ({quantity(whole, unit)})" if unit != "1" else stack.label)]
    left, length = LEFT, frame.WIDTH - 2 * LEFT
    for name, value in stack.parts:
        width = length * value / whole
        share = f"{100 * value / whole:.1f} %"
        hint = f"{name}: {share}" + ("" if unit == "1" else f", {quantity(value, unit)}")
        parts.append(
            tag("rect", tag("title", hint), x=left, y=top + 16, width=width, height=13, class_=_filling(names, name))
        )
        if value / whole >= WIDE:
            parts.append(frame.text(left + width / 2, top + 26.5, share, "middle", "inside", room=width))
        left += width
    return tag("g", *parts)


def _filling(names: list[str], name: str) -> str:
    return f"part f{_FREE[names.index(name) % len(_FREE)]}"
