"""Operations of devices under way: their futures are ready when events on streams have been reached."""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable

from gondwana.futures import Future
from gondwana.gpu.device import Device, Event
from gondwana.runtime import interruptions, progress

_under_way: dict[Device, deque[EventFuture]] = {}
"""By device, in the order in which they were started, which is the order in which they end."""

_claiming = threading.Lock()

_POLLS = 10
"""Failed polls before a wait turns to other work: most copies take less than a round of that."""


class EventFuture(Future[None]):
    """The future of what a device does up to an event on its stream of copies. Local.

    It keeps alive what the device works on. Internal progress makes it ready, and `done()` queries the event itself.

    Args:
        device: the device of the stream.
        keep: what must stay allocated until then.
        finish: completes the operation on the host afterwards; moves data, runs no user code.
    """

    __slots__ = ("_event", "_finish", "_keep")

    def __init__(self, device: Device, keep: object, finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._event: Event | None = device.record(device.transfers)
        self._keep: object = keep
        self._finish = finish
        try:
            _under_way[device].append(self)
        except KeyError:
            _under_way.setdefault(device, deque()).append(self)

    def done(self) -> bool:
        """Return whether the device has done the operation. Local; no progress."""
        event = self._event
        if not self._done and event is not None:
            self._complete_if(event.reached)
        return self._done

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the device has done it. Blocks; user-level progress, in a callback none. See `Future.wait`."""
        for _ in range(_POLLS):
            if self.done():
                return
        if progress.in_callback():
            self.end()  # the device proceeds without progress of this rank
        else:
            super().wait(timeout)

    def end(self) -> None:
        """Wait until the device has done the operation. Local; blocks without progress."""
        event = self._event
        if not self._done and event is not None:
            self._complete_if(functools.partial(_await, event))
        while not self._done:
            os.sched_yield()  # another thread is completing it

    def _complete_if(self, finished: Callable[[], bool]) -> None:
        error: Exception | None = None
        try:
            if not finished():
                return
        except RuntimeError as problem:
            error = problem  # often of an earlier kernel: drivers report such errors late
        if self._claim():
            if self._finish is not None and error is None:
                try:
                    self._finish()
                except Exception as problem:  # raised where the future is waited for
                    interruptions.let_pass(problem)
                    error = problem
            self._keep = self._finish = None
            self._settle(None, error)

    def _claim(self) -> bool:
        """Return whether this thread is the one that completes the future."""
        with _claiming:
            mine, self._event = self._event is not None, None
        return mine

    def _what(self) -> str:
        return "a copy of a device"


def _await(event: Event) -> bool:
    event.wait()
    return True


def _advance() -> bool:
    """Complete the operations whose events have been reached. Internal progress."""
    if not _under_way:
        return False
    some = False
    for operations in list(_under_way.values()):
        while operations and operations[0].done():
            operations.popleft()
            some = True
    return some


def _unfinished() -> str | None:
    count = sum(not operation.done() for operations in _under_way.values() for operation in operations)
    return f"{count} copies of devices under way" if count else None


progress.register(_advance, under_way=lambda: any(_under_way.values()))
progress.account_for(_unfinished)
