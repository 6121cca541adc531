"""Conditions and semaphores of the tasks of a thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Self

from gondwana.errors import UsageError
from gondwana.tasks import scheduler


class _Waiting:
    """A queue of strands that wait for the same event."""

    __slots__ = ("_waiters",)

    local = True
    """Only tasks of this rank wake its waiters."""

    def __init__(self) -> None:
        self._waiters: deque[scheduler.Strand] = deque()

    def forget(self, strand: scheduler.Strand) -> bool:
        """Remove a waiter; return whether it was still waiting. Local; for the scheduler."""
        waiting = strand in self._waiters
        if waiting:
            self._waiters.remove(strand)
        return waiting

    def _pause(self, timeout: float | None) -> None:
        me = scheduler.register(self, self._waiters)
        if timeout is None:
            me.home.pause(me)
        else:
            me.home.pause_for(me, repr(self), timeout)


class Condition(_Waiting):
    """Tasks of a thread that wait until another one notifies them. Local.

    Since only one task of a thread runs at a time, no lock is needed: what a task has checked holds until it waits.

    Example:
        >>> import gondwana as gw
        >>> condition, ready = gw.Condition(), []
        >>> def prepare():
        ...     ready.append(True)
        ...     condition.notify_all()
        >>> task = gw.Task(prepare).schedule()
        >>> condition.wait_for(lambda: ready)
        >>> ready
        [True]
    """

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for a notification. Blocks; user-level progress.

        Args:
            timeout: seconds; None: no limit.

        Raises:
            TimeoutError: no notification came within `timeout` seconds.
            ProgressError: called inside a callback.
        """
        self._pause(timeout)

    def wait_for(self, holds: Callable[[], object], timeout: float | None = None) -> None:
        """Wait until `holds()` is true, checked now and after each notification. Arguments as for `wait`."""
        end = None if timeout is None else time.monotonic() + timeout
        while not holds():
            self._pause(None if end is None else max(0.0, end - time.monotonic()))

    def notify(self, n: int = 1) -> int:
        """Wake the tasks that have waited longest, at most `n`; return their number. Local; does not wait."""
        count = min(n, len(self._waiters))
        for _ in range(count):
            self._waiters.popleft()()
        return count

    def notify_all(self) -> int:
        """Wake all waiting tasks; return their number. Local; does not wait."""
        return self.notify(len(self._waiters))

    def __repr__(self) -> str:
        return f"<Condition, {len(self._waiters)} waiting>"


class Semaphore(_Waiting):
    """A number of permits, each held by at most one task of a thread. Local.

    Tasks get them in the order in which they asked. It is a context manager.

    Args:
        permits: number of tasks that may hold one at a time.

    Raises:
        UsageError: `permits` is negative or not a whole number.

    Example:
        >>> import gondwana as gw
        >>> two = gw.Semaphore(2)
        >>> with two:
        ...     two.permits
        1
    """

    __slots__ = ("permits",)

    def __init__(self, permits: int = 1) -> None:
        if not isinstance(permits, int) or permits < 0:
            raise UsageError(f"Semaphore of {permits!r} permits: give a whole number, 0 or more")
        super().__init__()
        self.permits = permits

    def acquire(self, timeout: float | None = None) -> None:
        """Take a permit; wait while none is free. Blocks; user-level progress.

        Args:
            timeout: seconds; None: no limit.

        Raises:
            TimeoutError: no permit was free within `timeout` seconds.
            ProgressError: called inside a callback while no permit is free.
        """
        if not self.try_acquire():
            self._pause(timeout)

    def try_acquire(self) -> bool:
        """Take a permit if one is free; return whether one was. Local; does not wait."""
        if self.permits == 0:
            return False
        self.permits -= 1
        return True

    def release(self, n: int = 1) -> None:
        """Return permits, or add some. Local; does not wait."""
        for _ in range(n):
            if self._waiters:
                self._waiters.popleft()()
            else:
                self.permits += 1

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Semaphore, {self.permits} permits, {len(self._waiters)} waiting>"
