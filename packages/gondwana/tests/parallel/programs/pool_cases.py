"""What tasks of a pool do, whatever its workers are: each case gets a pool and fails by an assertion."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import itertools
import logging
import operator
import os
import platform
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from odd_errors import DefiantError, FrozenError, OddError, OwnError

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import RemoteError

PATIENCE = 60
CASES: dict[str, Callable[[gw.WorkerPool], None]] = {}


def case(function: Callable[[gw.WorkerPool], None]) -> Callable[[gw.WorkerPool], None]:
    CASES[function.__name__] = function
    return function


def is_alone(pool: gw.WorkerPool) -> bool:
    """Whether tasks run where they are submitted."""
    return pool.submit(process).result(PATIENCE) == process()


def process() -> tuple[str, int]:
    """The process that calls it: two hosts may have the same numbers."""
    return platform.node(), os.getpid()


def error_of(function: Callable[..., object], *arguments: object) -> Exception:
    try:
        function(*arguments)
    except Exception as error:
        return error
    raise AssertionError(f"{function} raised nothing")


# -- what tasks call -------------------------------------------------------------------------------------------------


BASE_ERRORS = (
    asyncio.CancelledError("c"), GeneratorExit("g"), OwnError("o"), SystemExit(3), SystemExit("s"), SystemExit(),
    KeyboardInterrupt("k"),
)  # fmt: skip


def throw(error):
    raise error


def leave(status):
    sys.exit(status)


def defy(*_):
    raise DefiantError("mine")


def return_defiance(x):
    """Return what cannot be pickled for 2."""
    return DefiantError("result") if x == 2 else x


class Explosive:
    """What raises where it is unpickled."""

    def __reduce__(self):
        return throw, (OwnError("as it is loaded"),)


def throw_for(x, error):
    return throw(error) if x == 2 else x


def caught_inside(pool):
    return [type(pool.submit(throw, error).exception(PATIENCE)).__name__ for error in BASE_ERRORS]


def square(x):
    return x * x


def keywords(*args, **options):
    return args, options


def half(x):
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x // 2


def fail_oddly():
    raise OddError("one", "two")


def throw_from_callback(error, future):
    raise error


def make_lock(x):
    return threading.Lock() if x % 3 == 2 else x


@contextlib.contextmanager
def expected(kind: type[BaseException]) -> Iterator[None]:
    """Expect an exception of a class."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def hold(path):
    """Wait until there is a file, and at least a while."""
    end = time.monotonic() + PATIENCE
    time.sleep(0.05)
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.005)


