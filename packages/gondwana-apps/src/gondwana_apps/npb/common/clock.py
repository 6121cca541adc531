"""The clock around the timed region."""

from __future__ import annotations

import gc
import time
from types import TracebackType

import gondwana as gw


class Clock:
    """Measures a `with` block, which all ranks enter together: after a barrier, without Python's collector in it.

    Attributes:
        seconds: time that this rank was inside.
    """

    def __init__(self, team: gw.Team) -> None:
        self.seconds = 0.0
        self._team = team

    def __enter__(self) -> Clock:
        """Start. Collective."""
        gc.collect()
        self._collected = gc.isenabled()
        gc.disable()
        self._team.barrier()
        self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._start
        if self._collected:
            gc.enable()
