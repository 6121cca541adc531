"""Fallbacks: what a driver refused and is done in another way. Counted and logged on the rank that meets them."""

from __future__ import annotations

import sys
from collections import Counter

from gondwana.teams import world

EXPORT, ATTACH, PIN = "export", "attach", "pin"
"""Device memory could not be offered to the ranks of the node, not be mapped, host memory could not be pinned."""

_counts = Counter({EXPORT: 0, ATTACH: 0, PIN: 0})


def counters() -> dict[str, int]:
    """Return how often what was refused on this rank. Local."""
    return dict(_counts)


def record(what: str, text: str) -> None:
    """Count a refusal; the first one of its kind on this rank is logged to standard error. Local; no progress.

    Args:
        what: EXPORT, ATTACH or PIN.
        text: what was refused, why, and what happens instead.
    """
    _counts[what] += 1
    if _counts[what] == 1:
        print(f"gondwana: rank {world.rank}: {text}", file=sys.stderr, flush=True)
