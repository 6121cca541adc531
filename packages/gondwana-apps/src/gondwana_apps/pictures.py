"""Pictures of annealing, as PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from gondwana.errors import UsageError
from gondwana.results import write_bytes

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
        upper.plot(*zip(*known, strict=True), "o-", markersize=3, linewidth=1)
    upper.axhline(0.0, color="black", linewidth=0.8)
    upper.set_ylabel("lowest eigenvalue / largest")
    lower.step([step[0] for step in trace], [step[1] for step in trace], where="post")
    lower.set_ylabel("clusters")
    lower.set_xlabel("temperature")
    lower.set_xscale("log")
    lower.invert_xaxis()
    save(drawn, file, f"--plot {file}")
