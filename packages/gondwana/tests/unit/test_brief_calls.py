"""Remote calls by machine code, on one rank that calls itself: what they take, errors, new functions, references."""

from __future__ import annotations

import enum
import gc
import itertools
import sys
import threading
import tracemalloc
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.calls import brief_calls, mailbox
from gondwana.errors import UsageError
from gondwana.futures import Promise
from gondwana.runtime import progress

PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.complex_numbers(allow_nan=False),
    st.text(), st.binary(max_size=200),
)  # fmt: skip
arrived: list[Any] = []


class Colour(enum.IntEnum):
    RED = 1


def echo(*values: Any) -> Any:
    return values


def first(*values: Any, **_more: Any) -> Any:
    return values[0]


def record(*values: Any) -> None:
    arrived.append(values)


def fail(text: str) -> None:
    raise ValueError(text)


def relay(depth: int) -> None:
    record(depth)
    if depth:
        gw.rpc_ff(0, relay, depth - 1)


def later() -> gw.Future[int]:
    promise: Promise[int] = Promise()
    progress.enqueue(lambda: promise.set_result(5))
    return promise.future


def brief() -> int:
    """How many calls and replies have been sent by machine code."""
    return mailbox.own().rings.totals([0])[0]


@pytest.fixture(autouse=True)
def _introduce() -> Iterator[None]:
    """Give the functions their numbers."""
    arrived.clear()
    for function in (echo, first):
        gw.rpc(0, function, 0).result()
    gw.rpc(0, record).result()
    gw.rpc(0, relay, 0).result()
    arrived.clear()
    yield
    gw.quiesce()


@given(st.tuples(PLAIN, PLAIN, st.tuples(PLAIN, PLAIN)))
def test_plain_values_arrive_as_they_were(values: tuple[Any, ...]) -> None:
    before = brief()
    result = gw.rpc(0, echo, *values).result()
    assert result == values
    assert [type(value) for value in result[:2] + result[2]] == [type(value) for value in values[:2] + values[2]]
    assert brief() == before + 2


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, Colour.RED, np.float64(2.5), np.arange(3), (((1,),),), (1, [2]), bytes(10_000)]
)
def test_other_values_take_the_general_path(value: Any) -> None:
    result = gw.rpc(0, first, value).result()
    assert type(result) is type(value)
    assert np.all(result == value)


def test_keywords_and_what_returns_futures() -> None:
    assert gw.rpc(0, first, 1, more=2).result() == 1
    for _ in range(3):
        assert gw.rpc(0, later).result() == 5
        assert gw.rpc(0, abs, -4).result() == 4


def test_errors_come_back_and_calls_go_on() -> None:
    for number in range(3):
        futures = [gw.rpc(0, fail, str(number)), gw.rpc(0, first, number)]
        with pytest.raises(ValueError, match=str(number)) as caught:
            futures[0].result()
        assert "in fail" in caught.value.__notes__[0]
        assert futures[1].result() == number
    gw.rpc_ff(0, fail, "forgotten")
    gw.rpc_ff(0, record, 1)
    with pytest.raises(ValueError, match="forgotten"):
        gw.quiesce()
    gw.quiesce()
    assert arrived == [(1,)]


def test_calls_may_send_calls() -> None:
    gw.rpc_ff(0, relay, 300)
    gw.quiesce()
    assert arrived == [(depth,) for depth in range(300, -1, -1)]


def test_a_flood_waits_for_room() -> None:
    for number in range(20_000):
        gw.rpc_ff(0, record, number, "some text")
    gw.quiesce()
    assert sorted(arrived) == [(number, "some text") for number in range(20_000)]


def test_attempts_are_brief_too() -> None:
    before = brief()
    answer = gw.try_rpc(0, first, 7)
    assert answer is not None
    assert answer.result() == 7
    assert gw.try_rpc_ff(0, record, 8)
    gw.quiesce()
    assert arrived == [(8,)]
    assert brief() == before + 3


