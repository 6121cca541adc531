"""Conditions that all ranks reach: the home rank keeps the queue of waiters, and wakes them by remote calls."""

from __future__ import annotations

import itertools
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from gondwana.calls import endpoints
from gondwana.futures import Future, Promise
from gondwana.runtime import progress
from gondwana.teams import world

Key = tuple[int, int]
"""The world rank of a condition's home, and its number there."""
Waiter = tuple[int, int]
"""A rank of the world, and the number of a wait there."""

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[Key, RemoteCondition] = weakref.WeakValueDictionary()
_sent: dict[Key, RemoteCondition] = {}
"""Conditions of this rank that others may know: kept as long as the job."""
_queues: dict[int, deque[Waiter]] = {}
"""Waiters, longest first, by the number of a condition of this rank."""
_waits: dict[int, Promise[None]] = {}
"""Waits of this rank, for conditions anywhere, by number."""


class RemoteCondition:
    """Tasks of any rank that wait until a task of any rank notifies them.

    Local to create; the calling rank is its home, which serves waits and notifications when it makes progress. The
    condition can be pickled: send it in remote calls, collectives of objects or channels, and every rank that receives
    it waits for and notifies the same one. Notifications are not kept: one without a waiter is lost. So for state that
    other ranks change, prefer `wait_for`. The condition lives as long as the job, once it was sent.

    Attributes:
        home: world rank on which it was made.

    Example:
        >>> import gondwana as gw
        >>> condition, ready = gw.RemoteCondition(), []
        >>> def prepare():
        ...     ready.append(True)
        ...     condition.notify_all()
        >>> task = gw.Task(prepare).schedule()
        >>> condition.wait_for(lambda: ready)
        >>> ready
        [True]
    """

    def __init__(self) -> None:
        number = next(_numbers)
        _queues[number] = deque()
        weakref.finalize(self, _queues.pop, number, None)
        self._set_up((world.rank, number))

    def _set_up(self, key: Key) -> None:
        self._key = key
        self.home = key[0]
        _known[key] = self

    def wait(self, timeout: float | None = None) -> None:
        """Wait for a notification. Blocks; user-level progress.

        Args:
            timeout: seconds; None: no limit.

        Raises:
            TimeoutError: no notification came within `timeout` seconds.
            ProgressError: called inside a callback.
        """
        progress.refuse_in_callback(repr(self))
        waiter, notified, _ = self._enter()
        self._await(waiter, notified, timeout, timeout)

    def wait_for(self, holds: Callable[[], object], timeout: float | None = None) -> None:
        """Wait until `holds()` is true, checked now and after each notification. Arguments as for `wait`.

        No notification is lost between check and wait: a rank that changes something and then notifies wakes this one.
        """
        progress.refuse_in_callback(repr(self))
        end = None if timeout is None else time.monotonic() + timeout
        while not holds():
            waiter, notified, entered = self._enter()
            try:
                entered.wait()
                held = holds()  # again, now that notifications reach this rank
            except BaseException:
                self._leave(waiter)
                raise
            if held:
                self._leave(waiter)
                return
            self._await(waiter, notified, None if end is None else max(0.0, end - time.monotonic()), timeout)

    def notify(self, n: int = 1) -> Future[int]:
        """Wake the longest waiting tasks, at most `n`; return the future of their number. Local; does not wait."""
        return self._call(_notify, n)

    def notify_all(self) -> Future[int]:
        """Wake all waiting tasks; return the future of their number. Local; does not wait."""
        return self._call(_notify, None)

    def _enter(self) -> tuple[Waiter, Future[None], Future[None]]:
        """Begin a wait: its waiter, the future that ends it, and that of the home rank's acknowledgement."""
        waiter = world.rank, next(_numbers)
        promise = _waits[waiter[1]] = Promise[None]()
        return waiter, promise.future, self._call(_enter, waiter)

    def _await(self, waiter: Waiter, notified: Future[None], left: float | None, timeout: float | None) -> None:
        """Wait for a notification, for the rest of the time."""
        try:
            notified.wait(left)
        except TimeoutError:
            if self._call(_withdraw, waiter).result():
                del _waits[waiter[1]]
                raise TimeoutError(f"waited {timeout:g} s for {self!r}: give a longer timeout=, or None") from None
            notified.wait()
        except BaseException:
            self._leave(waiter)
            raise

    def _leave(self, waiter: Waiter) -> None:
        """End a wait that needs no notification; one that it has already got goes to another. Local; does not wait."""
        _waits.pop(waiter[1], None)
        with progress.callback():  # do not wait for room
            endpoints.request_nothing(self.home, world, _pass_on, (self._key[1], waiter), {})

    def _call(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        return endpoints.request(self.home, world, function, (self._key[1], *args), {})

    def __repr__(self) -> str:
        return f"<RemoteCondition {self._key[1]} at rank {self.home}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.home == world.rank:
            _sent[self._key] = self
        return _arrive, (self._key,)


def _arrive(key: Key) -> RemoteCondition:
    """Return the condition of a key as this rank sees it."""
    found = _known.get(key)
    if found is None:
        found = object.__new__(RemoteCondition)
        found._set_up(key)
    return found


# -- remote calls: at the home rank, and at a rank that waits ----------------------------------------------------------


def _enter(number: int, waiter: Waiter) -> None:
    _queues[number].append(waiter)


def _withdraw(number: int, waiter: Waiter) -> bool:
    """Remove a waiter; return whether it was still waiting."""
    waits = waiter in _queues[number]
    if waits:
        _queues[number].remove(waiter)
    return waits


def _pass_on(number: int, waiter: Waiter) -> None:
    """Remove a waiter; if it has been notified already, notify the next in its place."""
    if number in _queues and not _withdraw(number, waiter):  # else only this rank has known of the condition
        _notify(number, 1)


def _notify(number: int, n: int | None) -> int:
    queue = _queues[number]
    count = len(queue) if n is None else min(n, len(queue))
    for _ in range(count):
        rank, wait = queue.popleft()
        endpoints.request_nothing(rank, world, _wake, (wait,), {})
    return count


def _wake(wait: int) -> None:
    promise = _waits.pop(wait, None)
    if promise is not None:  # else it has left meanwhile, and the home rank passes the notification on
        promise.set_result(None)
