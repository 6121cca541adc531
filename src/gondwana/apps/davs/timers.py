"""Seconds spent in the parts of a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

PARTS = ("compute", "allreduce", "send_receive", "splitting")


class Timers:
    """Wall-clock seconds by part, of this rank.

    Example:
        >>> timers = Timers()
        >>> with timers("compute"):
        ...     total = sum(range(1000))
        >>> timers.seconds["compute"] > 0.0
        True
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    @contextlib.contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Add the time of a block to a part."""
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start