_modules = itertools.count()


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    made = types.ModuleType(f"made_for_brief_calls_{next(_modules)}")  # a module of the same name would be a stranger
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def define(module: types.ModuleType, result: int) -> Any:
    exec(f"def function(): return {result}", vars(module))
    return module.function


def test_a_function_that_is_defined_again_or_removed(module: types.ModuleType) -> None:
    old = define(module, 1)
    assert [gw.rpc(0, old).result() for _ in range(3)] == [1, 1, 1]
    waiting = gw.rpc(0, old)
    new = define(module, 2)
    assert waiting.result() == 2  # what has this name when the call runs
    assert gw.rpc(0, old).result() == 1  # its name does not lead to it any more, so it goes by value
    assert [gw.rpc(0, new).result() for _ in range(3)] == [2, 2, 2]
    waiting = gw.rpc(0, new)
    del module.function
    with pytest.raises(UsageError, match="function"):
        waiting.result()


@pytest.mark.parametrize("limit", ["_KEPT", "MOST_NUMBERS"])
def test_more_functions_than_are_remembered(
    limit: str, monkeypatch: pytest.MonkeyPatch, module: types.ModuleType
) -> None:
    monkeypatch.setattr(brief_calls, limit, 2)
    for number in range(6):
        exec(f"def function_{number}(): return {number}", vars(module))
    for _ in range(3):
        assert [gw.rpc(0, getattr(module, f"function_{number}")).result() for number in range(6)] == list(range(6))


def test_what_is_no_function_but_can_be_called() -> None:
    for _ in range(3):
        assert gw.rpc(0, "a,b".split, ",").result() == ["a", "b"]
        assert gw.rpc(0, int, "7").result() == 7
        assert gw.rpc(0, lambda: 3).result() == 3
    with pytest.raises(TypeError):
        gw.rpc(0, [], 1).result()  # type: ignore[arg-type]


def _call_often(times: int, text: str, pair: tuple[Any, ...]) -> None:
    for _ in range(times):
        assert gw.rpc(0, echo, text, pair).result() == (text, pair)
        gw.rpc_ff(0, record, text)
    gw.quiesce()
    arrived.clear()


def _fail_often(times: int) -> None:
    for _ in range(times):
        with pytest.raises(ValueError, match="x"):
            gw.rpc(0, fail, "x").result()


def test_references_are_given_back() -> None:
    text, pair = "some text that nobody else has", (3.25, b"bytes")
    things: tuple[Any, ...] = (text, pair, echo, record, fail)
    _call_often(10, text, pair)
    _fail_often(10)
    gc.collect()
    counts = [sys.getrefcount(thing) for thing in things]
    tracemalloc.start()
    _call_often(10, text, pair)
    before = tracemalloc.get_traced_memory()[0]
    _call_often(1000, text, pair)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    _fail_often(100)
    gc.collect()
    assert [sys.getrefcount(thing) for thing in things] == counts
    assert grown < 1000 * 16  # a leak of one object a call would be more


def test_threads_call_at_the_same_time() -> None:
    wrong: list[Any] = []

    def call(thread: int) -> None:
        for number in range(300):
            if gw.rpc(0, echo, thread, number).result() != (thread, number):
                wrong.append((thread, number))

    with gw.progress_thread():
        threads = [threading.Thread(target=call, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_number_may_be_given_again(module: types.ModuleType) -> None:
    one, two = define(module, 1), define(module, 2)
    vars(module).update(one=one, two=two)
    one.__qualname__, two.__qualname__ = "one", "two"
    assert gw.rpc(0, one).result() == 1
    receiver = mailbox.own().brief._receivers[0]
    del receiver.numbers[f"{module.__name__}:one"], receiver.functions[one]  # as if it had not been noted
    assert [gw.rpc(0, two).result() for _ in range(3)] == [2, 2, 2]
    assert [gw.rpc(0, one).result() for _ in range(3)] == [1, 1, 1]
