"""Calls of a function for many items: `submit`, `map` and `pmap`, the same in a program and in its tasks."""

from __future__ import annotations

import concurrent.futures
import itertools
import operator
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from gondwana.errors import UsageError
from gondwana.runtime.terminal import ProgressBar
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.packing import Function, Packed, Packer
from gondwana.tasks.pool.task import RUN_BATCH, Outcomes, TaskFuture, Waiter

T = TypeVar("T")

BATCH = 8e-3
"""Seconds of work in a batch: a message costs some 0.1 ms of processor time on both sides."""
MOST_ITEMS = 4096
"""The most items of a batch."""
BATCHES = 16
"""Batches for each worker that a map has under way, so that endless inputs are read only as fast as they are used."""

YEAR = 366 * 86400.0
"""Seconds of the longest time limit."""

_here: weakref.WeakValueDictionary[str, Submitter] = weakref.WeakValueDictionary()


def _find(key: str) -> Submitter:
    """Return the submitter of a pool in this process."""
    found = _here.get(key)
    if found is None:
        raise UsageError("a pool can be sent to its own tasks only: submit tasks to it where it is")
    return found


class Shared(Waiter, Protocol):
    """The part of a pool or of a worker that submitting needs."""

    packer: Packer

    @property
    def workers(self) -> int:
        """Number of workers, as far as this side knows."""


