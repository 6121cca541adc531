"""What is given back later: memory that a device, or other ranks, may still be at work on."""

from __future__ import annotations

import time
from collections.abc import Callable

from gondwana.runtime import progress

_PAUSE = 1e-3
"""Time between two looks from progress [s]: each asks the driver or the system."""

_waiting: list[Callable[[], bool]] = []
_next_look = 0.0


def later(give_back: Callable[[], bool]) -> None:
    """Have something given back when that is possible. Local; may be called while Python collects garbage.

    Args:
        give_back: gives it back if nobody uses it any more; tells whether it has.
    """
    _waiting.append(give_back)


def reclaim() -> bool:
    """Give back what nobody uses any more. Local; does not wait.

    Returns:
        Whether there was anything.
    """
    looked_at = list(_waiting)
    del _waiting[: len(looked_at)]
    left = [give_back for give_back in looked_at if not give_back()]
    _waiting.extend(left)
    return len(left) < len(looked_at)


def waiting() -> int:
    """Return how much waits to be given back. Local."""
    return len(_waiting)


def _look() -> bool:
    global _next_look
    if not _waiting or time.monotonic() < _next_look:
        return False
    _next_look = time.monotonic() + _PAUSE
    return reclaim()


progress.register(_look)
