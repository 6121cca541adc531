"""Futures on one rank: readiness, continuations, errors, waiting, asyncio."""

from __future__ import annotations

import asyncio
import pickle
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

import gondwana as gw
from gondwana.futures import DONE, Future, Polled, Promise, deferred_by, ready, when_all
from gondwana.runtime import idle, progress
from gondwana.transfer.completion import Following, Transfer, signal_after


def test_others_may_take_from_a_queue_that_is_emptied() -> None:
    queue, seen = deque([1, 2, 3, 4]), []
    for item in progress.taken(queue):
        seen.append(item)
        queue.pop()  # as another thread does, or a call that makes progress
    assert seen == [1, 2]


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    yield
    assert not gw.progress() or not gw.progress(), "a test left work behind"


def later(value: object) -> Future[object]:
    """A future that becomes ready at the next progress."""
    promise: Promise[object] = Promise()
    progress.enqueue(lambda: promise.set_result(value))
    return promise.future


def test_ready_ones_need_no_progress() -> None:
    assert DONE.done()
    assert DONE.result() is None
    assert ready(3).result() == 3
    assert ready(3).exception() is None
    assert ready(3).then(lambda x: x + 1).done()
    assert repr(ready(3)) == "<Future: 3>"
    for future in (ready(3), ready(3).then(lambda x: x), gw.rpc(0, int, 3)):
        future.wait()
        called: list[object] = []
        future.add_done_callback(called.append)
        future.at_once(called.append)
        assert called == [future, future]
        assert not future.forget(called.append)
        assert weakref.ref(future)() is future
        assert asyncio.run(awaited(future)) == when_all(future).result()[0] == 3


async def awaited(future: Future[int]) -> int:
    return await future


def test_waiting_drives_progress() -> None:
    future = later(5)
    assert not future.done()
    assert "under way" in repr(future)
    assert future.result() == 5
    assert repr(future) == "<Future: 5>"


def test_then_flattens_futures_and_chains() -> None:
    assert later(2).then(lambda x: later(x * 10)).then(lambda x: x + 1).result() == 21


def test_errors_skip_continuations_and_arrive_once() -> None:
    def fail(x: object) -> object:
        raise KeyError(x)

    calls: list[object] = []
    chained = later(1).then(fail).then(calls.append)
    with pytest.raises(KeyError):
        chained.result()
    assert isinstance(chained.exception(), KeyError)
    assert calls == []


def test_when_all_keeps_the_order_of_its_arguments() -> None:
    slow, fast = Promise[int](), Promise[int]()
    both = when_all(slow.future, fast.future, ready(3))
    fast.set_result(2)
    assert not both.done()
    slow.set_result(1)
    assert both.result() == (1, 2, 3)
    assert when_all().result() == ()


def test_when_all_waits_for_all_before_it_fails() -> None:
    bad, good = Promise[int](), Promise[int]()
    both = when_all(bad.future, good.future)
    bad.set_exception(ValueError("no"))
    gw.progress()
    assert not both.done()
    good.set_result(1)
    with pytest.raises(ValueError, match="no"):
        both.result()


def fail() -> NoReturn:
    raise ValueError("no")


def failed() -> Future[None]:
    promise = Promise[None]()
    promise.set_exception(ValueError("no"))
    return promise.future


FAILING: dict[str, Callable[[], Future[Any]]] = {
    "promise": failed,
    "then": lambda: later(None).then(lambda _: fail()),
    "passed on": lambda: failed().then(print),
    "all": lambda: when_all(DONE, failed()),
    "following": lambda: Following(failed(), fail),
    "transfer": lambda: Transfer(failed(), DONE),
    "a signal after a copy that fails": lambda: signal_after(failed(), fail),
    "a signal that cannot be raised": lambda: signal_after(DONE, fail),
    "deferred": lambda: deferred_by(1, fail),
    "finish": lambda: Polled(lambda: False, fail),
    "ready": lambda: Polled(fail, fail),
    "value": lambda: Polled(lambda: True, fail, fail),
    "call": lambda: gw.rpc(0, fail),
    "spawned": lambda: gw.spawn(fail),
    "task": lambda: gw.Task(fail).schedule(),
}


