"""Signals on one rank: counting, channels, waiting, and what is refused."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.runtime import progress


@gw.jit
def through_compiled_code(signal: Any, me: Any, sent: Any, taken: Any, channel: Any) -> None:
    gw.signal(signal, me, sent, channel)
    gw.wait(signal, taken, channel)


@gw.jit
def with_defaults(signal: Any, me: Any, times: Any) -> None:
    for _ in range(times):
        gw.signal(signal, me)
        gw.wait(signal)


def make(channels: int = 1) -> gw.Signal:
    return gw.Signal(gw.world, channels)


def test_waits_consume_what_they_ask_for() -> None:
    signal = make()
    assert not signal.ready()
    signal.add(0, 5)
    assert signal.ready(5)
    assert not signal.ready(6)
    signal.wait(2)
    signal.wait(3)
    assert not signal.ready()


def test_channels_are_independent() -> None:
    signal = make(3)
    for channel in range(3):
        signal.add(0, channel + 1, channel)
    assert [signal.ready(channel + 1, channel) for channel in range(3)] == [True] * 3
    assert [signal.ready(channel + 2, channel) for channel in range(3)] == [False] * 3
    signal.at(0, 1).add()
    signal.wait(3, 1)
    assert signal.ready(3, 2)


def test_python_and_compiled_code_share_the_counters() -> None:
    signal = make(2)
    through_compiled_code(signal, 0, 5, 2, 1)
    signal.wait(3, 1)
    signal.add(0, 4, 1)
    through_compiled_code(signal, 0, 1, 5, 1)
    assert not signal.ready(1, 1)
    with_defaults(signal, 0, 1000)
    assert not signal.ready()


def test_timeouts_say_what_is_missing() -> None:
    signal = make(2)
    signal.add(0, 2, 1)
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"3 arrivals on channel 1 of Signal \d+ of world: only 2 after 0.05 s"):
        signal.wait(3, 1, timeout=0.05)
    assert 0.05 <= time.monotonic() - start < 5
    signal.wait(2, 1, timeout=0)


def test_waiting_makes_user_level_progress() -> None:
    signal = make()
    progress.enqueue(lambda: signal.add(0))
    signal.wait(timeout=10)


def test_waiting_in_a_callback_raises() -> None:
    signal = make()
    with progress.callback():
        with pytest.raises(gw.ProgressError, match="1 arrivals on channel 0"):
            signal.wait()
        signal.add(0)
        signal.wait()  # it is there: nothing to wait for


def test_a_compiled_wait_leaves_the_interpreter_to_others() -> None:
    signal = make()
    through_compiled_code(signal, 0, 1, 1, 0)
    waiter = threading.Thread(target=through_compiled_code, args=(signal, 0, 1, 2, 0))
    waiter.start()
    time.sleep(0.05)
    signal.add(0)
    waiter.join(10)
    assert not waiter.is_alive()


@pytest.mark.parametrize("call", [
    lambda signal: signal.add(1),
    lambda signal: signal.add(-1),
    lambda signal: signal.add(0, -1),
    lambda signal: signal.add(0, 2**31),
    lambda signal: signal.add(0, 2**64),
    lambda signal: signal.add(0, 1, 1),
    lambda signal: signal.wait(-1),
    lambda signal: signal.wait(2**31),
    lambda signal: signal.wait(2**70),
    lambda signal: signal.ready(2**64),
    lambda signal: signal.wait(1, -1),
    lambda signal: signal.ready(1, 1),
    lambda signal: make(0),
])  # fmt: skip
def test_what_is_refused(call: Any) -> None:
    with pytest.raises(UsageError, match=r"legal are ranks 0 to 0|give 1 or more"):
        call(make())


def test_nothing_to_wait_for() -> None:
    signal = make()
    signal.wait(0)
    signal.add(0, 0)
    assert signal.ready(0)
    assert not signal.ready()
    through_compiled_code(signal, 0, 0, 0, 0)
    with progress.callback():
        signal.wait(0, timeout=0)
    signal.add(0, 2**31 - 1)
    signal.wait(2**31 - 1)
    assert not signal.ready()


@gw.jit
def by_methods(signal: Any) -> None:
    signal.wait()


@gw.jit
def adding_by_methods(signal: Any) -> None:
    signal.add(0, 1)


def test_compiled_code_says_what_to_write() -> None:
    with pytest.raises(KernelError, match=r"gw\.wait\(signal, n, channel\)"):
        by_methods(make())
    with pytest.raises(KernelError, match=r"gw\.signal\(signal, rank, n, channel\)"):
        adding_by_methods(make())


def test_compiled_code_refuses_numbers_of_arrivals() -> None:
    signal = make()
    for sent, taken in ((-1, 0), (2**31, 0), (0, -1), (0, 2**40)):
        with pytest.raises(ValueError, match="between 0 and"):
            through_compiled_code(signal, 0, sent, taken, 0)
    assert not signal.ready()


def test_compiled_code_refuses_ranks_and_channels_that_are_not_there() -> None:
    signal = make()
    for rank, channel, what in ((1, 0, "rank"), (-1, 0, "rank"), (0, 1, "channel"), (0, -1, "channel")):
        with pytest.raises(IndexError, match=f"no such {what}"):
            through_compiled_code(signal, rank, 1, 1, channel)
