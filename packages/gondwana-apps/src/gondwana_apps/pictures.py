"""Pictures of annealing, as PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

from gondwana.errors import UsageError
from gondwana.results import write_bytes

STYLES = (
    ("#0072B2", "solid", "o"),
    ("#D55E00", (0, (6, 2)), "s"),
    ("#009E73", (0, (2, 2)), "^"),
    ("#CC79A7", (0, (6, 2, 1, 2)), "D"),
    ("#E69F00", (0, (10, 3)), "v"),
    ("#56B4E9", (0, (4, 1, 1, 1, 1, 1)), "P"),
    ("#000000", (0, (1, 1)), "X"),
)
"""Colours, dashes and markers of series: the palette of Okabe and Ito without its yellow."""

Step = tuple[float, int, float | None]
"""A temperature, the clusters there, and the lowest eigenvalue by the largest one if known."""


def figure(width: float, height: float) -> Any:
    """Return an empty figure of matplotlib, of this size in inches. Local.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(f"pictures need matplotlib ({error}): pip install 'gondwana[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def style(number: int) -> dict[str, Any]:
    """Return colour, dashes and marker of a series; they differ for colour-blind readers, and without colour. Local.

    Example:
        >>> style(0)
        {'color': '#0072B2', 'linestyle': 'solid', 'marker': 'o'}
    """
    colour, dashes, marker = STYLES[number % len(STYLES)]
    return {"color": colour, "linestyle": dashes, "marker": marker}


def plain(axis: Any) -> None:
    """Write the ticks of a logarithmic axis, which has its limits, as plain numbers, large ones with k and M. Local."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    several = LogLocator(subs=(1.0,) if decades > 3.0 else (1.0, 2.0, 5.0), numticks=12)
    axis.set_major_locator(several if decades > 1.0 else MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axis.set_minor_formatter(NullFormatter())


def legend(drawn: Any, handles: Sequence[Any]) -> None:
    """Name the series of a figure below it, where nothing is drawn. Local."""
    columns = min(len(handles), 4)
    drawn.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize="small", handlelength=4.0)


def in_unit(seconds: float) -> tuple[float, str]:
    """Return the factor from seconds to the unit in which a time has the fewest digits, and its name. Local.

    Example:
        >>> in_unit(0.002)
        (1000.0, 'ms')
    """
    return next((pair for pair in ((1.0, "s"), (1e3, "ms")) if seconds * pair[0] >= 1.0), (1e6, "us"))


def _number(value: float) -> str:
    scale, prefix = (1e6, "M") if value >= 1e6 else (1e3, "k") if value >= 1e4 else (1.0, "")
    return f"{value / scale:g}{prefix}"


def save(drawn: Any, file: str, name: str | None = None) -> None:
    """Write a figure, complete or not at all. Local.

    Args:
        drawn: the figure.
        file: the picture.
        name: name of the picture in messages; None: its file name.

    Raises:
        ResultError: the file cannot be written.
    """
    picture = io.BytesIO()
    drawn.savefig(picture, dpi=150, format="png")
    write_bytes(file, picture.getvalue(), name)


def draw_annealing(trace: Sequence[Step], file: str) -> None:
    """Draw eigenvalues and clusters over temperature. Local.

    Args:
        trace: tests for splits, in their order.
        file: the picture.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    drawn = figure(7.0, 5.0)
    upper, lower = drawn.subplots(2, 1, sharex=True)
    known = [(temperature, eigenvalue) for temperature, _, eigenvalue in trace if eigenvalue is not None]
    if known:
        upper.plot(*zip(*known, strict=True), **style(0), markersize=3, linewidth=1)
    upper.axhline(0.0, color="black", linewidth=0.8)
    upper.set_ylabel("lowest eigenvalue / largest")
    lower.step([step[0] for step in trace], [step[1] for step in trace], where="post", color=style(0)["color"])
    lower.set_ylabel("clusters")
    lower.set_xlabel("temperature")
    lower.set_xscale("log")
    plain(lower.xaxis)
    lower.invert_xaxis()
    save(drawn, file, f"--plot {file}")
