"""Layouts in notebooks: a drawing of the blocks and the ranks that own them."""

from __future__ import annotations

import math

from gondwana import notebook
from gondwana.arrays.layout import Layout

_LARGEST, _SMALLEST = 260.0, 40.0
"""Longest side of a drawing, and least height and width of its blocks' area [px]."""
_MOST_BLOCKS = 48
"""The most blocks along an axis that are drawn."""
_MARGIN = 14.0


def shown(layout: Layout) -> str:
    """Return the HTML of a layout: its facts and its blocks. Local."""
    facts = {
        "domain": repr(layout.domain),
        "ranks": math.prod(layout.grid),
        "grid": layout.grid,
        "ghosts": layout.ghost,
        "periodic": layout.periodic,
        "memory order": layout.order,
        "division": layout.division if layout.cuts is None else f"cuts {layout.cuts}",
    }
    return notebook.shown("Layout", facts, drawn(layout))


def drawn(layout: Layout, rank: int | None = None) -> str:
    """Return the blocks along the two axes that are cut most, as SVG; "" if they are too many. Local.

    Args:
        layout: the division.
        rank: rank whose block is shaded, with its ghosts around it; None: no one's.
    """
    axes = _axes(layout)
    if max(layout.grid[axis] for axis in axes) > _MOST_BLOCKS:
        return ""
    down, right = axes if len(axes) == 2 else (None, axes[0])
    width, height = _sides(layout, down, right)
    across = width / layout.domain.shape[right]
    along = height if down is None else height / layout.domain.shape[down]
    hidden = math.prod(count for axis, count in enumerate(layout.grid) if axis not in axes)
    own = None if rank is None else layout.place(rank)
    content = ""
    y = _MARGIN
    for i, rows in enumerate([1] if down is None else layout.widths(down)):
        x = _MARGIN
        for j, columns in enumerate(layout.widths(right)):
            place = [0] * layout.domain.ndim
            if down is not None:
                place[down] = i
            place[right] = j
            is_own = own is not None and own[right] == j and (down is None or own[down] == i)
            first = rank if is_own and rank is not None else layout.rank(tuple(place))
            text = f"{first}" if hidden == 1 else f"{first} +{hidden - 1}"
            box = x, y, columns * across, rows * along
            content += notebook.cell(*box, text, own=is_own)
            if is_own and columns and rows:
                content += _ghosts(box, layout.ghost[right] * across, 0 if down is None else layout.ghost[down] * along)
            x += columns * across
        y += rows * along
    about = f"blocks along axis {right}" if down is None else f"axis {down} down, axis {right} to the right"
    if hidden > 1:
        about += f"; {hidden} blocks behind each other along the other axes"
    return (
        f'<figure style="margin:0">{notebook.svg(width + 2 * _MARGIN, height + 2 * _MARGIN, content, about)}'
        f'<figcaption style="font-size:smaller">ranks; {about}</figcaption></figure>'
    )


def _axes(layout: Layout) -> tuple[int, ...]:
    """The axes to draw: the two with most blocks, of equal ones the first, in their order."""
    return tuple(sorted(sorted(range(layout.domain.ndim), key=lambda axis: -layout.grid[axis])[:2]))


def _sides(layout: Layout, down: int | None, right: int) -> tuple[float, float]:
    """Width and height of the drawing, in the proportion of the domain where that leaves both readable."""
    columns = layout.domain.shape[right]
    if down is None:
        return _LARGEST, _SMALLEST
    rows = layout.domain.shape[down]
    scale = _LARGEST / max(rows, columns)
    return max(_SMALLEST, columns * scale), max(_SMALLEST, rows * scale)


def _ghosts(box: tuple[float, float, float, float], across: float, along: float) -> str:
    """The border of the ghosts around a block, at least as far from it as can be seen."""
    if not (across or along):
        return ""
    dx, dy = (max(3.0, min(width, _MARGIN - 2)) if width else 0.0 for width in (across, along))
    x, y, width, height = box
    return (
        f'<rect x="{x - dx:.1f}" y="{y - dy:.1f}" width="{width + 2 * dx:.1f}" height="{height + 2 * dy:.1f}" '
        'fill="none" stroke-dasharray="3 3"/>'
    )
