"""Futures: results that are not there yet; promises: the other end of them; and work deferred by some polls."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

from gondwana.runtime import interruptions, progress

T = TypeVar("T")
U = TypeVar("U")

_settling = threading.Lock()
"""Held while a future changes, so that a progress thread and the program do not miss each other."""

_ASYNC_LOOKS = 100
"""Vain looks of an awaiting coroutine before it sleeps between two."""
_ASYNC_PAUSE = 5e-4


class Future(Generic[T]):
    """The result of an operation that has started. Local.

    It becomes ready inside calls that make progress: its own `result` and `wait`, `gw.progress()`, barriers, signals.
    An operation that finishes at once, such as a put to a rank of this node, gives a future that is ready. Futures
    belong to the rank that made them and cannot be pickled; to await one in asyncio drives progress too.

    Example:
        >>> import gondwana as gw
        >>> gw.rpc(gw.world.rank, max, 3, 4).then(lambda largest: largest + 1).result()
        5
    """

    __slots__ = ("__weakref__", "_calls", "_done", "_error", "_hook", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._calls: list[Callable[[Future[T]], None]] = []
        self._hook: Callable[[Future[T]], None] | None = None

    def done(self) -> bool:
        """Tell whether the result, or an error, is there. Local; no progress."""
        return self._done

    def wait(self, timeout: float | None = None) -> None:
        """Return when the result or an error is there. Blocks; user-level progress.

        Args:
            timeout: seconds; None: for ever.

        Raises:
            TimeoutError: it is not there after `timeout` seconds; the operation goes on.
            ProgressError: called inside a callback before it is there.
        """
        if not self.done():
            progress.wait_until(self.done, self._what(), timeout)

    def result(self, timeout: float | None = None) -> T:
        """Return the result, or raise the error of the operation. Blocks; arguments and errors as for `wait`."""
        self.wait(timeout)
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error of the operation, None if it succeeded. Blocks; arguments and errors as for `wait`."""
        self.wait(timeout)
        return self._error

    def then(self, call: Callable[[T], U | Future[U]]) -> Future[U]:
        """Return the future of `call(result)`. Local; does not wait.

        `call` runs at once if the result is there, else inside a later call that makes progress. If it returns a
        future, the new future stands for that one's result. Errors pass on to the new future without a call.

        Args:
            call: takes the result.
        """
        promise: Promise[U] = Promise()

        def go_on(done: Future[T]) -> None:
            if done._error is not None:
                promise.set_exception(done._error)
                return
            try:
                promise.set_result(call(cast(T, done._value)))
            except Exception as error:
                interruptions.let_pass(error)
                promise.set_exception(error)

        self.add_done_callback(go_on)
        return promise.future

    def add_done_callback(self, call: Callable[[Future[T]], None]) -> None:
        """Have `call(future)` run when the result or an error is there: at once, or inside progress. Local."""
        if not self.done():
            with _settling:
                if not self._done:
                    self._calls.append(call)
                    return
        call(self)

    def at_once(self, call: Callable[[Future[T]], None]) -> None:
        """Have the library's own `call(future)` run the moment it is ready, in internal progress too. Local."""
        if not self.done():
            with _settling:
                if not self._done:
                    self._hook = call
                    return
        call(self)

    def _what(self) -> str:
        return "a future"

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        with _settling:
            if self._done:
                raise RuntimeError("this future has a result already")
            self._value, self._error, self._done = value, error, True
            hook, self._hook = self._hook, None
            calls, self._calls = self._calls, []
        if hook is not None:
            hook(self)
        for call in calls:
            progress.enqueue(functools.partial(call, self))

    def __await__(self) -> Generator[Any, None, T]:
        looks = 0
        while not self.done():
            if not progress.progress():
                looks += 1
            yield from asyncio.sleep(_ASYNC_PAUSE if looks > _ASYNC_LOOKS else 0).__await__()
        return self.result()

    def __repr__(self) -> str:
        if not self.done():
            return f"<{type(self).__name__}, under way>"
        outcome = self._value if self._error is None else self._error
        return f"<{type(self).__name__}: {outcome!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a future cannot be sent: it belongs to the rank that started the operation; return it instead")


class Promise(Generic[T]):
    """The end of a future that sets its result. Local.

    Example:
        >>> promise = Promise()
        >>> promise.set_result(3)
        >>> promise.future.result()
        3
    """

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: Future[T] = Future()

    def set_result(self, value: T | Future[T]) -> None:
        """Make the future ready; a future as value stands for its own result, once that is there. Local."""
        if isinstance(value, Future):
            value.add_done_callback(lambda inner: self.future._settle(inner._value, inner._error))
        else:
            self.future._settle(value, None)

    def set_exception(self, error: BaseException) -> None:
        """Have the future raise `error`. Local."""
        self.future._settle(None, error)


class Polled(Future[T]):
    """A future of an operation that tells when asked, and that can be pushed to its end. Local.

    Args:
        ready: tells whether the operation is complete; cheap, makes no progress.
        finish: completes it, blocking, without running user code.
        result: returns its result once it is complete; None if it has none.
    """

    __slots__ = ("_finish", "_ready", "_result")

    def __init__(
        self, ready: Callable[[], bool], finish: Callable[[], None], result: Callable[[], T] | None = None
    ) -> None:
        super().__init__()
        self._ready, self._finish, self._result = ready, finish, result

    def done(self) -> bool:
        """Tell whether the operation is complete. Local; no progress."""
        if not self._done and self._ready():
            self._settle(None if self._result is None else self._result(), None)
        return self._done

    def wait(self, timeout: float | None = None) -> None:
        """Complete the operation. Blocks, the timeout notwithstanding, until MPI has carried it out."""
        if not self.done():
            self._finish()
            self.done()

    def add_done_callback(self, call: Callable[[Future[T]], None]) -> None:
        """Have `call(future)` run when the operation is complete: at once, or inside progress. Local."""
        super().add_done_callback(call)
        self._be_pushed()

    def at_once(self, call: Callable[[Future[T]], None]) -> None:
        """Have the library's own `call(future)` run the moment it is complete; progress completes it. Local."""
        super().at_once(call)
        self._be_pushed()

    def _be_pushed(self) -> None:
        if not self._done and self not in _listened:
            _listened.append(self)


_listened: deque[Polled[Any]] = deque()
"""Operations that someone listens to: progress completes them."""


def _complete_listened() -> bool:
    if not _listened:
        return False
    for _ in range(len(_listened)):
        _listened.popleft().wait()
    return True


progress.register(_complete_listened)
progress.account_for(lambda: f"{len(_listened)} operations between nodes under way" if _listened else None)


def ready(value: T) -> Future[T]:
    """Return a future that has its result. Local."""
    future: Future[T] = Future()
    future._value, future._done = value, True
    return future


DONE: Future[None] = ready(None)
"""The future of every operation without a result that was complete when its call returned."""


def when_all(*futures: Future[Any]) -> Future[tuple[Any, ...]]:
    """Return the future of all results, in the order of the arguments. Local; does not wait.

    The first error becomes the error of the whole, once all are complete.

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
    """Have `act()` run inside internal progress, after so many polls. Local; does not wait.

    Args:
        polls: 0 or more; calls for two numbers happen in any order.
        act: moves data; runs no user code.

    Returns:
        The future of its end, or of its error.
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


progress.register(_finish_deferred)
