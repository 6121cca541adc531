"""Calls of a function for many items: `submit`, `map` and `pmap`, the same in a program and in its tasks."""

from __future__ import annotations

import concurrent.futures
import itertools
import operator
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from gondwana.errors import UsageError
from gondwana.runtime.terminal import ProgressBar
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.dispatcher import AHEAD
from gondwana.tasks.pool.packing import Function, Packer
from gondwana.tasks.pool.task import RUN_BATCH, TaskFuture, Waiter

MOST_ITEMS = 4096
"""Items of a batch at most."""
BATCHES = 16
"""Batches for each worker that a map has on the way, so that endless inputs are read only as fast as they are used."""

_here: weakref.WeakValueDictionary[str, Submitter] = weakref.WeakValueDictionary()


def _find(key: str) -> Submitter:
    """Return what stands for a pool in this process."""
    found = _here.get(key)
    if found is None:
        raise UsageError("a pool can be sent to its own tasks only: submit tasks to it where it is")
    return found


class Shared(Waiter, Protocol):
    """What submitting needs of a pool or of a worker."""

    packer: Packer

    @property
    def workers(self) -> int:
        """How many workers there are, as far as this side knows."""


class Submitter(concurrent.futures.Executor):
    """An executor over the workers of a pool. Local.

    It can be sent to tasks of the pool, which submit tasks to it as the program does.

    Args:
        key: names the pool in all processes that have to do with it.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        _here[key] = self

    def __reduce__(self) -> Any:
        return _find, (self._key,)

    @property
    def _shared(self) -> Shared:
        raise NotImplementedError

    def _submit(self, function: Function, arguments: bytes, buffers: tuple[Any, ...]) -> TaskFuture:
        raise NotImplementedError

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Have a worker call `fn(*args, **kwargs)`; return the future of the result. Local; does not wait.

        Arguments are copied before this returns. Large NumPy arrays are not pickled, but copied as they are.

        Args:
            fn: a function; one without a name that leads to it (a lambda, or what a notebook defines) is sent by value.
            args: anything that can be pickled.
            kwargs: likewise.

        Raises:
            TypeError: something cannot be pickled.
            PoolClosedError: the pool is shut down.
            PoolBrokenError: it has no workers any more.
        """
        packer = self._shared.packer
        return self._submit(packer.function(fn), *packer.value((args, kwargs)))

    def map(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """Return an iterator over the results of `fn` for each item, in order. Local; starts all tasks at once.

        Args:
            fn: called with one item of each iterable.
            iterables: read to the end of the shortest.
            timeout: seconds from now, in which a result must be there when it is asked for; None: no limit.
            chunksize: items of a task.

        Raises:
            UsageError: `chunksize` is not positive.
            TimeoutError: from the iterator, which then cancels what has not started; so do errors of `fn`.
        """
        if chunksize < 1:
            raise UsageError(f"chunksize={chunksize}: give 1 or more")
        end = None if timeout is None else time.monotonic() + timeout
        function, items = self._shared.packer.function(fn), zip(*iterables, strict=False)
        if chunksize == 1:
            value = self._shared.packer.value
            return _results(deque(self._submit(function, *value((item, {}))) for item in items), _one, end)
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        return _results(deque(self._submit_batch(function, chunk, True) for chunk in chunks), _several, end)

    def pmap(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        batch: int | None = None,
        ordered: bool = True,
        on_error: Callable[[Exception], Any] | None = None,
        retries: int = 0,
        progress: str = "",
    ) -> Iterator[Any]:
        """Return an iterator over the results of `fn` for each item, which workers compute in parallel. Local.

        Work begins at once and goes on while results are used; iterables may be endless.

        Args:
            fn: called with one item of each iterable.
            iterables: read to the end of the shortest, some way ahead of the results.
            batch: items that a worker gets at a time; None: so many that they take about two milliseconds.
            ordered: whether results come in the order of the items; else as they are ready.
            on_error: gets the exception of an item, after the retries, and returns what to have as its result; None:
                the exception is raised by the iterator, and what has not started is cancelled. So are those that are
                no `Exception`, such as SystemExit, at once.
            retries: how often an item is tried again when it fails, or when its worker is lost.
            progress: the label of a progress bar on the terminal, which the iterator shows; "" for none.

        Raises:
            UsageError: `batch` or `retries` is too small.

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
        total = min(map(operator.length_hint, iterables), default=0)
        items = zip(*iterables, strict=False)
        results = _ParallelMap(self, self._shared.packer.function(fn), items, total, batch, ordered, on_error, retries)
        return _with_progress(results, progress, total) if progress else results

    def _submit_batch(self, function: Function, items: list[Any], stop: bool) -> TaskFuture:
        packer = self._shared.packer
        return self._submit(RUN_BATCH, *packer.value(((function, items, stop), {})))


def _results(futures: deque[TaskFuture], values: Callable[[Any], Iterable[Any]], end: float | None) -> Iterator[Any]:
    """Yield the values of futures in order until a time; cancel what is left when no more are wanted."""
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


def _several(result: tuple[float, list[tuple[bool, Any]]]) -> Iterator[Any]:
    """Yield the results of a batch; raise its error."""
    for succeeded, value in result[1]:
        if not succeeded:
            raise packing.load_error(value, "a worker")
        yield value


class _ParallelMap(Iterator[Any]):
    """The iterator over the results of `pmap`."""

    def __init__(
        self,
        pool: Submitter,
        function: Function,
        items: Iterator[Any],
        total: int,
        batch: int | None,
        ordered: bool,
        on_error: Callable[[Exception], Any] | None,
        retries: int,
    ) -> None:
        self._pool, self._shared, self._function = pool, pool._shared, function
        self._items, self._left = iter(enumerate(items)), total
        self._batch, self._ordered, self._on_error, self._retries = batch, ordered, on_error, retries
        self._seconds: float | None = None
        self._flying: dict[concurrent.futures.Future[Any], list[tuple[int, Any]]] = {}
        self._landed: deque[concurrent.futures.Future[Any]] = deque()
        self._tries: dict[int, int] = {}
        self._results: dict[int, Any] = {}
        self._next, self._read_all = 0, False
        self._refill()

    def __next__(self) -> Any:
        while True:
            if not self._flying:
                self._refill()
            if self._results and (not self._ordered or self._next in self._results):
                key = self._next if self._ordered else next(iter(self._results))
                self._next += 1
                return self._results.pop(key)
            if not self._flying:
                raise StopIteration
            self._shared.wait(lambda: bool(self._landed), None)
            try:
                while self._landed:
                    self._take(self._landed.popleft())
            except BaseException:
                self.cancel()
                raise
            self._refill()

    def cancel(self) -> None:
        """Cancel what has not started."""
        self._read_all = True
        flying, self._flying = self._flying, {}
        for future in flying:
            future.cancel()

    def _refill(self) -> None:
        """Send batches while there should be more on the way, and results are not far ahead of their use."""
        most = BATCHES * max(1, self._shared.workers)
        while not self._read_all and len(self._flying) < most and len(self._results) < most * self._size():
            keyed = list(itertools.islice(self._items, self._size()))
            if not keyed:
                self._read_all = True
                return
            self._left -= len(keyed)
            self._send(keyed)

    def _size(self) -> int:
        """Return how many items the next batch should have."""
        if self._batch is not None:
            return self._batch
        if self._seconds is None:
            return 1
        size = int(AHEAD / max(self._seconds, AHEAD / MOST_ITEMS))
        if self._left > 0:
            size = min(size, self._left // (4 * max(1, self._shared.workers)))
        return max(1, size)

    def _send(self, keyed: list[tuple[int, Any]]) -> None:
        future = self._pool._submit_batch(self._function, [item for _, item in keyed], False)
        self._flying[future] = keyed
        future.add_done_callback(self._landed.append)

    def _take(self, future: concurrent.futures.Future[Any]) -> None:
        """Take the outcomes of a batch, and send again what is to be tried again."""
        keyed = self._flying.pop(future, [])
        error = future.exception()
        if isinstance(error, Exception):
            for pair in keyed:
                self._fail(pair, error)
            return
        seconds, outcomes = future.result()
        each = seconds / len(outcomes)
        self._seconds = max(each, 0.8 * (self._seconds or 0.0) + 0.2 * each)
        for pair, (succeeded, value) in zip(keyed, outcomes, strict=True):
            if succeeded:
                self._results[pair[0]] = value
            else:
                self._fail(pair, packing.load_error(value, "a worker"))

    def _fail(self, pair: tuple[int, Any], error: BaseException) -> None:
        if not isinstance(error, Exception):
            raise error  # such as an exit, which is not tried again either
        key = pair[0]
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        if tries <= self._retries:
            self._send([pair])
        elif self._on_error is None:
            if isinstance(error, StopIteration):  # which would look like the end of the results
                raise RuntimeError(f"an item raised {error!r}") from error
            raise error
        else:
            self._results[key] = self._on_error(error)


class _First:
    rank = 0


def _with_progress(results: Iterator[Any], label: str, total: int) -> Iterator[Any]:
    with ProgressBar(_First(), label, total) as bar:
        for done, result in enumerate(results, 1):
            bar.show(done)
            yield result
