"""Charts as inline SVG: drawn here, coloured by the style sheet of the page, readable without colour."""

from gondwana_bench.report.charts.bars import Bar, Stack, ratio_chart, stack_chart
from gondwana_bench.report.charts.curves import Axis, Curve, Dot, curve_chart
from gondwana_bench.report.charts.heat_map import matrix_chart
from gondwana_bench.report.charts.spreads import FEW, Spread, histogram, spread_chart

__all__ = [
    "FEW",
    "Axis",
    "Bar",
    "Curve",
    "Dot",
    "Spread",
    "Stack",
    "curve_chart",
    "histogram",
    "matrix_chart",
    "ratio_chart",
    "spread_chart",
    "stack_chart",
]
