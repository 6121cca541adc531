"""Fallbacks: what a driver refused and is done in another way. Counted on this rank, reported once in the job."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

from gondwana.teams import world

EXPORT, ATTACH, PIN = "export", "attach", "pin"
"""Device memory could not be offered to the ranks of the node, not be mapped, host memory could not be pinned."""

_counts = Counter({EXPORT: 0, ATTACH: 0, PIN: 0})
_reported: set[str] = set()
_senders: list[Callable[[str, str], bool]] = []


def counters() -> dict[str, int]:
    """Return how often what was refused on this rank. Local."""
    return dict(_counts)


def send_by(send: Callable[[str, str], bool]) -> None:
    """Have `send(what, line)` tell rank 0 of a fallback; it returns whether it could. Local."""
    _senders.append(send)


def record(what: str, text: str) -> None:
    """Count a refusal; the first one of its kind in the job is reported on rank 0. Local; no progress.

    Args:
        what: EXPORT, ATTACH or PIN.
        text: what was refused, why, and what happens instead.
    """
    _counts[what] += 1
    if _counts[what] == 1:
        line = f"gondwana: rank {world.rank}: {text}"
        if world.rank == 0 or not any(send(what, line) for send in _senders):
            report(what, line)


def report(what: str, line: str) -> None:
    """Print a line about a kind of fallback, unless this rank has printed one. Local."""
    if what not in _reported:
        _reported.add(what)
        print(line, file=sys.stderr, flush=True)
