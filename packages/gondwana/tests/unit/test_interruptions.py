"""Which exceptions are the program's own, wherever they are delivered, and how they reach the main thread."""

from __future__ import annotations

import _signal
import asyncio
import functools
import importlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import gondwana as gw
from gondwana.futures import deferred_by
from gondwana.runtime import interruptions


def fail(number: int, frame: FrameType | None) -> None:
    raise ValueError("of a handler")


class Handler:
    def method(self, number: int, frame: FrameType | None) -> None:
        raise ValueError("of a method")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        raise ValueError("of an object")


@pytest.fixture
def handled() -> Iterator[Callable[[Any], None]]:
    previous = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler) and None
    signal.signal(signal.SIGALRM, previous)


def raise_alarm(*_: object) -> None:
    signal.raise_signal(signal.SIGALRM)


@pytest.mark.parametrize("handler", [fail, Handler().method, Handler(), functools.partial(fail)])
def test_what_a_signal_handler_raises_is_the_programs(handler: Any, handled: Callable[[Any], None]) -> None:
    handled(handler)
    with pytest.raises(ValueError, match="of a") as raised:
        raise_alarm()
    assert interruptions.is_interruption(raised.value)


def test_exits_are_the_programs_and_other_errors_are_not() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 / 0
    assert not interruptions.is_interruption(raised.value)
    assert interruptions.is_interruption(SystemExit(0))
    assert interruptions.is_interruption(KeyboardInterrupt())


@pytest.mark.parametrize("handler", [_signal.default_int_handler, interruptions._interrupt])
def test_an_interruption_is_delivered_unless_the_program_raises_it(handler: Any) -> None:
    previous = signal.signal(signal.SIGINT, handler)
    try:
        for interrupt, delivered in (
            (lambda: signal.raise_signal(signal.SIGINT), True),
            (lambda: asyncio.run(_interrupted()), True),
            (_raise_interrupt, False),
        ):
            with pytest.raises(KeyboardInterrupt) as raised:
                interrupt()
            assert interruptions.is_delivered(raised.value) == delivered
    finally:
        signal.signal(signal.SIGINT, previous)
    assert not interruptions.is_delivered(SystemExit(0))


async def _interrupted() -> None:
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interruption_of_a_task_ends_the_body_of_its_pool() -> None:
    with pytest.raises(KeyboardInterrupt), gw.WorkerPool() as pool:
        pool.submit(signal.raise_signal, signal.SIGINT)


def test_it_is_no_result_of_a_call_or_a_continuation(handled: Callable[[Any], None]) -> None:
    handled(fail)
    for start in (
        lambda: gw.rpc(0, raise_alarm),
        lambda: gw.rpc(0, abs, -1).then(raise_alarm),
        lambda: deferred_by(0, raise_alarm),
    ):
        with pytest.raises(ValueError, match="of a handler"):
            start().exception()


def test_the_main_thread_raises_what_another_hands_to_it() -> None:
    interruptions.prepare()
    thread = threading.Timer(0.1, interruptions.raise_in_main, (KeyError("handed over"),))
    thread.start()
    with pytest.raises(KeyError, match="handed over"):
        time.sleep(5)
    thread.join()
    assert interruptions.take() is None


def test_a_package_that_is_imported_does_not_discard_it(
    handled: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the optional parts of Numba do, which a rank imports at its first call of compiled code."""
    handled(fail)
    (tmp_path / "discarding.py").write_text(
        "import signal, time\n"
        "try:\n    signal.raise_signal(signal.SIGALRM)\n    time.sleep(0.5)\nexcept Exception:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="of a handler"):
        interruptions.import_on_thread("discarding")
    assert importlib.import_module("discarding").signal is signal  # the other thread goes on
    interruptions.import_on_thread("no_such_module")
