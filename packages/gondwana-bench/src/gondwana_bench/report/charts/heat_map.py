"""Matrices of ranks by ranks as squares that are darker where more was sent."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gondwana_bench.report.charts import frame
from gondwana_bench.report.markup import Markup, tag
from gondwana_bench.report.quantities import quantity
from gondwana_bench.report.scales import drawable

LEFT, TOP, SIDE = 44.0, 34.0, 310.0
MOST = 48
"""Squares a side; of more ranks, neighbours share a square."""

FAINTEST = 0.08
"""Opacity of the smallest value above 0."""

NAMED = 6
"""Squares a side up to which each has its figure in it."""


def matrix_chart(title: str, matrix: Sequence[Sequence[float]], unit: str) -> Markup | None:
    """Return a square matrix as a heat map: rows send, columns receive. Local.

    Args:
        title: title of the chart.
        matrix: values of ranks by ranks.
        unit: unit of the values.

    Returns:
        None without ranks.
    """
    if not matrix:
        return None
    together = math.ceil(len(matrix) / MOST)
    sums = _grouped(matrix, together)
    number, largest = len(sums), max(max(row) for row in sums)
    side = SIDE / number
    names = [_name(first * together, together, len(matrix)) for first in range(number)]
    every = math.ceil(number / 8)
    parts = [
        frame.text(LEFT + SIDE / 2, 12, "to rank", "middle", "label"),
        frame.text(0, TOP - 6, "from", "start", "label"),
    ]
    for row in range(number):
        if row % every == 0:
            parts.append(frame.text(LEFT + (row + 0.5) * side, TOP - 6, names[row], "middle", "tick"))
            parts.append(frame.text(LEFT - 4, TOP + (row + 0.5) * side + 4, names[row], "end", "tick"))
        for column in range(number):
            parts.append(_square(sums[row][column], largest, (row, column), side, names, unit))
    note = f"strongest: {quantity(largest, unit)}" if largest else "nothing was sent"
    parts.append(frame.text(LEFT, TOP + SIDE + 16, note, "start", "label"))
    return frame.drawing(title, TOP + SIDE + 22, parts)


def _square(
    value: float, largest: float, place: tuple[int, int], side: float, names: Sequence[str], unit: str
) -> Markup:
    row, column = place
    x, y = LEFT + column * side, TOP + row * side
    # The square root keeps small parts visible beside large ones.
    strength = max(FAINTEST, math.sqrt(value / largest)) if drawable(value, log=True) else 0.0
    hint = f"from rank {names[row]} to rank {names[column]}: {quantity(value, unit)}"
    parts = [
        tag("title", hint),
        tag("rect", x=x, y=y, width=side, height=side, class_="cell"),
        tag("rect", x=x, y=y, width=side, height=side, class_="sent", fill_opacity=strength),
    ]
    if len(names) <= NAMED and value:
        class_ = "on-dark" if strength > 0.55 else "on-light"
        parts.append(frame.text(x + side / 2, y + side / 2 + 4, quantity(value, unit), "middle", class_, room=side))
    return tag("g", *parts)


def _grouped(matrix: Sequence[Sequence[float]], together: int) -> list[list[float]]:
    size = range(0, len(matrix), together)
    return [
        [sum(sum(row[left : left + together]) for row in matrix[top : top + together]) for left in size] for top in size
    ]


def _name(first: int, together: int, ranks: int) -> str:
    last = min(first + together, ranks) - 1
    return str(first) if first == last else f"{first}-{last}"
