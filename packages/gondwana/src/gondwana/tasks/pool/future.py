"""Futures of tasks, whose waiting thread may do the pool's work meanwhile, and what goes wrong with the workers."""

from __future__ import annotations

import concurrent.futures
import errno
import logging
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from typing import Any, Protocol

from gondwana.errors import GondwanaError
from gondwana.runtime import interruptions

_log = logging.getLogger("concurrent.futures")

_PENDING, _RUNNING, _FINISHED = "PENDING", "RUNNING", "FINISHED"
_CANCELLED = ("CANCELLED", "CANCELLED_AND_NOTIFIED")


class Waiter(Protocol):
    """What the futures of a pool share."""

    condition: threading.Condition

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until something holds; return whether it does. Blocks."""


class TaskFuture(concurrent.futures.Future[Any]):
    """The future of a task. Local.

    The futures of a pool share one condition, since most of the time that a `concurrent.futures.Future` takes goes into
    its own.
    """

    def __init__(self, waiter: Waiter) -> None:
        self._condition = waiter.condition
        self._state = _PENDING
        self._result = None
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self._waiter = waiter

    def done(self) -> bool:
        """Return whether the task has ended or was cancelled. Local."""
        return self._state not in (_PENDING, _RUNNING)

    def begin(self) -> bool:
        """Note that the task goes to a worker; return False if it was cancelled before. Local."""
        if self._state == _PENDING:
            self._state = _RUNNING
            return True
        return self.set_running_or_notify_cancel()

    def again(self) -> None:
        """Note that the task has come back from a worker that did not begin it. Local."""
        self._state = _PENDING

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Complete the future with a result or an error, and run its callbacks. Local."""
        with self._condition:
            self._result, self._exception, self._state = value, error, _FINISHED
            for waiter in self._waiters:
                (waiter.add_result if error is None else waiter.add_exception)(self)
            self._condition.notify_all()
        if self._done_callbacks:
            self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        """Run the callbacks; what they raise is logged, as `concurrent.futures` does with an `Exception`."""
        for call in self._done_callbacks:
            try:
                call(self)
            except BaseException as error:  # whatever thread this is, it has others to complete
                interruptions.let_delivered_pass(error)
                _log.exception("exception calling callback for %r", self)

    def result(self, timeout: float | None = None) -> Any:
        """Return the result of the task, or raise its exception. Blocks.

        Args:
            timeout: seconds; None: no limit.

        Raises:
            CancelledError: the task was cancelled.
            TimeoutError: it has not ended after `timeout` seconds.
        """
        self._await(timeout)
        if self._exception is not None:
            try:
                raise self._exception
            finally:
                self = None  # type: ignore[assignment]  # the traceback must not keep the future
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception of the task, None if it has a result. Blocks; arguments and errors as for `result`."""
        self._await(timeout)
        return self._exception

    def _await(self, timeout: float | None) -> None:
        if self._state != _FINISHED and not self._waiter.wait(self.done, timeout):
            raise TimeoutError(f"the task has not ended after {timeout:g} s: give a longer timeout, or None")
        if self._state in _CANCELLED:
            raise CancelledError


class WorkerLostError(GondwanaError, BrokenExecutor):
    """A worker ended while it had a task; the message names both. The pool goes on."""


class PoolBrokenError(GondwanaError, BrokenExecutor):
    """A pool has no workers and can start none: the system refuses, their initializer fails, or they end at once."""


def unstartable(error: OSError) -> str:
    """Return why no worker can be started, in words for a message, and what to change. Local."""
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}{_REMEDIES.get(error.errno or 0, '')}"


_REMEDIES = {
    errno.EAGAIN: ": the limit of processes (ulimit -u, or that of the control group) is reached: give fewer workers",
    errno.ENOMEM: ": there is no memory for it: give fewer workers",
    errno.EMFILE: ": each worker takes a descriptor: give fewer workers, or raise ulimit -n",
    errno.ENOENT: ": sys.executable is to name the interpreter of the workers",
}


class PoolClosedError(GondwanaError, RuntimeError):
    """A task was submitted to a pool that is shut down."""
