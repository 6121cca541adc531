"""Futures (results of operations under way), promises (which set them), and work that is deferred by n polls."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

from gondwana.runtime import idle, interruptions, ordering, progress
from gondwana.runtime.watching import waits

T = TypeVar("T")
U = TypeVar("U")

_settling = threading.Lock()
"""Held while a future changes, so that a progress thread and the program see each other's changes."""

_ASYNC_POLLS = 100
"""Failed polls of an awaiting coroutine before it sleeps between polls."""
_ASYNC_PAUSE = 5e-4


class Future(Generic[T]):
    """The result of an operation that has started. Local.

    It becomes ready inside calls that make progress: its own `result` and `wait`, `gw.progress()`, barriers, signals.
    An operation that completes immediately, such as a put to a rank of this node, returns a ready future. Futures
    belong to the rank that created them and cannot be pickled; awaiting one in asyncio makes progress too.

    Example:
        >>> import gondwana as gw
        >>> gw.rpc(gw.world.rank, max, 3, 4).then(lambda largest: largest + 1).result()
        5
    """

    __slots__ = ("__weakref__", "_calls", "_done", "_error", "_hooks", "_value")

    local = False
    """Whether only acts of this rank itself, outside of internal progress, complete it."""
    by_others = False
    """Whether only acts of other ranks complete it."""

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._calls: list[Callable[[Future[T]], None]] | None = None
        self._hooks: list[Callable[[Future[T]], None]] | None = None

    def done(self) -> bool:
        """Return whether the operation has completed, with a result or an error. Local; no progress."""
        return self._done

    @ordering.counted
    def wait(self, timeout: float | None = None) -> None:
        """Wait until the operation has completed, and raise its error if it has one. Blocks; user-level progress.

        Args:
            timeout: Limit of the time [seconds]; None: no limit.

        Raises:
            TimeoutError: the operation has not completed after `timeout` seconds; it continues.
            ProgressError: called inside a callback before the operation has completed.
            Exception: the error of the operation.
        """
        if not self._done:
            self._block(timeout)
        if self._error is not None:
            raise self._error

    @ordering.counted
    def result(self, timeout: float | None = None) -> T:
        """Return the result, or raise the error of the operation. Blocks; arguments and errors as for `wait`."""
        if not self._done:
            self._block(timeout)
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None is a T then

    @ordering.counted
    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error of the operation, None if it succeeded. Blocks; arguments as for `wait`."""
        if not self._done:
            self._block(timeout)
        return self._error

    def _block(self, timeout: float | None) -> None:
        """Return when the operation has completed, with a result or an error; arguments and errors as for `wait`."""
        if not self.done():
            progress.wait_until(self.done, self._what(), timeout, self, bell=True, why=self._why)

    def then(self, call: Callable[[T], U | Future[U]]) -> Future[U]:
        """Return the future of `call(result)`. Local; does not wait.

        `call` runs immediately if the result is available, else inside a later call that makes progress. If it returns
        a future, the new future gets that one's result. Errors are passed on to the new future without a call.

        Args:
            call: Function of the result.
        """
        promise: Promise[U] = Promise()

        def continue_with(done: Future[T]) -> None:
            if done._error is not None:
                promise.set_exception(done._error)
                return
            try:
                promise.set_result(call(cast(T, done._value)))
            except BaseException as error:
                interruptions.let_pass(error)
                promise.set_exception(error)

        self.add_done_callback(continue_with)
        return promise.future

    def add_done_callback(self, call: Callable[[Future[T]], None]) -> None:
        """Register `call(future)` to run on completion: immediately if completed, else inside progress. Local."""
        if not self.done():
            with _settling:
                if not self._done:
                    if self._calls is None:
                        self._calls = []
                    self._calls.append(call)
                    return
        call(self)

    def at_once(self, call: Callable[[Future[T]], None]) -> None:
        """Register the library's own `call(future)` to run on completion, in internal progress too. Local."""
        if not self.done():
            with _settling:
                if not self._done:
                    if self._hooks is None:
                        self._hooks = []
                    self._hooks.append(call)
                    return
        call(self)

    def forget(self, call: Callable[[Future[T]], None]) -> bool:
        """Remove a call that `at_once` has registered; return whether it was still pending. Local."""
        with _settling:
            waiting = self._hooks is not None and call in self._hooks
            if self._hooks is not None and waiting:
                self._hooks.remove(call)
        return waiting

    def _what(self) -> str:
        return "a future"

    def _why(self) -> waits.Wait | None:
        """Describe the wait if only other ranks complete it: see `progress.wait_until`."""
        return waits.Wait(f"for {self._what()}", waits.FUTURE) if self.by_others else None

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        with _settling:
            if self._done:
                raise RuntimeError("this future has a result already")
            self._value, self._error, self._done = value, error, True
            hooks, self._hooks = self._hooks, None
            calls, self._calls = self._calls, None
        if hooks is not None:
            for hook in hooks:
                hook(self)
        if calls is not None:
            for call in calls:
                progress.enqueue(functools.partial(call, self))

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio  # not at the start of every rank: with TLS and logging it takes 5 MB

        failed = 0
        while not self.done():
            if not progress.progress():
                failed += 1
            yield from asyncio.sleep(_ASYNC_PAUSE if failed > _ASYNC_POLLS else 0).__await__()
        return self.result()

    def __repr__(self) -> str:
        if not self.done():
            return f"<{type(self).__name__}, under way>"
        outcome = self._value if self._error is None else self._error
        name = "Future" if isinstance(self, Completed) else type(self).__name__
        return f"<{name}: {outcome!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a future cannot be sent: it belongs to the rank that started the operation; send its result instead"
        )


