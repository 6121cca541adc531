"""The units of the figures in results, by the names of their keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

OF_THE_ROW = "unit of the row"
"""Unit of a figure whose unit differs from row to row: the row has it as `unit`."""

_RULES = (
    (r"(.*_)?(seconds|sync_seconds)(_.*)?|t_eff_seconds|open", "s"),
    (r"(.*_)?(milliseconds|ms)(_per_step)?", "ms"),
    (r"(.*_)?(microseconds|us)", "us"),
    (r"(.*_)?ns_per_cell", "ns"),
    (r"(.*_)?(gb_per_s|gb_s|bandwidth_gb_s)", "GB/s"),
    (r"(.*_)?mb_per_s", "MB/s"),
    (r"(.*_)?gcells_per_s", "Gcells/s"),
    (r"cells_per_s", "cells/s"),
    (r"(ours|rival)_per_s", "1/s"),
    (r"(.*_)?(rating|gflops)(_.*)?|gflops_by_kernel", "Gflop/s"),
    (r"(.*_)?mops", "Mop/s"),
    (r"(.*_)?(bytes|nbytes|peak_memory|peak_rss)", "B"),
    (r"mib", "MiB"),
    (r"megabytes", "MB"),
)

_OF = {
    "clustering": {"median": "s", "samples": "s"},
    "collectives": {"size": "B"},
    "exchange": {"size": "cells"},
    "gpu": {"size": "cells"},
    "heat": {
        "size": "cells", "edge": "cells",
        **dict.fromkeys(("median", "mean", "minimum", "p1", "p99", "sd", "iqr", "slowest", "iqr_slowest"), "us"),
        **dict.fromkeys(("ours", "theirs"), "us"),
    },
    "hpcg": {"size": "points", "samples": "Gflop/s", "official_samples": "Gflop/s"},
    "io": dict.fromkeys(("write", "read", "sync"), "MiB/s"),
    "kinds": {"size": "B"},
    "model": {**dict.fromkeys(("compute", "communicate", "wait", "measured", "predicted"), "ms"), "error": "%"},
    "osu": {"size": "B"},
    "ping-pong": {"size": "B"},
    "npb": dict.fromkeys(
        ("median", "official_median", "samples", "official_samples", "communication", "official_communication"), "s"
    ),
    "pools": {"ours": OF_THE_ROW, "theirs": OF_THE_ROW, "goal": OF_THE_ROW},
    "ring": {"size": "B"},
    "rma": {"size": "B", "ours": OF_THE_ROW, "theirs": OF_THE_ROW},
    "scaling": {"min": "s", "median": "s", "max": "s", "samples": "s"},
    "stencil": {"size": "cells"},
}  # fmt: skip
"""Units of keys with a special meaning, by the name of the application or benchmark."""


def unit_of(name: str, key: str) -> str:
    """Return the unit of a figure, "1" for counts, ratios and anything without a unit. Local.

    Args:
        name: name of the application or benchmark.
        key: key of the figure in a row, or at the top of an application's result.

    Example:
        >>> unit_of("stencil", "seconds"), unit_of("stencil", "ns_per_cell"), unit_of("stencil", "ratio")
        ('s', 'ns', '1')
    """
    special = _OF.get(name, {}).get(key)
    if special is not None:
        return special
    return next((unit_ for pattern, unit_ in _RULES if re.fullmatch(pattern, key)), "1")


def units_of(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the unit of every key of rows that has figures, sorted by key. Local.

    Args:
        name: name of the application or benchmark.
        rows: the rows; a figure may lie in a list or a mapping, such as a sample of timings.
    """
    return {
        key: unit_of(name, key) for key in sorted({key for row in rows for key, value in row.items() if figures(value)})
    }


def figures(value: Any) -> bool:
    """Return whether a value is a number, or contains numbers. Local.

    Example:
        >>> figures({"median": 1.0}), figures(True), figures("one")
        (True, False, False)
    """
    if isinstance(value, dict):
        return any(map(figures, value.values()))
    if isinstance(value, list | tuple):
        return any(map(figures, value))
    return isinstance(value, int | float) and not isinstance(value, bool)
