"""Coroutines of asyncio in tasks. In the other direction a coroutine awaits a task as any future."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from gondwana.futures import Future, Promise
from gondwana.tasks.task import Task, sleep

T = TypeVar("T")

_LONGEST_PAUSE = 1e-3
"""Longest pause between two polls of a loop in which nothing is due [s]."""


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine of asyncio and return the future of its result. Local; does not wait.

    Inside a running loop of this thread it runs there. Otherwise it runs in its own loop, in a task, and other tasks
    run while it awaits something.

    Args:
        coroutine: result of an `async def` function.

    Example:
        >>> import asyncio
        >>> import gondwana as gw
        >>> async def add(a, b):
        ...     await asyncio.sleep(0.001)
        ...     return a + b
        >>> gw.run_coroutine(add(1, 2)).result()
        3
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return Task(_run_in_own_loop, coroutine).schedule()
    promise: Promise[T] = Promise()

    def settle(done: asyncio.Task[T]) -> None:
        if done.cancelled():
            promise.set_exception(asyncio.CancelledError())
        elif (error := done.exception()) is not None:
            promise.set_exception(error)
        else:
            promise.set_result(done.result())

    running = loop.create_task(coroutine)
    _running.add(running)  # a loop itself does not keep its tasks
    running.add_done_callback(_running.discard)
    running.add_done_callback(settle)
    return promise.future


_running: set[asyncio.Task[Any]] = set()


def _run_in_own_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop that gives way to other tasks after each of its rounds."""
    loop = asyncio.new_event_loop()
    running = loop.create_task(coroutine)
    pause = 0.0
    try:
        while not _round(loop, running):
            sleep(pause)
            pause = min(2.0 * pause + 1e-5, _LONGEST_PAUSE)
        return running.result()
    finally:
        running.cancel()  # if this task was cancelled
        _round(loop, running)
        loop.close()


def _round(loop: asyncio.AbstractEventLoop, running: asyncio.Task[Any]) -> bool:
    """Run the callbacks that are due in a loop; return whether a coroutine has ended."""
    if not running.done():
        loop.call_soon(loop.stop)
        loop.run_forever()
    return running.done()
