"""What a driver refused and is done in another way: counted on this rank, and said once in the job."""

from __future__ import annotations

import sys
from collections import Counter

from gondwana.memory.rpc import try_rpc_ff
from gondwana.world import world

EXPORT, ATTACH, PIN = "export", "attach", "pin"
"""Device memory could not be offered to the ranks of the node, not be mapped, host memory could not be pinned."""

_counts = Counter({EXPORT: 0, ATTACH: 0, PIN: 0})
_said: set[str] = set()


def counters() -> dict[str, int]:
    """Return how often what was refused on this rank. Local."""
    return dict(_counts)


def note(what: str, text: str) -> None:
    """Count a refusal; the first one of its kind in the job is said on rank 0. Local; no progress.

    Args:
        what: EXPORT, ATTACH or PIN.
        text: what was refused, why, and what happens instead.
    """
    _counts[what] += 1
    if _counts[what] == 1:
        line = f"gondwana: rank {world.rank}: {text}"
        if world.rank == 0 or not try_rpc_ff(0, _say, what, line):
            _say(what, line)


def _say(what: str, line: str) -> None:
    if what not in _said:
        _said.add(what)
        print(line, file=sys.stderr, flush=True)
