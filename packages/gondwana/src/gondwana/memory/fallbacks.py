"""Fallbacks: substitutes for operations that a driver refused. Counted on each rank, logged once per job."""

from __future__ import annotations

import sys
from collections import Counter

from gondwana.runtime import later
from gondwana.teams import world

EXPORT, ATTACH, PIN = "export", "attach", "pin"
"""Kinds: device memory not exported to the ranks of the node, not attached; host memory not pinned."""

_counts = Counter({EXPORT: 0, ATTACH: 0, PIN: 0})
_reported: set[str] = set()
_CALL = "gondwana.calls.remote_calls:try_rpc_ff"


def counters() -> dict[str, int]:
    """Return the number of fallbacks of each kind on this rank. Local."""
    return dict(_counts)


def record(what: str, text: str) -> None:
    """Count a fallback; rank 0 logs the first one of its kind in the job. Local; no progress.

    Args:
        what: EXPORT, ATTACH or PIN.
        text: The refused operation, the reason, and its substitute.
    """
    _counts[what] += 1
    if _counts[what] == 1:
        line = f"gondwana: rank {world.rank}: {text}"
        if world.rank == 0 or not later.find(_CALL)(0, report, what, line):
            report(what, line)


def report(what: str, line: str) -> None:
    """Log a line about a kind of fallback, unless this rank has logged one of it. Local."""
    if what not in _reported:
        _reported.add(what)
        print(line, file=sys.stderr, flush=True)