class Submitter(concurrent.futures.Executor):
    """An executor over the workers of a pool. Local.

    It can be sent to tasks of the pool, which submit tasks to it as the program does.

    Args:
        key: name of the pool in all its processes.
    """

    _limit: float | None = None

    def __init__(self, key: str) -> None:
        self._key = key
        _here[key] = self

    def __reduce__(self) -> Any:
        return _find, (self._key,)

    @property
    def _shared(self) -> Shared:
        raise NotImplementedError

    def _submit(self, function: Function, packed: Packed, limit: float | None = None) -> TaskFuture:
        raise NotImplementedError

    def with_time_limit(self, seconds: float) -> Submitter:
        """Return an executor that submits to this pool, and gives each task a time limit. Local.

        A task that runs longer is ended with its worker, whatever it is doing: its future raises `TimeLimitError`, and
        another worker takes the place. The time begins when the task begins. Since a rank cannot be ended without its
        job, a rank runs such tasks in a process that it starts, which takes no part in the job. Programs that a task
        has started are not ended.

        Args:
            seconds: time limit of each task.

        Raises:
            UsageError: the limit is not positive, or longer than a year. From `submit`, in a task: tasks with a time
                limit submit no others, and are submitted by none.

        Example:
            >>> import gondwana as gw
            >>> with gw.WorkerPool(2) as pool:
            ...     print(pool.with_time_limit(60).submit(pow, 2, 10).result())
            1024
        """
        if not 0 < seconds <= YEAR:
            raise UsageError(f"with_time_limit({seconds}): give seconds, more than 0 and at most {YEAR:g} (a year)")
        return _Limited(self, seconds)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        """Have a worker call `fn(*args, **kwargs)`; return the future of the result. Local; does not wait.

        Arguments are copied before this returns. Large NumPy arrays are not pickled, but copied as they are.

        Args:
            fn: a function; one that no name leads to (a lambda, or one of a notebook) is sent by value.
            args: any objects that can be pickled.
            kwargs: likewise.

        Raises:
            TypeError: an object cannot be pickled.
            PoolClosedError: the pool is shut down.
            PoolBrokenError: the pool has no workers any more.
        """
        packer = self._shared.packer
        return self._submit(packer.function(fn), packer.value((args, kwargs)))

    def map(
        self,
        fn: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """Return an iterator over the results of `fn` for each item, in order. Local; starts all tasks at once.

        Args:
            fn: called with one item of each iterable.
            iterables: iterables, read to the end of the shortest.
            timeout: seconds from now after which a missing result is an error; None: no limit.
            chunksize: number of items in a task.

        Raises:
            UsageError: `chunksize` is not positive, or not 1 with a time limit.
            TimeoutError: from the iterator, which then cancels tasks that have not started; so do errors of `fn`.
        """
        if chunksize < 1:
            raise UsageError(f"chunksize={chunksize}: give 1 or more")
        end = None if timeout is None else time.monotonic() + timeout
        function, items = self._shared.packer.function(fn), zip(*iterables, strict=False)
        if chunksize == 1:
            value = self._shared.packer.value
            return _results(deque(self._submit(function, value((item, {}))) for item in items), _one, end)
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        return _results(deque(self._submit_batch(function, chunk, True) for chunk in chunks), _several, end)

    def pmap(
        self,
        fn: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        batch: int | None = None,
        ordered: bool = True,
        on_error: Callable[[Exception], T] | None = None,
        retries: int = 0,
        progress: str = "",
    ) -> Iterator[T]:
        """Return an iterator over the results of `fn` for each item, which workers compute in parallel. Local.

        Work begins at once and continues while results are used; iterables may be endless.

        Args:
            fn: called with one item of each iterable.
            iterables: iterables, read to the end of the shortest, some way ahead of the results.
            batch: number of items that a worker gets at a time; None: as many as take about eight milliseconds, one
                with a time limit.
            ordered: whether results come in the order of the items; else as they are ready.
            on_error: gets the exception of an item, after the retries, and returns the result to use for it; None:
                the iterator raises the exception, and tasks that have not started are cancelled. Exceptions that are
                no `Exception`, such as SystemExit, always do this, and at once.
            retries: number of further tries of an item when it fails, or when its worker is lost.
            progress: label of a progress bar on the terminal, which the iterator shows; "" for none.

        Raises:
            UsageError: `batch` or `retries` is too small, or `batch` not 1 with a time limit.

        Example:
            >>> import gondwana as gw
            >>> with gw.WorkerPool() as pool:
            ...     print(list(pool.pmap(pow, [2, 3], [10, 10])))
            [1024, 59049]
        """
        if batch is not None and batch < 1:
            raise UsageError(f"batch={batch}: give 1 or more, or None")
        if retries < 0:
            raise UsageError(f"retries={retries}: give 0 or more")
        batch = batch or (None if self._limit is None else 1)
        total = min(map(operator.length_hint, iterables), default=0)
        items = zip(*iterables, strict=False)
        results = _ParallelMap(self, fn, items, total, batch, ordered, on_error, retries).results()
        return _with_progress(results, progress, total) if progress else results

    def _submit_batch(self, function: Function, items: list[Any], stop: bool) -> TaskFuture:
        if self._limit is not None and len(items) > 1:
            raise UsageError(f"{len(items)} items in a task with a time limit: leave out batch=, or give chunksize=1")
        packer = self._shared.packer
        return self._submit(RUN_BATCH, packer.value(((function, items, stop), {})))


class _Limited(Submitter):
    """A pool with a time limit for what is submitted to it; sent to a task, it is the pool itself."""

    def __init__(self, pool: Submitter, limit: float) -> None:
        self._pool, self._limit = pool, limit

    def __reduce__(self) -> Any:
        return self._pool.__reduce__()

    @property
    def _shared(self) -> Shared:
        return self._pool._shared

    def _submit(self, function: Function, packed: Packed, limit: float | None = None) -> TaskFuture:
        return self._pool._submit(function, packed, self._limit if limit is None else limit)


def _results(futures: deque[TaskFuture], values: Callable[[Any], Iterable[Any]], end: float | None) -> Iterator[Any]:
    """Yield the values of futures in order until a time; cancel the rest when no more are wanted."""
    try:
        while futures:
            result = futures[0].result(None if end is None else max(0.0, end - time.monotonic()))
            futures.popleft()
            yield from values(result)
    finally:
        for future in futures:
            future.cancel()


def _one(result: Any) -> Iterable[Any]:
    return (result,)


def _several(result: Outcomes) -> Iterator[Any]:
    """Yield the results of a batch; raise its error."""
    _, values, errors = result
    first = min(errors, default=None)
    yield from values[:first]
    if first is not None:
        raise packing.load_error(errors[first], "a worker")


class _ParallelMap:
    """A `pmap`: its batches, and runs of results by the number of their first item."""

    def __init__(
        self,
        pool: Submitter,
        function: Callable[..., Any],
        items: Iterator[Any],
        total: int,
        batch: int | None,
        ordered: bool,
        on_error: Callable[[Exception], Any] | None,
        retries: int,
    ) -> None:
        self._pool, self._shared, self._function = pool, pool._shared, pool._shared.packer.function(function)
        self._items, self._left, self._read = items, total, 0
        self._batch, self._ordered, self._on_error, self._retries = batch, ordered, on_error, retries
        self._seconds = 0.0
        self._flying: dict[concurrent.futures.Future[Any], tuple[int, list[Any]]] = {}
        self._landed: deque[concurrent.futures.Future[Any]] = deque()
        self._tries: dict[int, int] = {}
        self._runs: dict[int, list[Any]] = {}
        self._held, self._read_all = 0, False
        self._refill()

    def results(self) -> Iterator[Any]:
        """Yield the results."""
        following = 0
        while True:
            if not self._flying:
                self._refill()
            run = self._runs.pop(following if self._ordered else next(iter(self._runs), following), None)
            if run is not None:
                self._held -= len(run)
                following += len(run)
                yield from run
                continue
            if not self._flying:
                return
            self._shared.wait(lambda: bool(self._landed), None)
            try:
                while self._landed:
                    self._take(self._landed.popleft())
            except BaseException:
                self.cancel()
                raise
            self._refill()

    def cancel(self) -> None:
        """Cancel the tasks that have not started."""
        self._read_all = True
        flying, self._flying = self._flying, {}
        for future in flying:
            future.cancel()

    def _refill(self) -> None:
        """Send batches while more should be under way, and results are not far ahead of their use."""
        most = (BATCHES if self._batch or self._seconds else 2) * max(1, self._shared.workers)
        while not self._read_all and len(self._flying) < most and self._held < most * self._size():
            items = list(itertools.islice(self._items, self._size()))
            if not items:
                self._read_all = True
                return
            self._send(self._read, items)
            self._left -= len(items)
            self._read += len(items)

    def _size(self) -> int:
        """Return the number of items for the next batch."""
        if self._batch is not None:
            return self._batch
        if not self._seconds:
            return 1
        size = int(BATCH / max(self._seconds, BATCH / MOST_ITEMS))
        if self._left > 0:
            size = min(size, self._left // (4 * max(1, self._shared.workers)))
        return max(1, size)

    def _send(self, first: int, items: list[Any]) -> None:
        future = self._pool._submit_batch(self._function, items, False)
        self._flying[future] = first, items
        future.add_done_callback(self._landed.append)

    def _take(self, future: concurrent.futures.Future[Any]) -> None:
        """Take the outcomes of a batch, and resend the items to retry."""
        first, items = self._flying.pop(future, (0, []))
        error = future.exception()
        if isinstance(error, Exception):
            for key, item in enumerate(items, first):
                self._fail(key, item, error)
            return
        seconds, values, errors = future.result()
        each = seconds / len(values)
        # One item that lasts longer may have waited for a core; many such items differ from the earlier ones.
        self._seconds = each if each > 4 * self._seconds else 0.8 * self._seconds + 0.2 * each
        begin = 0
        for place, data in errors.items():
            self._keep(first + begin, values[begin:place])
            begin = place + 1
            self._fail(first + place, items[place], packing.load_error(data, "a worker"))
        self._keep(first + begin, values[begin:] if begin else values)

    def _keep(self, first: int, run: list[Any]) -> None:
        """Keep results until it is their turn."""
        if run:
            self._runs[first] = run
            self._held += len(run)

    def _fail(self, key: int, item: Any, error: BaseException) -> None:
        if not isinstance(error, Exception):
            raise error  # such as an exit, which is not retried either
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        if tries <= self._retries:
            self._send(key, [item])
        elif self._on_error is None:
            if isinstance(error, StopIteration):  # which would look like the end of the results
                raise RuntimeError(f"an item raised {error!r}") from error
            raise error
        else:
            self._keep(key, [self._on_error(error)])


class _First:
    rank = 0


def _with_progress(results: Iterator[Any], label: str, total: int) -> Iterator[Any]:
    with ProgressBar(_First(), label, total) as bar:
        for done, result in enumerate(results, 1):
            bar.show(done)
            yield result