def fail_first(folder, x):
    """Fail at the first call for each `x`, on whatever worker."""
    try:
        os.close(os.open(os.path.join(folder, str(x)), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return x
    raise OSError("not yet")


def stay():
    """Run without end, whatever is raised."""
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(PATIENCE)


def search():
    """Run without end, and keep the interpreter."""
    re.match("(a+)+b", 64 * "a")


def submit_limited(pool):
    return pool.with_time_limit(PATIENCE).submit(square, 3).result(PATIENCE)


def fibonacci(pool, n):
    if n < 2:
        return n
    other = pool.submit(fibonacci, pool, n - 1)
    return fibonacci(pool, n - 2) + other.result(PATIENCE)


def nested_maps(pool):
    return list(pool.map(square, range(5))), sorted(pool.pmap(square, range(30), ordered=False)), raise_inside(pool)


def raise_inside(pool):
    return str(error_of(pool.submit(half, 3).result))


# -- cases -----------------------------------------------------------------------------------------------------------


@case
def results(pool):
    assert isinstance(pool, concurrent.futures.Executor)
    future = pool.submit(square, 12)
    assert isinstance(future, concurrent.futures.Future)
    called = []
    future.add_done_callback(called.append)
    assert future.result(PATIENCE) == 144
    assert future.done()
    assert not future.running()
    assert not future.cancelled()
    assert future.exception() is None
    assert pool.submit(keywords, 1, [2], x=3).result(PATIENCE) == ((1, [2]), {"x": 3})
    outside = 5
    assert pool.submit(lambda x: x + outside, 1).result(PATIENCE) == 6
    assert pool.submit(operator.methodcaller("upper"), "abc").result(PATIENCE) == "ABC"
    end = time.monotonic() + PATIENCE
    while called != [future] and time.monotonic() < end:
        time.sleep(0.01)
    assert called == [future]


@case
def errors(pool):
    error = error_of(pool.submit(half, 7).result, PATIENCE)
    assert isinstance(error, ValueError)
    assert str(error) == "7 is odd"
    if not is_alone(pool):
        assert "in half" in error.__notes__[0]
        assert "Raised by a task on " in error.__notes__[0]
        odd = error_of(pool.submit(fail_oddly).result, PATIENCE)
        assert isinstance(odd, RemoteError)
        assert "OddError: one" in str(odd)
        assert isinstance(pool.submit(threading.Lock).exception(PATIENCE), TypeError), "a lock cannot be sent"
    assert isinstance(error_of(pool.submit, square, threading.Lock()), TypeError)


@case
def errors_that_are_no_exceptions(pool):
    for error in BASE_ERRORS:
        found = pool.submit(throw, error).exception(PATIENCE)
        assert type(found) is type(error)
        assert found.args == error.args
        future = pool.submit(throw, error)
        try:
            future.result(PATIENCE)
        except type(error) as raised:
            found = raised
        assert found.args == error.args
        for chunksize in (1, 3):
            results = pool.map(throw_for, range(4), [error] * 4, chunksize=chunksize)
            assert (next(results), next(results)) == (0, 1)
            with expected(type(error)):
                next(results)
        for batch in (1, 3):
            with expected(type(error)):
                list(pool.pmap(throw_for, range(4), [error] * 4, batch=batch, on_error=str, retries=2))
    assert pool.submit(leave, 3).exception(PATIENCE).code == 3
    assert pool.submit(caught_inside, pool).result(PATIENCE) == [type(error).__name__ for error in BASE_ERRORS]
    with expected(RuntimeError):
        list(pool.pmap(throw, [StopIteration(1)] * 3, batch=1))
    assert pool.submit(square, 4).result(PATIENCE) == 16


@case
def errors_and_results_that_do_not_travel(pool):
    alone = is_alone(pool)
    found = pool.submit(defy).exception(PATIENCE)
    assert "mine" in str(found)
    assert isinstance(found, DefiantError if alone else RemoteError)
    found = pool.submit(throw, FrozenError(7)).exception(PATIENCE)
    assert isinstance(found, FrozenError if alone else RemoteError)
    if alone:
        return
    for function, argument, text in ((return_defiance, 2, "not to be pickled"), (Explosive, None, "as it is loaded")):
        found = pool.submit(function, *([] if argument is None else [argument])).exception(PATIENCE)
        assert isinstance(found, OwnError)
        assert str(found) == text
    locks = list(pool.pmap(make_lock, range(6), batch=6, on_error=lambda error: type(error).__name__))
    assert locks == [0, 1, "TypeError", 3, 4, "TypeError"], "others of the batch have their results"
    assert list(pool.map(square, range(5), chunksize=3)) == [0, 1, 4, 9, 16]


@case
def callbacks_that_raise(pool):
    """What a callback raises is logged and concerns neither the future nor whoever completes it."""
    logger, messages = logging.getLogger("concurrent.futures"), []
    logger.addFilter(lambda record: messages.append(record.getMessage()) is not None)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path, called = Path(folder) / "continue", []
            future = pool.submit(hold, str(path)) if not is_alone(pool) else None
            for error in BASE_ERRORS if future is not None else ():
                future.add_done_callback(functools.partial(throw_from_callback, error))
            path.touch()
            if future is not None:
                future.add_done_callback(called.append)
                end = time.monotonic() + PATIENCE
                while not called and time.monotonic() < end:  # the pool's own thread completes it
                    time.sleep(0.01)
                assert called == [future]
                assert len(messages) == len(BASE_ERRORS)
                assert future.result(PATIENCE) is None
    finally:
        logger.filters.clear()
    assert pool.submit(square, 5).result(PATIENCE) == 25


@case
def maps(pool):
    assert list(pool.map(pow, [2, 3, 4], itertools.count(1))) == [2, 9, 64]
    assert list(pool.map(square, range(100), chunksize=7)) == [x * x for x in range(100)]
    assert list(pool.map(square, [])) == []
    for chunksize in (1, 3):
        found = pool.map(half, [2, 4, 5, 6], chunksize=chunksize)
        assert [next(found), next(found)] == [1, 2]
        assert str(error_of(next, found)) == "5 is odd"
    assert isinstance(error_of(lambda: pool.map(square, [1], chunksize=0)), UsageError)


@case
def parallel_maps(pool):
    squares = [x * x for x in range(5000)]
    assert list(pool.pmap(square, range(5000))) == squares
    assert sorted(pool.pmap(square, range(5000), ordered=False)) == squares
    for batch in (1, 7):
        assert list(pool.pmap(square, range(100), batch=batch)) == squares[:100]
    assert list(itertools.islice(pool.pmap(square, itertools.count()), 3000)) == squares[:3000]
    assert list(pool.pmap(square, [])) == []
    assert list(pool.pmap(square, range(100), progress="squares")) == squares[:100]
    for options in ({"batch": 0}, {"retries": -1}):
        assert isinstance(error_of(lambda options=options: pool.pmap(square, [1], **options)), UsageError)


@case
def failing_items(pool):
    assert str(error_of(list, pool.pmap(half, [2, 3, 4], batch=2))) == "3 is odd"
    for batch in (None, 1, 6):
        found = list(pool.pmap(half, range(40), batch=batch, on_error=str))
        assert found == [f"{x} is odd" if x % 2 else x // 2 for x in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        assert list(pool.pmap(fail_first, [folder] * 30, range(30), retries=1)) == list(range(30))
        found = list(pool.pmap(fail_first, [folder] * 3, range(30, 33), on_error=lambda error: -1))
        assert found == [-1, -1, -1]


@case
def many_outstanding(pool):
    futures = [pool.submit(square, x) for x in range(10000)]
    done, left = concurrent.futures.wait(futures, PATIENCE)
    assert len(done) == 10000
    assert not left
    assert [future.result() for future in futures] == [x * x for x in range(10000)]
    some = [pool.submit(square, x) for x in range(500)]
    assert {future.result() for future in concurrent.futures.as_completed(some, PATIENCE)} == {
        x * x for x in range(500)
    }


@case
def cancelled(pool):
    if is_alone(pool):
        assert not pool.submit(square, 1).cancel()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "continue"
        held = [pool.submit(hold, str(path)) for _ in range(pool.workers)]
        end = time.monotonic() + PATIENCE
        while not all(future.running() for future in held) and time.monotonic() < end:
            time.sleep(0.01)
        waiting = [pool.submit(square, x) for x in range(50)]
        assert isinstance(error_of(held[0].result, 0.01), TimeoutError)
        assert all(future.cancel() for future in waiting[::2])
        path.touch()
        for future in held:
            assert future.result(PATIENCE) is None
        assert [future.result(PATIENCE) for future in waiting[1::2]] == [x * x for x in range(1, 50, 2)]
        assert all(future.cancelled() for future in waiting[::2])
        assert isinstance(error_of(waiting[0].result), concurrent.futures.CancelledError)
        assert not held[0].cancel()
        done, left = concurrent.futures.wait(waiting, PATIENCE)
        assert len(done) == 50
        assert not left


@case
def nested(pool):
    assert pool.submit(fibonacci, pool, 9).result(PATIENCE) == 34
    wide = [pool.submit(fibonacci, pool, 4) for _ in range(60)]  # parents outnumber the workers
    assert [future.result(PATIENCE) for future in wide] == [3] * 60
    assert pool.submit(nested_maps, pool).result(PATIENCE) == (
        [0, 1, 4, 9, 16], [x * x for x in range(30)], "3 is odd"
    )  # fmt: skip


@case
def time_limits(pool):
    brief, long = pool.with_time_limit(0.5), pool.with_time_limit(PATIENCE)
    endless = [(function, brief.submit(function)) for function in (stay, search)]
    others = [pool.submit(square, x) for x in range(100)]
    for function, future in endless:
        error = future.exception(PATIENCE)
        assert isinstance(error, gw.TimeLimitError), repr(error)
        assert isinstance(error, TimeoutError)
        assert str(error) == f"{function.__name__}() ran longer than its time limit of 0.5 s"
        assert "It was ended with worker" in error.__notes__[0]
        assert "most recent call first" in error.__notes__[0]
    assert [future.result(PATIENCE) for future in others] == [x * x for x in range(100)]
    assert long.submit(keywords, 1, time_limit=3).result(PATIENCE) == ((1,), {"time_limit": 3})
    assert str(long.submit(half, 7).exception(PATIENCE)) == "7 is odd"
    assert list(long.map(square, range(20))) == [x * x for x in range(20)]
    assert list(long.pmap(half, range(20), on_error=str)) == [f"{x} is odd" if x % 2 else x // 2 for x in range(20)]
    for seconds in (0, -1.0, float("nan"), float("inf")):
        assert "more than 0" in str(error_of(pool.with_time_limit, seconds))
    for refused in (lambda: long.map(square, range(4), chunksize=2), lambda: long.pmap(square, range(4), batch=4)):
        assert "items in a task with a time limit" in str(error_of(refused))
    if not is_alone(pool):
        for future in (pool.submit(submit_limited, pool), long.submit(nested_maps, pool)):
            assert isinstance(future.exception(PATIENCE), UsageError)


@case
def arrays(pool):
    numbers = np.arange(300_000, dtype=np.float64)
    future = pool.submit(np.multiply, numbers, 2.0)
    numbers[:] = -1  # the task has a copy
    found = future.result(PATIENCE)
    assert np.array_equal(found, np.arange(300_000) * 2.0)
    found[0] = 7
    several = [np.full(shape, 3, np.int16) for shape in ((0,), (5, 4), (10_000,), (300, 200))]
    back = pool.submit(list, several).result(PATIENCE)
    assert all(one.shape == two.shape and np.array_equal(one, two) for one, two in zip(several, back, strict=True))
    blocks = [np.full(20_000, x) for x in range(40)]
    assert list(pool.pmap(np.sum, blocks)) == [20_000 * x for x in range(40)]


@case
def with_asyncio(pool):
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        one = loop.run_in_executor(pool, square, 3)
        others = [asyncio.wrap_future(pool.submit(square, x)) for x in range(20)]
        return [await asyncio.wait_for(future, PATIENCE) for future in (one, *others)]

    assert asyncio.run(main()) == [9, *(x * x for x in range(20))]


@case
def from_several_threads(pool):
    found: list[int] = []
    assert pool.submit(square, 2).result(PATIENCE) == 4  # from here on only where tasks are submitted

    def submit(start: int) -> None:
        futures = [pool.submit(square, x) for x in range(start, start + 300)]
        found.extend(future.result(PATIENCE) for future in futures)

    threads = [threading.Thread(target=submit, args=(300 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == [x * x for x in range(1200)]
