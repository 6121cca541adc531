"""Charts: where values are drawn, and what has no place on an axis."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from importlib import resources

import numpy as np
import pytest

from gondwana_bench.report import quantities, scales
from gondwana_bench.report.charts import (
    Axis,
    Bar,
    Curve,
    Dot,
    Spread,
    Stack,
    curve_chart,
    histogram,
    matrix_chart,
    ratio_chart,
    spread_chart,
    stack_chart,
)
from gondwana_bench.report.charts.frame import FILLINGS, STYLES, WIDTH
from gondwana_bench.report.charts.spreads import density
from gondwana_bench.report.markup import Markup, escape, tag

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>alert(1)</script>&\"'\x00\u202e\ud800"


def parsed(chart: Markup | None) -> ET.Element:
    assert chart is not None
    chart.encode()
    return ET.fromstring(chart)


def texts(root: ET.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def places(curve: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (point.split(",") for point in curve.attrib["points"].split())]


def test_a_curve_on_logarithmic_axes_is_straight_for_a_power() -> None:
    dots = tuple(Dot(float(x), 1e-6 * x**2) for x in (1, 10, 100))
    root = parsed(curve_chart("squares", [Curve("ours", dots)], Axis("size", "B"), Axis("time", "s")))
    [line] = root.iter(f"{SVG}polyline")
    (x0, y0), (x1, y1), (x2, y2) = places(line)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.02)
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.02)
    assert y0 > y1 > y2, "larger is higher"
    assert {"1 B", "10 B", "100 B", "10 µs", "size (log axis)", "time (log axis)", "ours"} <= set(texts(root))


def test_what_has_no_place_on_an_axis_is_left_out() -> None:
    odd = (Dot(0.0, 1.0), Dot(1.0, -1.0), Dot(2.0, math.nan), Dot(3.0, math.inf), Dot(4.0, 10**400))
    axes = Axis("size", "1"), Axis("time", "s")
    assert curve_chart("none", [Curve("ours", odd)], *axes) is None
    assert curve_chart("only a bound", [Curve("bound", (Dot(1.0, 1.0),), None)], *axes) is None
    root = parsed(curve_chart("one", [Curve("ours", (*odd, Dot(5.0, 1.0, -1.0, math.nan)))], *axes))
    assert len(places(next(root.iter(f"{SVG}polyline")))) == 1


def test_series_differ_without_colour() -> None:
    drawn = [Curve(f"series {number}", (Dot(1.0, 1.0), Dot(2.0, 2.0)), number) for number in range(6)]
    drawn.append(Curve("bound", (Dot(1.0, 3.0),), None))
    root = parsed(curve_chart("six", drawn, Axis("size", "1"), Axis("time", "s", line=1.0)))
    marks = [re.sub(r"^M[\d.]+ [\d.]+", "", element.attrib["d"]) for element in root.iter(f"{SVG}path")]
    assert len(set(marks)) == 5, "squares, triangles, ...; the first are circles"
    assert len({element.attrib["class"] for element in root.iter(f"{SVG}polyline")}) == 6
    assert any(element.attrib["class"] == "curve bound" for element in root.iter(f"{SVG}line"))


def test_bars_of_ratios_start_at_one() -> None:
    bars = [Bar("twice", 2.0, 1.9, 2.1, "hint"), Bar("half", 0.5, 0.4, 0.6, "hint"), Bar("nothing", 0.0, 0.0, 0.0, "")]
    root = parsed(ratio_chart("ratios", bars, "times as fast"))
    faster, slower = (
        next(e for e in root.iter(f"{SVG}rect") if e.attrib["class"] == kind) for kind in ("faster", "slower")
    )
    one = float(faster.attrib["x"])
    assert float(slower.attrib["x"]) + float(slower.attrib["width"]) == pytest.approx(one, abs=0.02)
    assert float(faster.attrib["width"]) == pytest.approx(float(slower.attrib["width"]), abs=0.02)
    assert "nothing" not in texts(root)
    assert ratio_chart("none", [bars[2]], "") is None


def test_stacks_fill_the_width_with_their_shares() -> None:
    stacks = [Stack("rank 0", (("compute", 3.0), ("wait", 1.0), ("nothing", 0.0))), Stack("empty", (("wait", 0.0),))]
    root = parsed(stack_chart("seconds", stacks, "s"))
    parts = [e for e in root.iter(f"{SVG}rect") if e.find(f"{SVG}title") is not None]
    widths = [float(part.attrib["width"]) for part in parts]
    assert widths[0] == pytest.approx(3 * widths[1], abs=0.05)
    assert parts[0].attrib["class"] != parts[1].attrib["class"]
    assert {"rank 0 (4 s)", "75.0 %", "25.0 %", "compute", "wait"} <= set(texts(root))
    assert stack_chart("none", stacks[1:], "s") is None


def test_fillings_are_all_in_the_style_sheet() -> None:
    sheet = resources.files("gondwana_bench.report").joinpath("page.css").read_text(encoding="utf-8")
    assert all(f".f{number} {{" in sheet for number in range(FILLINGS))
    assert all(f".s{number} {{" in sheet and f".p{number} {{" in sheet for number in range(STYLES))


def test_violins_boxes_and_single_values() -> None:
    many = tuple(float(value) for value in range(1, 30))
    drawn = [
        Spread("many", 15.0, (8.0, 22.0), (1.0, 29.0), many),
        Spread("few", 2.0, (1.0, 3.0), (1.0, 3.0), (1.0, 2.0, 3.0), 1),
        Spread("box", 5.0, (4.0, 6.0), (1.0, 20.0)),
        Spread("zero", 0.0, (0.0, 0.0), (0.0, 0.0)),
    ]
    root = parsed(spread_chart("spreads", drawn, "s", "time"))
    assert len([e for e in root.iter(f"{SVG}path") if e.attrib["class"].startswith("violin")]) == 1
    assert len(list(root.iter(f"{SVG}circle"))) == 3
    assert "median 5 s" in texts(root)
    assert spread_chart("none", drawn[3:], "s", "time") is None


def test_the_density_of_a_normal_sample_is_a_bell() -> None:
    sample = np.sort(np.random.default_rng(1).normal(0.0, 1.0, 4000))
    at = np.linspace(-2.0, 2.0, 41)
    assert np.allclose(density(sample, at), np.exp(-0.5 * at**2), atol=0.08)


def test_equal_values_have_a_density() -> None:
    at = np.linspace(-1.0, 1.0, 21)
    found = density(np.zeros(9), at)
    assert found.max() == found[10] == 1.0
    assert np.isfinite(found).all()


def test_a_histogram_counts_every_positive_value() -> None:
    values = [*np.geomspace(1e-6, 1e-3, 500).tolist(), 0.0, -1.0, math.nan]
    root = parsed(histogram("steps", values, "s", "seconds"))
    counts = [int(e.find(f"{SVG}title").text.split()[0]) for e in root.iter(f"{SVG}rect")]  # type: ignore[union-attr]
    assert sum(counts) == 500
    assert histogram("none", [0.0], "s", "seconds") is None
    assert histogram("one", [1.0], "s", "seconds") is not None


@pytest.mark.parametrize("ranks", [1, 2, 7, 90])
def test_the_matrix_shows_all_that_was_sent(ranks: int) -> None:
    matrix = [[float(sender) for _ in range(ranks)] for sender in range(ranks)]
    root = parsed(matrix_chart("bytes", matrix, "B"))
    squares = [e for e in root.iter(f"{SVG}rect") if e.attrib["class"] == "sent"]
    side = 45 if ranks == 90 else ranks
    assert len(squares) == side**2
    strengths = [float(square.attrib["fill-opacity"]) for square in squares]
    assert max(strengths) == (1.0 if ranks > 1 else 0.0)
    assert strengths == sorted(strengths)
    assert matrix_chart("none", [], "B") is None


@pytest.mark.parametrize("value", [1e-300, 1e-140, 1.0, 1e140])
def test_scales_hold_extreme_values(value: float) -> None:
    for scale in (scales.over([value], 0.0, 100.0, log=value > 1e-200), scales.from_zero([value], 0.0, 100.0)):
        assert 0.0 <= scale(value) <= 100.0
        assert 0 < len(scale.ticks()) <= 2 * scales.MOST_TICKS


@pytest.mark.parametrize(("low", "high"), [(0.98, 1.03), (1.0, 1e9), (3.0, 7.0), (1e-9, 2e-9)])
@pytest.mark.parametrize("log", [True, False])
def test_ticks_are_few_and_inside(low: float, high: float, log: bool) -> None:
    ticks = scales.Scale(low, high, 0.0, 1.0, log).ticks()
    assert 2 <= len(ticks) <= scales.MOST_TICKS + 1
    assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)
    assert ticks == sorted(ticks)


@pytest.mark.parametrize("ends", [(1.0, 7.6), (0.9, 1.3), (3e-6, 4e-3), (1.0, 1.0), (0.3, 12.0)])
@pytest.mark.parametrize("log", [True, False])
def test_ticks_cover_the_values(ends: tuple[float, float], log: bool) -> None:
    ticks = scales.covering(ends, 0.0, 1.0, log=log).ticks()
    assert ticks[0] <= ends[0] <= ends[1] <= ticks[-1]


def test_texts_are_escaped_everywhere() -> None:
    axis = Axis(HOSTILE, HOSTILE)
    dots = (Dot(1.0, 1.0, 0.5, 2.0), Dot(2.0, 2.0))
    for chart in (
        curve_chart(HOSTILE, [Curve(HOSTILE, dots)], axis, axis),
        ratio_chart(HOSTILE, [Bar(HOSTILE, 1.0, 1.0, 1.0, HOSTILE)], HOSTILE),
        stack_chart(HOSTILE, [Stack(HOSTILE, ((HOSTILE, 1.0),))], HOSTILE),
        spread_chart(HOSTILE, [Spread(HOSTILE, 1.0, (1.0, 1.0), (1.0, 1.0))], HOSTILE, HOSTILE),
        histogram(HOSTILE, [1.0], HOSTILE, HOSTILE),
        matrix_chart(HOSTILE, [[1.0]], HOSTILE),
    ):
        root = parsed(chart)
        assert not list(root.iter(f"{SVG}script"))
        assert root.attrib["aria-label"].startswith("</svg><script>")
        assert not re.search("[\x00\u202e\ud800]", str(chart))


def test_drawings_have_the_width_of_a_phone() -> None:
    root = parsed(ratio_chart("a", [Bar("a very long label " * 20, 3.0, 2.0, 4.0, "hint")], "axis"))
    assert root.attrib["viewBox"].split()[2] == f"{WIDTH:g}"
    cut = next(text for text in texts(root) if text.endswith("…"))
    assert "a very long label" in cut


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.0, "s", "0 s"), (3.2e-7, "s", "320 ns"), (59.996, "s", "60 s"), (1e-15, "s", "1e-15 s"), (8, "B", "8 B"),
        (999.9e-9, "s", "1 µs"), (3 * 2**20, "B", "3 MiB"), (1536, "B", "1.5 KiB"),
        (0.5, "GB/s", "500 MB/s"), (2000, "MB/s", "2 GB/s"), (7.63, "Gflop/s", "7.63 Gflop/s"),
        (128, "cells", "128 cells"), (2, "1", "2"), (-2.5e-6, "s", "-2.5 µs"), (1e300, "s", "beyond 1e+200"),
        (10**400, "1", "beyond 1e+200"), (math.nan, "s", "not a number"), (20000, "points", "20000 points"),
    ],
)  # fmt: skip
def test_quantities(value: float, unit: str, words: str) -> None:
    assert quantities.quantity(value, unit) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        ((2.0, 1.9, 2.1), "ours is 2 times as fast as C (1.9-2.1)"),
        ((0.5, 0.5, 0.5), "ours is 0.5 times as fast as C"),
        ((0.002, 0.0017, 0.0025), "ours is 0.002 times as fast as C (0.0017-0.0025)"),
        ((1.0, 0.99, 1.02), "ours is 1 times as fast as C (0.99-1.02)"),
    ],
)
def test_ratios_in_words(ratio: tuple[float, float, float], words: str) -> None:
    assert quantities.times_as_fast(*ratio, "C") == words


def test_markup() -> None:
    assert tag("a", "x & y", Markup("<b>z</b>"), None, 1.0, href='"') == '<a href="&quot;">x &amp; y<b>z</b>1</a>'
    assert escape("line\nline\ttab") == "line\nline\N{REPLACEMENT CHARACTER}tab"
