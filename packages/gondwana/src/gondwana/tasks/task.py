"""Tasks: functions that take turns on a thread."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from gondwana.errors import GondwanaError, UsageError
from gondwana.futures import Future
from gondwana.runtime import interruptions, ordering, progress
from gondwana.runtime.tracing import traced
from gondwana.tasks import reports, scheduler

T = TypeVar("T")


class TaskCancelled(GondwanaError, Exception):  # noqa: N818 - as asyncio.CancelledError, not a mistake
    """Raised in a task where it waits when it is cancelled, and by the `result` of a task that has been."""


class Task(Future[T], Generic[T]):
    """A function that takes turns with others on this thread: the future of its result. Local.

    A task runs from `schedule()` on whenever the program, or another task, waits or calls `gw.yield_task`. When it
    waits itself, for a channel, a future, a signal, a barrier or anything else of the library, the others run, and this
    rank serves remote calls. A task belongs to the thread that has scheduled it.

    `result()` and `wait()` raise an error of the task. One that nobody asks for is reported when the program ends.

    Args:
        function: function that it runs.
        args: positional arguments of the function.
        kwargs: keyword arguments of the function.

    Example:
        >>> import gondwana as gw
        >>> def add(a, b):
        ...     gw.yield_task()
        ...     return a + b
        >>> tasks = [gw.Task(add, n, b=1).schedule() for n in range(3)]
        >>> [task.result() for task in tasks]
        [1, 2, 3]
    """

    __slots__ = ("_args", "_context", "_function", "_home", "_kwargs", "_strand")

    local = True

    def __init__(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> None:
        # As `Future.__init__`, without the time of a call.
        self._done = False
        self._value = self._error = self._hooks = self._calls = None
        self._function: Callable[..., T] | None = function
        self._args = args
        self._kwargs = kwargs
        self._context: contextvars.Context | None = contextvars.copy_context()
        self._home: scheduler.Home | None = None
        self._strand: scheduler.Strand | None = None

    def schedule(self) -> Self:
        """Have the task run, after those that are ready now, and return it. Local; does not wait.

        Raises:
            UsageError: the task is scheduled already, or cancelled.
        """
        if self._home is not None or self._done:
            raise UsageError(f"{self!r} is scheduled already: make another Task to run the function again")
        home = self._home = progress.thread.flow.tasks or scheduler.home()
        home.ready.append(self)
        return self

    def cancel(self) -> bool:
        """Raise `TaskCancelled` where the task waits, or where it waits next. Local; does not wait for its end.

        A task that has not begun never will. A task that cancels itself is left at once. Call it on the thread of the
        task.

        Returns:
            False if the task has ended already, else True.
        """
        if self._done:
            return False
        error = TaskCancelled(f"{self!r} was cancelled")
        if self._strand is None:
            self._end(None, error)
        elif self._strand is self._strand.home.current and not progress.in_callback():
            raise error
        else:
            self._strand.throw(error)
        return True

    def cancelled(self) -> bool:
        """Return whether the task was cancelled and has ended by that. Local."""
        return isinstance(self._error, TaskCancelled)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the task has ended, and raise its error if it has one. Blocks; user-level progress.

        Arguments and errors as for `Future.wait`. The end of a task that was cancelled is no error here.

        Raises:
            UsageError: the task is not scheduled, so that it would never end.
        """
        if not self._done:
            self._block(timeout)
        if not self.cancelled():
            self.result()

    def result(self, timeout: float | None = None) -> T:
        """Return the result, or raise the error of the task. Blocks; arguments and errors as for `wait`."""
        if not self._done:
            self._block(timeout)
        if self._error is not None:
            reports.seen(self)
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error of the task, None if it succeeded. Blocks; arguments and errors as for `wait`."""
        if not self._done:
            self._block(timeout)
        reports.seen(self)
        return self._error

    @ordering.counted
    def _block(self, timeout: float | None) -> None:
        if self._home is None:
            raise UsageError(f"{self!r} is not scheduled: call its schedule() before you wait for it")
        super()._block(timeout)

    def add_done_callback(self, call: Callable[[Future[T]], None]) -> None:
        """Register `call(task)` to run when it has ended: immediately if it has, else inside progress. Local."""
        reports.seen(self)
        super().add_done_callback(call)

    # -- for the scheduler ---------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Begin the task, on its own strand."""
        assert self._home is not None
        self._home.start(self)

    @traced("task", lambda self, _strand: self._title())
    def run(self, strand: scheduler.Strand) -> None:
        """Run the function, on a strand whose turn it is, and complete the future."""
        if self._done:
            return
        assert self._context is not None
        self._strand = strand
        try:
            value = self._context.run(self._function, *self._args, **self._kwargs)  # type: ignore[arg-type]
        except BaseException as error:
            trace = error.__traceback__
            self._end(None, error.with_traceback(None if trace is None else trace.tb_next))
            if interruptions.is_interruption(error):
                interruptions.claim(error)
                strand.home.throw_into_program(error)
        else:
            self._end(value, None)

    def _end(self, value: T | None, error: BaseException | None) -> None:
        self._strand = self._function = self._context = None
        self._args, self._kwargs = (), {}
        awaited = bool(self._calls or self._hooks)
        self._settle(value, error)
        if error is not None and not awaited and not isinstance(error, TaskCancelled):
            reports.unseen(self)

    def _title(self) -> str:
        return f"task {getattr(self._function, '__qualname__', self._function)}"

    def _what(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        if self._done:
            return super().__repr__()
        state = "not scheduled" if self._home is None else "under way" if self._strand else "ready"
        return f"<Task {getattr(self._function, '__qualname__', self._function)}, {state}>"


def current_task() -> Task[Any] | None:
    """Return the task that calls, None in the program itself. Local.

    Example:
        >>> import gondwana as gw
        >>> gw.current_task() is None
        True
    """
    return scheduler.home().current.task


def sleep(seconds: float) -> None:
    """Let other tasks run for some time; the rank serves remote calls meanwhile. Local; blocks; user-level progress.

    Args:
        seconds: duration; 0: as `yield_task`.

    Raises:
        ProgressError: called inside a callback.
        UsageError: `seconds` is negative or not a number.

    Example:
        >>> import gondwana as gw
        >>> gw.sleep(0.001)
    """
    if not seconds >= 0.0:
        raise UsageError(f"sleep for {seconds} s: give 0 or more")
    progress.refuse_in_callback(f"{seconds:g} s to pass")
    if seconds:
        scheduler.home().sleep(seconds)
    else:
        scheduler.yield_task()
