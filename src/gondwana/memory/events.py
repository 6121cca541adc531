"""Operations of devices under way: their futures are ready when marks on streams have been reached."""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable

from gondwana.futures import Future
from gondwana.gpu.device import Device, Mark
from gondwana.runtime import interruptions, progress

_under_way: dict[Device, deque[Marked]] = {}
"""By device and in the order in which they were started, which is that in which they end."""

_claiming = threading.Lock()

_LOOKS = 10
"""Vain looks before a wait turns to other work: most copies take less than a round of that."""


class Marked(Future[None]):
    """The future of what a device does up to a mark on its stream of copies. Local.

    It keeps alive what the device works on. Internal progress makes it ready, and `done()` looks for itself.

    Args:
        device: whose stream.
        keep: what must not be given back before.
        finish: completes the operation once the device is through; moves data, runs no user code.
    """

    __slots__ = ("_finish", "_keep", "_mark")

    def __init__(self, device: Device, keep: object, finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._mark: Mark | None = device.mark(device.transfers)
        self._keep: object = keep
        self._finish = finish
        try:
            _under_way[device].append(self)
        except KeyError:
            _under_way.setdefault(device, deque()).append(self)

    def done(self) -> bool:
        """Tell whether the device is through. Local; no progress."""
        mark = self._mark
        if not self._done and mark is not None:
            self._look(mark.reached)
        return self._done

    def wait(self, timeout: float | None = None) -> None:
        """Return when the device is through. Blocks; user-level progress, in a callback none. See `Future.wait`."""
        for _ in range(_LOOKS):
            if self.done():
                return
        if progress.in_callback():
            self.end()  # the device needs nobody's help
        else:
            super().wait(timeout)

    def end(self) -> None:
        """Return when the device is through. Local; blocks without progress."""
        mark = self._mark
        if not self._done and mark is not None:
            self._look(functools.partial(_await, mark))
        while not self._done:
            os.sched_yield()  # another thread is completing it

    def _look(self, through: Callable[[], bool]) -> None:
        error: Exception | None = None
        try:
            if not through():
                return
        except RuntimeError as problem:
            error = problem  # of a kernel before, as drivers tell such things
        if self._claim():
            if self._finish is not None and error is None:
                try:
                    self._finish()
                except Exception as problem:  # who waits must learn of it
                    interruptions.let_pass(problem)
                    error = problem
            self._keep = self._finish = None
            self._settle(None, error)

    def _claim(self) -> bool:
        """Whether this thread is the one that completes the future."""
        with _claiming:
            mine, self._mark = self._mark is not None, None
        return mine

    def _what(self) -> str:
        return "a copy of a device"


def _await(mark: Mark) -> bool:
    mark.wait()
    return True


def _advance() -> bool:
    """Complete what has come to its end. Internal progress."""
    some = False
    for operations in list(_under_way.values()):
        while operations and operations[0].done():
            operations.popleft()
            some = True
    return some


def _unfinished() -> str | None:
    count = sum(not operation.done() for operations in _under_way.values() for operation in operations)
    return f"{count} copies of devices under way" if count else None


progress.register(_advance)
progress.account_for(_unfinished)
