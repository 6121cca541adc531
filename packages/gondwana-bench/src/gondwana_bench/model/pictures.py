"""Predictions as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gondwana_apps.pictures import figure, save

PARTS = ("compute", "communicate", "wait")


def draw(rows: Sequence[dict[str, Any]], title: str, file: str) -> None:
    """Draw the milliseconds of a step with their parts, and the efficiency, over the ranks. Local.

    Args:
        rows: of `predict.table`.
        title: of the picture.
        file: the picture.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    drawn = figure(9.0, 4.0)
    drawn.suptitle(title)
    left, right = drawn.subplots(1, 2)
    ranks = [row["ranks"] for row in rows]
    left.loglog(ranks, [row["milliseconds"] for row in rows], "ko-", markersize=4, label="a step")
    for part in PARTS:
        left.loglog(ranks, [row[part] or float("nan") for row in rows], ".--", linewidth=1, label=part)
    left.set(xlabel="ranks", ylabel="milliseconds")
    left.legend()
    right.semilogx(ranks, [row["efficiency"] for row in rows], "ko-", markersize=4)
    right.set(xlabel="ranks", ylabel="efficiency", ylim=(0, max(1.05, *(1.05 * row["efficiency"] for row in rows))))
    for axes in (left, right):
        axes.grid(visible=True, alpha=0.3)
    save(drawn, file, f"--plot {file}")
