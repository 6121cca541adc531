"""The cases of two ranks: remote channels, notifications, spawned tasks and idleness, and the same by other means.

What goes one way is timed as half of a round trip. Ranks beyond the first two wait.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gondwana as gw
from gondwana_bench import build
from gondwana_bench.disturbance import processor_time
from gondwana_bench.measure import Variant
from gondwana_bench.rma.loops import signal
from gondwana_bench.tasks.cases import Case, null
from gondwana_bench.tasks.children import Children

ASLEEP, TIMES = 5e-3, 10
"""Seconds until a waiting rank sleeps for certain, and how often it is woken for one sample."""
IDLE = 0.1
"""Seconds for which the processor time of an idle rank is taken."""
_SETTLE = 1e-3
_PAUSE = 1e-3

Part = Callable[[int], object]
"""The work of one rank in a number of round trips."""


def of_ranks() -> Iterator[Case]:
    """Yield the cases between ranks 0 and 1; none on one rank. Collective over the world."""
    if gw.world.size == 1:
        return
    with Children() as children:
        yield from _channels(children)
        yield from _notifications()
        yield from _spawned(children)
    yield _idle()


# -- variants ----------------------------------------------------------------------------------------------------


def _there_and_back(first: Part, second: Part) -> Variant:
    """Return a variant from the parts of ranks 0 and 1 in round trips."""

    def variant(n: int) -> float:
        start = time.perf_counter()
        if gw.world.rank < 2:
            (first, second)[gw.world.rank](n)
        return (time.perf_counter() - start) / 2

    return variant


def by_rank_0(variant: Variant) -> Variant:
    """Return a variant of rank 0 alone, for which the others serve remote calls. Local."""
    return lambda n: variant(n) if gw.world.rank == 0 else 0.0


def others_asleep(variant: Variant) -> Variant:
    """Return a variant of rank 0 alone, for which the others leave it the cores. Local to make."""

    def run(n: int) -> float:
        seconds = variant(n) if gw.world.rank == 0 else 0.0
        _sleep_until_all_are_here()
        return seconds

    return run


def _sleep_until_all_are_here() -> None:
    arrived = gw.world.comm.Ibarrier()
    while not arrived.Test():
        time.sleep(_PAUSE)


def _median_of(call: Callable[[], object]) -> Variant:
    """Return a variant from the median of the seconds of a call."""

    def variant(n: int) -> float:
        seconds = []
        for _ in range(n):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return n * statistics.median(seconds)

    return variant


def _turns(call: Callable[[], Callable[[], None]]) -> Variant:
    """Return a variant of rank 0 from a function that returns a call that makes a round trip."""

    def variant(n: int) -> float:
        turn = call()
        start = time.perf_counter()
        for _ in range(n):
            turn()
        return (time.perf_counter() - start) / 2

    return others_asleep(variant)


# -- channels ----------------------------------------------------------------------------------------------------


def _channels(children: Children) -> Iterator[Case]:
    objects, numbers = _pair(None), _pair(int)
    queues = {
        "multiprocessing.SimpleQueue": _turns(lambda: children.simple_queue),
        "multiprocessing.Queue": _turns(lambda: children.queue),
    }
    yield Case(
        "remote channel, object one way", 1.5, _put_and_take(*objects), {**queues, "mpi4py send/recv": _pickled()}, True
    )
    yield Case("remote channel, number one way", 1.5, _put_and_take(*numbers), {"mpi4py Send/Recv": _buffers()}, True)
    yield Case(
        "remote channel, compiled, number one way", 0.2, _compiled(*numbers), {"flag in C": Shared().flag_turns}, True
    )


def _pair(dtype: type | None) -> tuple[gw.RemoteChannel[Any], gw.RemoteChannel[Any]]:
    """Return channels from rank 0 to 1 and back, each made by the rank that takes. Collective."""
    return (
        gw.RemoteChannel.of_team(gw.world, 100, dtype=dtype, home=1),
        gw.RemoteChannel.of_team(gw.world, 100, dtype=dtype, home=0),
    )


def _put_and_take(there: gw.RemoteChannel[int], back: gw.RemoteChannel[int]) -> Variant:
    def first(n: int) -> None:
        for item in range(n):
            there.put(item)
            if back.take() != item:
                raise RuntimeError("a channel has given back another item")

    def second(n: int) -> None:
        for _ in range(n):
            back.put(there.take())

    return _there_and_back(first, second)


def _compiled(there: gw.RemoteChannel[int], back: gw.RemoteChannel[int]) -> Variant:
    def part(n: int) -> None:
        if take_turns(there, back, gw.world.rank == 0, n):
            raise RuntimeError("a channel has given back another item")

    return _there_and_back(part, part)


@gw.jit
def take_turns(there: Any, back: Any, first: bool, calls: int) -> int:
    """Send numbers through a channel and get each back through another; return how many were wrong."""
    wrong = 0
    for i in range(calls):
        if first:
            there.put(i)
            if back.take() != i:
                wrong += 1
        else:
            back.put(there.take())
    return wrong


def _pickled() -> Variant:
    comm = gw.world.comm

    def first(n: int) -> None:
        for item in range(n):
            comm.send(item, 1)
            comm.recv(source=1)

    def second(n: int) -> None:
        for _ in range(n):
            comm.send(comm.recv(source=0), 0)

    return _there_and_back(first, second)


def _buffers() -> Variant:
    comm, item = gw.world.comm, np.zeros(1, np.int64)

    def first(n: int) -> None:
        for _ in range(n):
            comm.Send(item, 1)
            comm.Recv(item, 1)

    def second(n: int) -> None:
        for _ in range(n):
            comm.Recv(item, 0)
            comm.Send(item, 0)

    return _there_and_back(first, second)


# -- notifications -----------------------------------------------------------------------------------------------


class Shared:
    """A condition variable and a flag in C that ranks 0 and 1 share. Collective over the world."""

    def __init__(self) -> None:
        self._library = build.library("tasks.c", ["-fopenmp", "-pthread"])
        for function in (self._library.shared_turns, self._library.flag_turns, self._library.shared_wait):
            function.restype = ctypes.c_double
        self._memory = gw.SharedArray(self._library.shared_nbytes(), np.uint8)
        self._at = ctypes.c_void_p(self._memory.numpy().ctypes.data)
        if gw.world.rank == 0 and self._library.shared_set_up(self._at):
            raise RuntimeError("this system has no condition variables between processes")
        gw.world.barrier()

    def condition_turns(self, n: int) -> float:
        """Notify and wait in turns; return the seconds one way. Ranks 0 and 1."""
        return self._turns(self._library.shared_turns, n)

    def flag_turns(self, n: int) -> float:
        """The same with a flag that both poll."""
        return self._turns(self._library.flag_turns, n)

    def notify(self) -> None:
        """Wake the other rank, and leave it the time at which this began."""
        self._library.shared_notify(self._at)

    def wait(self) -> float:
        """Sleep until the other rank notifies; return the seconds since it began to."""
        return float(self._library.shared_wait(self._at))

    def _turns(self, function: Callable[..., float], n: int) -> float:
        return 0.0 if gw.world.rank > 1 else function(self._at, gw.world.rank, ctypes.c_long(n)) / 2


def _notifications() -> Iterator[Case]:
    signals, shared, (there, _) = gw.Signal(gw.world), Shared(), _pair(float)
    in_c = {"flag in C": shared.flag_turns, "condition variable in C": shared.condition_turns}
    yield Case("notification, waiter spinning", 1.0, _signals(signals), in_c, True)
    yield Case("notification, waiter spinning, compiled", 0.06, _compiled_signals(signals), in_c, True)
    yield Case(
        "notification, waiter asleep",
        None,
        _asleep(lambda: there.put(time.perf_counter()), lambda: -there.take() + time.perf_counter()),
        {"condition variable in C": _asleep(shared.notify, shared.wait)},
        True,
    )


def _signals(signals: gw.Signal) -> Variant:
    def first(n: int) -> None:
        for _ in range(n):
            signals.add(1)
            signals.wait()

    def second(n: int) -> None:
        for _ in range(n):
            signals.wait()
            signals.add(0)

    return _there_and_back(first, second)


def _compiled_signals(signals: gw.Signal) -> Variant:
    rank = gw.world.rank

    def part(n: int) -> None:
        signal(signals, 1 - rank, rank == 0, n)

    return _there_and_back(part, part)


def _asleep(notify: Callable[[], object], wait: Callable[[], float]) -> Variant:
    """Return a variant by the median of a fixed number of times, since the waiting rank must sleep first.

    Args:
        notify: function of rank 0.
        wait: function of rank 1; returns the seconds since the notification began.
    """

    def variant(n: int) -> float:
        if gw.world.rank == 0:
            for _ in range(TIMES):
                time.sleep(ASLEEP)
                notify()
        if gw.world.rank == 1:
            return n * statistics.median(wait() for _ in range(TIMES))
        return 0.0

    return variant


# -- spawned tasks -----------------------------------------------------------------------------------------------


def _spawned(children: Children) -> Iterator[Case]:
    yield Case(
        "spawn + fetch of a null task, median",
        12.0,
        by_rank_0(_median_of(lambda: gw.fetch(gw.spawn(null)))),
        {"multiprocessing.Pool.apply": others_asleep(_median_of(lambda: children.apply(null)))},
        True,
    )
    yield Case("spawn of many null tasks, then fetch", 5.0, _many, collective=True)


def _many(n: int) -> float:
    start = time.perf_counter()
    if gw.world.rank == 0:
        gw.fetch([gw.spawn(null) for _ in range(n)])
    return time.perf_counter() - start if gw.world.rank == 0 else 0.0


# -- idleness ----------------------------------------------------------------------------------------------------


def _idle() -> Case:
    comm, (there, _) = gw.world.comm, _pair(None)
    waits = {"mpi4py recv": _idleness(lambda: comm.send(None, 1), lambda: comm.recv(source=0))}
    return Case(
        "processor time of an idle rank in a second", 1e4, _idleness(lambda: there.put(1), there.take), waits, True
    )


def _idleness(end: Callable[[], object], wait: Callable[[], object]) -> Variant:
    """Return a variant of the processor time that rank 1 takes while it waits, as a share.

    Args:
        end: function of rank 0 that ends the wait.
        wait: function of rank 1.
    """
    processes = gw.world.allgather(os.getpid())

    def variant(n: int) -> float:
        share = 0.0
        if gw.world.rank == 1:
            wait()
        elif gw.world.rank == 0:
            time.sleep(_SETTLE)
            start, taken = time.perf_counter(), processor_time(processes[1])
            time.sleep(IDLE)
            share = (processor_time(processes[1]) - taken) / (time.perf_counter() - start)
            end()
        _sleep_until_all_are_here()
        return n * max(share, 1e-9)

    return variant
