"""The clock around the timed region."""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack
from typing import Self

import gondwana as gw
from gondwana.runtime.collector import paused


class Clock(ExitStack):
    """Measures a `with` block, which all ranks enter together: after a barrier, without Python's collector in it.

    Attributes:
        seconds: time that this rank was inside.
    """

    def __init__(self, team: gw.Team) -> None:
        super().__init__()
        self.seconds = 0.0
        self._team = team

    def __enter__(self) -> Self:
        """Start. Collective."""
        gc.collect()
        self.enter_context(paused())
        self._team.barrier()
        self.callback(self._stop, time.perf_counter())
        return self

    def _stop(self, start: float) -> None:
        self.seconds = time.perf_counter() - start
