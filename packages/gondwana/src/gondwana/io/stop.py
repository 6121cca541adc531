"""Orderly early ends of runs: on a signal, or before the batch system's time limit."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

from gondwana.runtime import interruptions
from gondwana.teams import MAX, Team, world

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)

_TIME_IS_UP = 1000  # no signal has this number


class StopRequest:
    """A request to stop, on which the ranks agree at the end of a step. Local to create.

    As a context manager it handles SIGTERM, SIGINT and SIGUSR2, and restores their handlers at the end. The first
    signal requests an orderly end (write a checkpoint, then stop); a second SIGINT ends the process at once. Signals
    are handled in the main thread only; the time limit works in any.

    Args:
        after_seconds: request a stop after this time [s]; None: no limit.
        team: the ranks that stop together.

    Example:
        >>> with StopRequest(after_seconds=3600.0) as stop:
        ...     for step in range(1, 4):
        ...         reason = stop.agreed()
        ...         if reason:
        ...             break
        >>> step
        3
    """

    def __init__(self, after_seconds: float | None = None, *, team: Team = world) -> None:
        self._team = team
        self._deadline = None if after_seconds is None else time.monotonic() + after_seconds
        self._signal = 0
        self._previous: dict[signal.Signals, Any] = {}

    def agreed(self) -> str | None:
        """Return the reason to stop, equal on all ranks, or None. Collective over team. Blocks: one small allreduce."""
        late = self._deadline is not None and time.monotonic() >= self._deadline
        code = int(self._team.allreduce(self._signal or (_TIME_IS_UP if late else 0), MAX))
        if code == 0:
            return None
        return "the time limit" if code == _TIME_IS_UP else f"signal {signal.Signals(code).name}"

    @property
    def status(self) -> int:
        """The exit status for a program that has stopped: 130 after SIGINT, 143 after SIGTERM, else 0.

        For several ranks it is 0: their launcher knows the signal, and would take another status for a failure.
        """
        stopped = self._team.size == 1 and self._signal in (signal.SIGINT, signal.SIGTERM)
        return 128 + self._signal if stopped else 0

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._note)
            interruptions.answer_one(signal.SIGINT)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        interruptions.end_at_second()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
