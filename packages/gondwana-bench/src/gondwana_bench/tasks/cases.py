"""The cases of one rank: operations of tasks and channels that are timed, and their rivals."""

from __future__ import annotations

import asyncio
import ctypes
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet

import gondwana as gw
from gondwana_bench import build
from gondwana_bench.measure import Variant


@dataclass(frozen=True)
class Case:
    """One row of figures for each rival.

    Attributes:
        name: name of the operation.
        goal: microseconds that it may take; None: no goal.
        ours: performs it a number of times; returns the seconds.
        rivals: the same by other means, by name.
        collective: all ranks take part; else rank 0 alone, and the others sleep.
    """

    name: str
    goal: float | None
    ours: Variant
    rivals: Mapping[str, Variant] = field(default_factory=dict)
    collective: bool = False


def of_one_rank() -> list[Case]:
    """Return the cases that need one rank. Local."""
    c = _library()
    return [
        Case(
            "task create + schedule", 0.5, _create,
            {"greenlet create": _greenlet_create, "asyncio": _asyncio_create, "pthread create in C": c["thread"]},
        ),
        Case(
            "task create + schedule + run", None, _run,
            {"greenlet": _greenlet_run, "asyncio": _asyncio_run, "threading": _threads, "pthread in C": c["threads"],
             "OpenMP task in C": c["openmp"], "fork in C": c["forks"]},
        ),
        Case(
            "task switch", 0.3, _switch,
            {"greenlet": _greenlet_switch, "asyncio": _asyncio_switch, "condition variable in C": c["switches"]},
        ),
        Case("channel put", 0.1, _put, {"SimpleQueue": _queue_put, "mutex queue in C": c["put"]}),
        Case("channel take", 0.1, _take, {"SimpleQueue": _queue_take, "mutex queue in C": c["take"]}),
        Case("channel peek", 0.1, _peek),
        Case("channel put + take of two tasks, capacity 0", None, _hand_over, {"asyncio.Queue": _asyncio_hand_over}),
    ]  # fmt: skip


def null() -> None:
    """Do nothing."""


def _times(n: int, call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(n):
        call()
    return time.perf_counter() - start


# -- tasks -------------------------------------------------------------------------------------------------------


def _create(n: int) -> float:
    seconds = _times(n, lambda: gw.Task(null).schedule())
    gw.yield_task()
    return seconds


def _run(n: int) -> float:
    start = time.perf_counter()
    for _ in range(n):
        gw.Task(null).schedule()
    gw.yield_task()
    return time.perf_counter() - start


def _switch(n: int) -> float:
    def turns() -> None:
        for _ in range(n // 2 + 1):
            gw.yield_task()

    tasks = [gw.Task(turns).schedule() for _ in range(2)]
    start = time.perf_counter()
    for task in tasks:
        task.wait()
    return time.perf_counter() - start


def _greenlet_create(n: int) -> float:
    return _times(n, lambda: greenlet(null))


def _greenlet_run(n: int) -> float:
    return _times(n, lambda: greenlet(null).switch())


def _greenlet_switch(n: int) -> float:
    back = getcurrent().switch

    def turns() -> None:
        while True:
            back()

    other = greenlet(turns)
    other.switch()
    return _times(n // 2 + 1, other.switch)


def _in_loop(measure: Callable[[int], Coroutine[Any, Any, float]]) -> Variant:
    return lambda n: asyncio.run(measure(n))


async def _nothing() -> None:
    """Do nothing."""


@_in_loop
async def _asyncio_create(n: int) -> float:
    start = time.perf_counter()
    tasks = [asyncio.create_task(_nothing()) for _ in range(n)]
    seconds = time.perf_counter() - start
    await asyncio.wait(tasks)
    return seconds


@_in_loop
async def _asyncio_run(n: int) -> float:
    start = time.perf_counter()
    await asyncio.wait([asyncio.create_task(_nothing()) for _ in range(n)])
    return time.perf_counter() - start


async def _turns(n: int) -> None:
    for _ in range(n // 2 + 1):
        await asyncio.sleep(0)


@_in_loop
async def _asyncio_switch(n: int) -> float:
    start = time.perf_counter()
    await asyncio.gather(_turns(n), _turns(n))
    return time.perf_counter() - start


def _threads(n: int) -> float:
    def once() -> None:
        thread = threading.Thread(target=null)
        thread.start()
        thread.join()

    return _times(n, once)


# -- channels ----------------------------------------------------------------------------------------------------


def _puts(make: Callable[[], Any]) -> Variant:
    def variant(n: int) -> float:
        put = make().put
        start = time.perf_counter()
        for item in range(n):
            put(item)
        return time.perf_counter() - start

    return variant


def _takes(make: Callable[[], Any], take: str) -> Variant:
    def variant(n: int) -> float:
        items = make()
        for item in range(n):
            items.put(item)
        return _times(n, getattr(items, take))

    return variant


_put, _queue_put = _puts(partial(gw.Channel, None)), _puts(queue.SimpleQueue)
_take, _queue_take = _takes(partial(gw.Channel, None), "take"), _takes(queue.SimpleQueue, "get")


def _peek(n: int) -> float:
    channel = gw.Channel[int](1)
    channel.put(1)
    return _times(n, channel.peek)


def _hand_over(n: int) -> float:
    channel = gw.Channel[int]()

    def fill() -> None:
        for item in range(n):
            channel.put(item)

    task = gw.Task(fill).schedule()
    seconds = _times(n, channel.take)
    task.wait()
    return seconds


@_in_loop
async def _asyncio_hand_over(n: int) -> float:
    items: asyncio.Queue[int] = asyncio.Queue(1)

    async def fill() -> None:
        for item in range(n):
            await items.put(item)

    task = asyncio.create_task(fill())
    start = time.perf_counter()
    for _ in range(n):
        await items.get()
    seconds = time.perf_counter() - start
    await task
    return seconds


# -- in C --------------------------------------------------------------------------------------------------------


def _library() -> dict[str, Variant]:
    """Return the variants in C; each raises if its work was not done."""
    library = build.library("tasks.c", ["-fopenmp", "-pthread"])

    def call(name: str, n: int, expected: int | None = None) -> float:
        function = library[name]
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_long]
        seconds = float(function(n))
        library.tasks_ran.restype = ctypes.c_long
        if seconds < 0.0 or (expected is not None and library.tasks_ran() != expected):
            raise RuntimeError(f"{name} of tasks.c has not done its work")
        return seconds

    def put(n: int) -> float:
        seconds = call("queue_put", n)
        call("queue_take", n)
        return seconds

    def take(n: int) -> float:
        call("queue_put", n)
        return call("queue_take", n)

    return {
        "thread": lambda n: call("threads_create", n, n),
        "threads": lambda n: call("threads_create_join", n, n),
        "forks": lambda n: call("forks", n),
        "openmp": lambda n: call("openmp_tasks", n, n),
        "switches": lambda n: call("condition_switches", n),
        "put": put,
        "take": take,
    }
