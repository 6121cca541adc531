"""Charts as inline SVG: drawn here, coloured by the style sheet of the page, readable without colour."""

from gondwana.report.charts.bars import Bar, Stack, ratio_bars, stacked_bars
from gondwana.report.charts.curves import Axis, Curve, Dot, curves
from gondwana.report.charts.heat_map import heat_map
from gondwana.report.charts.spreads import FEW, Spread, histogram, spreads

__all__ = [
    "FEW",
    "Axis",
    "Bar",
    "Curve",
    "Dot",
    "Spread",
    "Stack",
    "curves",
    "heat_map",
    "histogram",
    "ratio_bars",
    "spreads",
    "stacked_bars",
]
