"""Pictures: series differ without colour, and ticks are plain numbers."""

from __future__ import annotations

import pytest

from gondwana_apps import pictures

pytest.importorskip("matplotlib")


def test_series_differ_without_colour() -> None:
    for part in zip(*pictures.STYLES, strict=True):
        assert len(set(map(str, part))) == len(pictures.STYLES)


@pytest.mark.parametrize(
    ("ends", "ticks"),
    [
        ((1.0, 1e6), ["1", "10", "100", "1000", "10k", "100k", "1M"]),
        ((0.1, 20.0), ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20"]),
        ((0.4, 2.0), ["0.4", "0.8", "1.2", "1.6", "2"]),
    ],
)
def test_ticks_of_logarithmic_axes_are_plain(ends: tuple[float, float], ticks: list[str]) -> None:
    drawn = pictures.figure(4.0, 3.0)
    axes = drawn.add_subplot()
    axes.set(xscale="log", xlim=ends)
    pictures.plain(axes.xaxis)
    drawn.draw_without_rendering()
    inside = [
        label.get_text()
        for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if ends[0] * (1 - 1e-9) <= place <= ends[1] * (1 + 1e-9)
    ]
    assert inside == ticks