@pytest.mark.parametrize("kind", FAILING)
def test_whoever_waits_gets_the_error(kind: str) -> None:
    for wait in ("wait", "result"):
        future = FAILING[kind]()
        with pytest.raises(ValueError, match="no"):
            getattr(future, wait)()
        assert future.done()
    future = FAILING[kind]()
    assert str(future.exception()) == "no"
    with pytest.raises(ValueError, match="no"):
        future.wait()


def test_progress_hands_an_error_on() -> None:
    then = Polled(lambda: False, fail).then(lambda _: None)
    with pytest.raises(ValueError, match="no"):
        then.wait()


def test_a_promise_can_be_kept_once() -> None:
    promise = Promise[int]()
    promise.set_result(1)
    with pytest.raises(RuntimeError, match="already"):
        promise.set_result(2)


def test_timeouts_leave_the_operation_alone() -> None:
    promise = Promise[int]()
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        promise.future.result(timeout=0.05)
    assert 0.05 <= time.monotonic() - start < 5
    promise.set_result(4)
    assert promise.future.result() == 4


def test_waiting_in_a_callback_is_refused_with_advice() -> None:
    promise = Promise[int]()
    seen: list[BaseException] = []

    def wait() -> None:
        assert gw.in_callback()
        try:
            promise.future.result()
        except gw.ProgressError as error:
            seen.append(error)

    progress.enqueue(wait)
    gw.progress()
    assert not gw.in_callback()
    assert "then(" in str(seen[0])


def test_a_ready_future_may_be_waited_for_in_a_callback() -> None:
    got: list[object] = []
    progress.enqueue(lambda: got.append(ready(7).result()))
    gw.progress()
    assert got == [7]


def test_progress_inside_a_callback_runs_no_user_code() -> None:
    order: list[str] = []

    def outer() -> None:
        progress.enqueue(lambda: order.append("inner"))
        gw.progress()
        order.append("outer")

    progress.enqueue(outer)
    while gw.progress():
        pass
    assert order == ["outer", "inner"]


def test_an_error_in_a_callback_leaves_progress_and_marks_no_callback() -> None:
    def fail() -> None:
        raise OSError("broken")

    progress.enqueue(fail)
    with pytest.raises(OSError, match="broken"):
        gw.progress()
    assert not gw.in_callback()


def test_asyncio_awaits_futures() -> None:
    async def work() -> tuple[object, object]:
        first, second = await asyncio.gather(wrap(later(1)), wrap(later(2)))
        return first, second

    async def wrap(future: Future[object]) -> object:
        return await future

    assert asyncio.run(work()) == (1, 2)


def test_a_polled_future_is_finished_by_its_wait_and_by_progress_if_listened_to() -> None:
    state = {"done": False}

    def finish() -> None:
        state["done"] = True

    future = Polled(lambda: state["done"], finish)
    gw.progress()
    assert not future.done()
    future.wait()
    assert future.done()
    state["done"] = False
    listened = Polled(lambda: state["done"], finish)
    heard: list[int] = []
    listened.then(lambda _: heard.append(1))
    while gw.progress():
        pass
    assert heard == [1]


def test_futures_cannot_be_sent() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        pickle.dumps(Promise[int]().future)


@pytest.mark.parametrize("asked", range(1, 9))
def test_a_condition_that_has_held_once_is_not_asked_again(asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals consume what they find: whichever question finds it, that of a rank about to sleep included."""
    monkeypatch.setattr(idle, "_YIELDS", 0)
    answers = iter([False] * (asked - 1) + [True])
    progress.wait_until(lambda: next(answers, False), "the one answer", timeout=5)