class Promise(Generic[T]):
    """The object that sets the result of a future. Local.

    Example:
        >>> promise = Promise()
        >>> promise.set_result(3)
        >>> promise.future.result()
        3
    """

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: Future[T] = Future()

    def __repr__(self) -> str:
        return f"<Promise of {self.future!r}>"

    def set_result(self, value: T | Future[T]) -> None:
        """Complete the future with a result; if that is a future, with its result once it is ready. Local."""
        if isinstance(value, Future):
            value.add_done_callback(lambda inner: self.future._settle(inner._value, inner._error))
        else:
            self.future._settle(value, None)
            idle.wake()  # if this is another thread

    def set_exception(self, error: BaseException) -> None:
        """Complete the future with an error. Local."""
        self.future._settle(None, error)
        idle.wake()


class Following(Future[T]):
    """The future of another operation, with a result of its own. Local.

    Args:
        operation: Operation that must be complete.
        value: Function that returns the result then.
    """

    __slots__ = ("_operation", "_result")

    def __init__(self, operation: Future[None], value: Callable[[], T]) -> None:
        super().__init__()
        self._operation, self._result = operation, value

    def done(self) -> bool:
        """Return whether the operation is complete. Local; no progress."""
        if not self._done and self._operation.done():
            error = self._operation._error
            self._settle(None if error else self._result(), error)
        return self._done

    def _block(self, timeout: float | None) -> None:
        if not self.done():
            self._operation.exception(timeout)
            self.done()

    def add_done_callback(self, call: Callable[[Future[T]], None]) -> None:
        """Have `call(future)` run when the operation is complete: at once, or inside progress. Local."""
        super().add_done_callback(call)
        if not self._done:
            self._operation.add_done_callback(self._follow)

    def _follow(self, _: Future[None]) -> None:
        self.done()


@ordering.uncounted("wait", "result", "exception")
class Polled(Future[T]):
    """A future of an operation that can be polled, and completed by blocking. Local.

    An error of these functions is that of the operation.

    Args:
        ready: Function that returns whether the operation is complete; cheap, makes no progress.
        finish: Function that completes it; blocks, without running user code.
        result: Function that returns its result once it is complete; None for an operation without one.
    """

    __slots__ = ("_finish", "_ready", "_result")

    def __init__(
        self, ready: Callable[[], bool], finish: Callable[[], None], result: Callable[[], T] | None = None
    ) -> None:
        super().__init__()
        self._ready, self._finish, self._result = ready, finish, result

    def done(self) -> bool:
        """Return whether the operation is complete. Local; no progress."""
        if not self._done:
            self._settle_after(self._ready)
        return self._done

    def _block(self, timeout: float | None) -> None:
        """Complete the operation: return when MPI has executed it, regardless of the timeout."""
        if not self.done():
            self._settle_after(self._finish)

    def _settle_after(self, step: Callable[[], bool | None]) -> None:
        """Take the result, or an error of it or of a step before; the step returns False if there is none yet."""
        try:
            if step() is False:
                return
            value = None if self._result is None else self._result()
        except Exception as error:
            interruptions.let_pass(error)
            self._settle(None, error)
        else:
            self._settle(value, None)

    def add_done_callback(self, call: Callable[[Future[T]], None]) -> None:
        """Register `call(future)` to run on completion: immediately if complete, else inside progress. Local."""
        super().add_done_callback(call)
        self._let_progress_complete()

    def at_once(self, call: Callable[[Future[T]], None]) -> None:
        """Register the library's own `call(future)` to run on completion; progress completes it. Local."""
        super().at_once(call)
        self._let_progress_complete()

    def _let_progress_complete(self) -> None:
        if not self._done and self not in _observed:
            _observed.append(self)


