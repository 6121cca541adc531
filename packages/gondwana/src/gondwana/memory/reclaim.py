"""Deferred freeing of memory that a device, or other ranks, may still use."""

from __future__ import annotations

import time
from collections.abc import Callable

from gondwana.runtime import progress

_PAUSE = 1e-3
"""Time between two polls from progress [s]: each queries the driver or the system."""

_waiting: list[Callable[[], bool]] = []
_next_poll = 0.0


def later(free: Callable[[], bool]) -> None:
    """Register a function that frees something when that is possible. Local; may be called during garbage collection.

    Args:
        free: Function that frees the thing if it is no longer in use, and returns whether it did.
    """
    _waiting.append(free)


def reclaim() -> bool:
    """Free things that are no longer in use. Local; does not wait.

    Returns:
        Whether anything was freed.
    """
    polled = list(_waiting)
    count = len(polled)
    del _waiting[:count]
    left: list[Callable[[], bool]] = []
    try:
        while polled:
            if not polled[-1]():
                left.append(polled[-1])
            polled.pop()
    finally:
        _waiting.extend(polled + left)  # an error leaves the thing that it was about to free, and those after it
    return len(left) < count


def waiting() -> int:
    """Return the number of things that wait to be freed. Local."""
    return len(_waiting)


def _poll() -> bool:
    global _next_poll
    if not _waiting or time.monotonic() < _next_poll:
        return False
    _next_poll = time.monotonic() + _PAUSE
    return reclaim()


progress.register(_poll)
