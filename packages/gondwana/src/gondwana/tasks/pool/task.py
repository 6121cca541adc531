"""Tasks of a pool: the call, a batch of calls, its future, and errors of the workers.

The futures are those of `concurrent.futures`, but their waiting thread may do the pool's work meanwhile.
"""

from __future__ import annotations

import concurrent.futures
import errno
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any, Protocol, TypeAlias

from gondwana.errors import GondwanaError
from gondwana.runtime import interruptions
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.packing import Function, Packer

Outcomes: TypeAlias = tuple[float, list[Any], dict[int, bytes]]
"""The seconds of a batch, the results of its calls, and the packed errors of those that failed, by ascending place."""

_log = logging.getLogger("concurrent.futures")

_PENDING, _RUNNING, _FINISHED = "PENDING", "RUNNING", "FINISHED"
_CANCELLED = ("CANCELLED", "CANCELLED_AND_NOTIFIED")


@dataclass(slots=True, eq=False)
class PoolTask:
    """A task and its future.

    Args:
        function: function to call.
        arguments: pickle of a tuple and a dictionary.
        buffers: buffers of the pickle.
        future: future, for a task of this process.
        origin: worker that has submitted a nested task, and the task's number there; else None.
        limit: seconds that the task may run; None: any time.
    """

    function: Function
    arguments: bytes
    buffers: tuple[Any, ...]
    future: TaskFuture | None
    origin: tuple[int, int] = (0, 0)
    limit: float | None = None

    def describe(self) -> str:
        """Return the call for messages, such as `simulate(3)`. Local."""
        return describe(self.function, *packing.load(self.arguments, self.buffers))


class Waiter(Protocol):
    """The common part of the futures of a pool."""

    condition: threading.Condition

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until a condition holds; return whether it does. Blocks."""


class TaskFuture(concurrent.futures.Future[Any]):
    """The future of a task. Local.

    The futures of a pool share one condition: making one for each takes most of the time of a
    `concurrent.futures.Future`.
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
        """Run the callbacks; their exceptions are logged, as `concurrent.futures` does with an `Exception`."""
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
            TimeoutError: the task has not ended after `timeout` seconds.
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
    """A worker ended while it had a task; the message names both. The pool continues."""


class TimeLimitError(GondwanaError, TimeoutError):
    """A task ran longer than its time limit and was ended with its worker; a note has its stack. The pool continues."""


class PoolBrokenError(GondwanaError, BrokenExecutor):
    """A pool has no workers and can start none: the system refuses, their initializer fails, or they end at once."""


def unstartable(error: OSError) -> str:
    """Return why no worker can be started, and what to change, for a message. Local."""
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


def run_batch(function: Function, items: list[Any], stop: bool) -> Outcomes:
    """Call a function for each of the items; return the seconds and the outcomes. Local; runs on a worker.

    Args:
        function: function to call.
        items: arguments of each call.
        stop: whether to stop at the first error.
    """
    call, start = packing.load_function(function), time.perf_counter()
    values: list[Any] = []
    errors: dict[int, bytes] = {}
    for item in items:
        try:
            values.append(call(*item))
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            errors[len(values)] = packing.pack_error(error)[0]
            values.append(None)
            if stop:
                break
    return time.perf_counter() - start, values, errors


def sendable(result: Outcomes, packer: Packer) -> Outcomes:
    """Return the result of a batch with errors in place of the results that cannot be packed. Local."""
    seconds, values, errors = result
    for position, value in enumerate(values):
        try:
            packer.value(value)
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            errors[position], values[position] = packing.pack_error(error)[0], None
    return seconds, values, dict(sorted(errors.items()))


RUN_BATCH = f"{__name__}:{run_batch.__qualname__}"


def describe(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a call for messages, such as `simulate(3)`. Local."""
    if function == RUN_BATCH:
        inner, items, *_ = args
        others = f" or one of the {len(items) - 1} calls after it" if len(items) > 1 else ""
        return describe(inner, items[0], {}) + others
    name = function.partition(":")[2] if isinstance(function, str) else packing.load_function(function).__qualname__
    words = [shortened(value) for value in args] + [f"{key}={shortened(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(words)})"
