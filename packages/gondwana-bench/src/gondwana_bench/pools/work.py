"""The tasks of `gondwana bench pools`. Imports little, since every worker imports it."""

from __future__ import annotations

import os
import time

HOLD = 0.01
"""Seconds that a worker is kept busy so that the others get a task, too."""


def null() -> None:
    """Do nothing."""


def same(x: int) -> int:
    """Return the argument."""
    return x


def millisecond(x: int) -> int:
    """Compute for a millisecond; return the argument."""
    end = time.perf_counter() + 1e-3
    while time.perf_counter() < end:
        pass
    return x


def hold(x: int) -> int:
    """Sleep a moment; return the number of this process."""
    time.sleep(HOLD)
    return os.getpid()