_observed: deque[Polled[Any]] = deque()
"""Operations with callbacks: progress completes them."""


def needs_progress() -> bool:
    """Return whether this rank has operations with callbacks that progress completes. Local."""
    return bool(_observed)


def _complete_observed() -> bool:
    if not _observed:
        return False
    for operation in progress.taken(_observed):
        operation._block(None)
    return True


progress.register(_complete_observed, under_way=needs_progress, own=True)
progress.account_for(lambda: f"{len(_observed)} operations between nodes under way" if _observed else None)


class Completed(Future[T]):
    """The future of an operation that was complete before its call returned. Local.

    It stores only its result: the other attributes of futures are the same for all of these, and lie in the class.
    """

    __slots__ = ()

    _done = True
    _error = _calls = _hooks = None
    __init__ = object.__init__  # `Future.__init__` costs as much as everything else here

    def done(self) -> bool:
        """Return True. Local; no progress."""
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Return: the operation is complete. Local; no progress."""

    def result(self, timeout: float | None = None) -> T:
        """Return the result. Local; no progress."""
        return self._value  # type: ignore[return-value]  # `cast` takes as long as all the rest


def ready(value: T) -> Future[T]:
    """Return a completed future. Local."""
    future: Completed[T] = Completed()
    future._value = value
    return future


DONE: Future[None] = ready(None)
"""The future of every operation without a result that completed before its call returned."""


def when_all(*futures: Future[Any]) -> Future[tuple[Any, ...]]:
    """Return the future of all results, in the order of the arguments. Local; does not wait.

    If any has an error, the result is the first one in that order, once all are complete.

    Example:
        >>> import gondwana as gw
        >>> gw.when_all(gw.rpc(0, abs, -1), gw.rpc(0, abs, -2)).result()
        (1, 2)
    """
    promise: Promise[tuple[Any, ...]] = Promise()
    left = len(futures)

    def one_less(_: Future[Any]) -> None:
        nonlocal left
        with _settling:
            left -= 1
            last = left == 0
        if last:
            finish()

    def finish() -> None:
        errors = [future._error for future in futures if future._error is not None]
        if errors:
            promise.set_exception(errors[0])
        else:
            promise.set_result(tuple(future._value for future in futures))

    for future in futures:
        future.add_done_callback(one_less)
    if not futures:
        promise.set_result(())
    return promise.future


class _Deferred:
    __slots__ = ("act", "polls", "promise")

    def __init__(self, polls: int, act: Callable[[], None]) -> None:
        self.polls = polls
        self.act = act
        self.promise: Promise[None] = Promise()


_deferred: list[_Deferred] = []


def deferred_by(polls: int, act: Callable[[], None]) -> Future[None]:
    """Defer `act()` by a number of polls of internal progress. Local; does not wait.

    Args:
        polls: Number of polls, 0 or more.
        act: Function that moves data; runs no user code.

    Returns:
        The future of its completion or error.
    """
    deferred = _Deferred(polls, act)
    _deferred.append(deferred)
    return deferred.promise.future


def _finish_deferred() -> bool:
    if not _deferred:
        return False
    polled = list(_deferred)
    for deferred in polled:
        deferred.polls -= 1
    # Another thread may add to the list meanwhile.
    del _deferred[: len(polled)]
    _deferred.extend(deferred for deferred in polled if deferred.polls >= 0)
    due = [deferred for deferred in polled if deferred.polls < 0]
    for deferred in due:
        try:
            deferred.act()
        except Exception as error:
            interruptions.let_pass(error)
            deferred.promise.set_exception(error)
        else:
            deferred.promise.set_result(None)
    return bool(due)


progress.register(_finish_deferred, under_way=lambda: bool(_deferred), own=True)
