"""The picture of scaling: seconds a step with the spread over ranks, and efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gondwana_apps.pictures import figure, save
from gondwana_bench.rows import Row


def draw(rows: Sequence[Row], file: str) -> None:
    """Draw a column for each kind of scaling: above seconds a step, below the efficiency. Local.

    Bars go from the fastest to the slowest rank; hollow marks have more ranks than cores.

    Args:
        rows: of all applications.
        file: the picture, PNG.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    apps = list(dict.fromkeys(row["app"] for row in rows))
    drawn = figure(5.0 * len(kinds), 7.0)
    for (seconds, efficiency), kind in zip(drawn.subplots(2, len(kinds), squeeze=False).T, kinds, strict=True):
        for number, app in enumerate(apps):
            own = [row for row in rows if (row["app"], row["kind"]) == (app, kind)]
            if own:
                _series(seconds, own, "median", ("min", "max"), f"C{number}", app)
                _series(efficiency, own, "efficiency", ("efficiency_low", "efficiency_high"), f"C{number}", app)
        ranks = sorted({row["ranks"] for row in rows if row["kind"] == kind})
        for axes in (seconds, efficiency):
            axes.set_xscale("log", base=2)
            axes.set_xticks(ranks, map(str, ranks))
            axes.set_xlabel(f"ranks (hollow: more than {rows[0]['cores']} cores)")
        seconds.set_title(f"{kind} scaling")
        seconds.set_yscale("log")
        seconds.set_ylabel("s a step; bars: fastest, slowest rank")
        efficiency.axhline(1.0, color="black", linewidth=0.8)
        efficiency.set_ylim(bottom=0.0)
        efficiency.legend(fontsize="small", loc="lower left")
        efficiency.set_ylabel("efficiency (95 %)")
    save(drawn, file, f"--plot {file}")


def _series(axes: Any, rows: Sequence[Row], key: str, ends: tuple[str, str], color: str, name: str) -> None:
    ranks = [row["ranks"] for row in rows]
    axes.plot(ranks, [row[key] for row in rows], color=color, linewidth=1, label=name)
    for row in rows:
        face = "white" if row["beyond_cores"] else color
        low, high = (max(0.0, sign * (row[end] - row[key])) for sign, end in zip((-1, 1), ends, strict=True))
        axes.errorbar(
            row["ranks"], row[key], [[low], [high]], fmt="o", color=color, markerfacecolor=face, markersize=5, capsize=3
        )
