"""The scatter of values: violins of samples, boxes where only percentiles are known, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gondwana_bench.report import scales
from gondwana_bench.report.charts import frame
from gondwana_bench.report.markup import Markup, tag
from gondwana_bench.report.quantities import quantity
from gondwana_bench.report.scales import Scale, drawable

LEFT, RIGHT = 6.0, 354.0
ROW = 40.0
HALF = 9.0
FEW = 8
"""The fewest values that are drawn as a density; fewer are drawn one by one."""

GRID = 64
"""Points of the outline of a violin."""

BINS = 40
HEIGHT = 150.0


@dataclass(frozen=True)
class Spread:
    """A sample, as far as it is known.

    Attributes:
        label: name of the sample.
        median: median of the values.
        inner: ends of the thick line: of the central half, or of 90 % of the values.
        outer: ends of the thin line: the smallest value or a low percentile, and a high one.
        values: all of them, if they are known.
        style: number of the series.
    """

    label: str
    median: float
    inner: tuple[float, float]
    outer: tuple[float, float]
    values: tuple[float, ...] = ()
    style: int = 0


def spread_chart(title: str, drawn: Sequence[Spread], unit: str, axis: str) -> Markup | None:
    """Return samples below each other on one logarithmic axis. Local.

    Args:
        title: title of the chart.
        drawn: samples; those with a median that is not positive are left out.
        unit: unit of the values.
        axis: label of the axis.

    Returns:
        None without any.
    """
    kept = [spread for spread in drawn if drawable(spread.median, log=True)]
    if not kept:
        return None
    scale = scales.covering(
        [value for s in kept for value in (s.median, *s.inner, *s.outer, *s.values)], LEFT, RIGHT, log=True
    )
    bottom = len(kept) * ROW + 4
    parts = [
        *frame.ticks_below(scale, scale.ticks(), lambda value: quantity(value, unit), 0, bottom),
        *(_spread(spread, scale, unit, number * ROW) for number, spread in enumerate(kept)),
        frame.text((LEFT + RIGHT) / 2, bottom + 28, axis + frame.LOG, "middle", "label"),
    ]
    return frame.drawing(title, bottom + 34, parts)


def histogram(title: str, values: Sequence[float], unit: str, axis: str) -> Markup | None:
    """Return a histogram of positive values in bins of equal ratios. Local.

    Args:
        title: title of the chart.
        values: the values; those that are not positive are left out.
        unit: unit of the values.
        axis: label of the axis.

    Returns:
        None without any.
    """
    sample = np.sort(np.array([value for value in values if drawable(value, log=True)], dtype=np.float64))
    if not sample.size:
        return None
    scale = scales.covering(sample.tolist(), LEFT, RIGHT, log=True)
    edges = np.geomspace(scale.low, scale.high, min(BINS, 1 + int(np.sqrt(sample.size))) + 1)
    counts, _ = np.histogram(sample, edges)
    up = scales.from_zero(counts.tolist(), HEIGHT, 6.0)
    parts = frame.ticks_below(scale, scale.ticks(), lambda value: quantity(value, unit), 6.0, HEIGHT)
    for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True):
        hint = f"{count} from {quantity(low, unit)} to {quantity(high, unit)}"
        parts.append(
            tag(
                "rect", tag("title", hint), x=scale(low), y=up(count), width=max(scale(high) - scale(low) - 1, 0.5),
                height=HEIGHT - up(count), class_="part f0",
            )
        )  # fmt: skip
    label = f"{axis}{frame.LOG}; {sample.size} values"
    parts.append(frame.text((LEFT + RIGHT) / 2, HEIGHT + 28, label, "middle", "label"))
    return frame.drawing(title, HEIGHT + 34, parts)


def density(sample: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of a sample at some places, by Gaussian kernels, with its largest value 1. Local.

    The width of the kernels is by Silverman's rule.

    Args:
        sample: at least two values, sorted.
        places: places of the density.
    """
    quarters = np.percentile(sample, [25.0, 75.0])
    widths = [width for width in (float(sample.std()), float(quarters[1] - quarters[0]) / 1.349) if width > 0]
    # A sample that hardly scatters is a peak that is as wide as the drawing resolves.
    narrow = float(places[1] - places[0])
    width = max(0.9 * min(widths, default=0.0) * sample.size**-0.2, narrow)
    found = np.exp(-0.5 * ((places[:, None] - sample[None, :]) / width) ** 2).sum(axis=1)
    largest = float(found.max())
    return np.asarray(found / largest) if largest > 0 else found


def _spread(spread: Spread, scale: Scale, unit: str, top: float) -> Markup:
    middle, style = top + 27, f"s{spread.style % frame.STYLES}"
    value = ("" if len(spread.values) == 1 else "median ") + quantity(spread.median, unit)
    parts = [
        tag(
            "title", f"{spread.label}: {value}, {quantity(spread.outer[0], unit)} to {quantity(spread.outer[1], unit)}"
        ),
        frame.text(LEFT, top + 12, spread.label, room=RIGHT - 8 * len(value)),
        frame.text(RIGHT, top + 12, value, "end", "value"),
    ]
    values = [value for value in spread.values if drawable(value, log=True)]
    if len(values) >= FEW:
        parts.append(tag("path", d=_outline(values, scale, middle), class_=f"violin {style}"))
    else:
        parts += [tag("circle", cx=scale(value), cy=middle, r=2.5, class_=f"mark hollow {style}") for value in values]
    if spread.outer[0] < spread.outer[1]:
        parts.append(frame.line(scale(spread.outer[0]), middle, scale(spread.outer[1]), middle, f"thin {style}"))
    if spread.inner[0] < spread.inner[1]:
        parts.append(frame.line(scale(spread.inner[0]), middle, scale(spread.inner[1]), middle, f"thick {style}"))
    parts.append(frame.line(scale(spread.median), middle - HALF, scale(spread.median), middle + HALF, "median"))
    return tag("g", *parts)


def _outline(values: list[float], scale: Scale, middle: float) -> str:
    sample = np.log(np.sort(np.array(values)))
    margin = 0.03 * (np.log(scale.high) - np.log(scale.low))
    places = np.linspace(sample[0] - margin, sample[-1] + margin, GRID)
    across = [scale(float(value)) for value in np.exp(places)]
    up = (HALF * density(sample, places)).tolist()
    above = [f"{x:.2f} {middle - y:.2f}" for x, y in zip(across, up, strict=True)]
    below = [f"{x:.2f} {middle + y:.2f}" for x, y in zip(across, up, strict=True)]
    return f"M{'L'.join(above + below[::-1])}Z"
