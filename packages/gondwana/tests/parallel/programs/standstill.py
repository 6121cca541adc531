"""Programs in which all ranks wait for each other for ever, and others that only look as if they did.

The argument names one of the functions below. Compiled functions are few, and shared.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

import gondwana as gw
from gondwana.futures import Promise

world = gw.world
me, last = world.rank, world.size - 1
after, before = (me + 1) % world.size, (me - 1) % world.size
LONG = 3.4
"""Seconds after which a job that stands still has been ended."""


@gw.jit
def receive(team, a, rank):
    gw.recv(team, a, rank, 7)


@gw.jit
def wait(signal):
    gw.wait(signal, 2)


@gw.jit
def meet(team):
    gw.barrier(team)


@gw.jit
def take(channel):
    return channel.take()


@gw.jit
def put(channel):
    for i in range(5):
        channel.put(1.0 + i)


@gw.jit
def go_round(plan):
    plan.start()
    plan.wait()


@gw.jit
def complete(team, a, rank):
    gw.wait_all((gw.irecv(team, a, rank, 8),))


@gw.jit
def compute(seconds):
    total, end = 0.0, gw.clock() + np.int64(seconds * 1e9)
    while gw.clock() < end:
        for i in range(1000):
            total += np.sin(total + i)
    return total


class Stuck:
    """Deadlocks."""

    @staticmethod
    def receives() -> None:
        world.recv(before, 3)

    @staticmethod
    def buffers_received() -> None:
        world.Recv(np.zeros(3), None, 4)

    @staticmethod
    def large_sends() -> None:
        world.Send(np.zeros(1 << 19), after)

    @staticmethod
    def request() -> None:
        world.Irecv(np.zeros(3), before, 5).wait()

    @staticmethod
    def collective() -> None:
        if me == last:
            world.recv(0)
        else:
            world.allreduce(1)

    @staticmethod
    def signal() -> None:
        gw.Signal(world, 2).wait(2, 1)

    @staticmethod
    def lock() -> None:
        lock = gw.Lock(world)
        if me == 0:
            lock.acquire()
        world.barrier()
        if me:
            lock.acquire()
        world.barrier()

    @staticmethod
    def locks_in_two_orders() -> None:
        locks = [gw.Lock(world) for _ in range(2)]
        locks[me % 2].acquire()
        world.barrier()
        locks[1 - me % 2].acquire()

    @staticmethod
    def empty_channel() -> None:
        gw.RemoteChannel.of_team(world, 3).take()

    @staticmethod
    def full_channel() -> None:
        channel = gw.RemoteChannel.of_team(world, 1)
        while True:
            channel.put(me)

    @staticmethod
    def future() -> None:
        gw.rpc(after, lambda: Promise().future).result()

    @staticmethod
    def exchange() -> None:
        cells = gw.zeros(gw.RectDomain((0, 0), (8, 8)), ghost=1)
        cells.exchange().wait()
        if me == 0:
            cells.exchange().wait()
        world.barrier()

    @staticmethod
    def ended() -> None:
        if me == last:
            world.recv(0)

    @staticmethod
    def tasks() -> None:
        channel = gw.RemoteChannel.of_team(world, 3)

        def consume() -> None:
            channel.take()

        tasks = [gw.Task(consume).schedule() for _ in range(2)]
        tasks[1].result()

    @staticmethod
    def compiled_receive() -> None:
        receive(world, np.zeros(2), before)

    @staticmethod
    def compiled_signal() -> None:
        wait(gw.Signal(world))

    @staticmethod
    def compiled_barrier() -> None:
        if me == last:
            world.recv(0)
        else:
            meet(world)

    @staticmethod
    def compiled_take() -> None:
        take(gw.RemoteChannel.of_team(world, 3, float))

    @staticmethod
    def compiled_put() -> None:
        put(gw.RemoteChannel.of_team(world, 3, float))

    @staticmethod
    def compiled_exchange() -> None:
        plan = gw.zeros(gw.RectDomain((0, 0), (8, 8)), ghost=1).exchange()
        plan.wait()
        if me == 0:
            go_round(plan)
        world.barrier()

    @staticmethod
    def compiled_request() -> None:
        complete(world, np.zeros(2), before)


class Different:
    """Errors that say where each rank is."""

    @staticmethod
    def collectives() -> None:
        # No rank leaves the first barrier before all are in these lines, of which a report names one.
        if me:
            _ = world.barrier(), world.barrier()
            return
        _ = world.barrier(), world.Allreduce(np.ones(2), np.ones(2))


class Patient:
    """Programs whose other ranks wait for the first one, which goes on after a while."""

    @staticmethod
    def never() -> None:
        print("is here", flush=True)
        if me == 0:
            time.sleep(100)

    @staticmethod
    def sleep() -> None:
        time.sleep(LONG)

    @staticmethod
    def compute() -> None:
        compute(LONG)

    @staticmethod
    def process() -> None:
        subprocess.run(["sleep", str(LONG)], check=True)

    @staticmethod
    def events() -> None:
        asyncio.run(asyncio.sleep(LONG))

    @staticmethod
    def limited_wait() -> None:
        try:
            gw.Signal(gw.world.split(me)).wait(timeout=LONG)
        except TimeoutError:
            return
        raise AssertionError("nobody has signalled")

    @staticmethod
    def thread() -> None:
        signal_of_mine = gw.Signal(gw.world.split(me))
        threading.Timer(LONG, signal_of_mine.add, (0,)).start()
        signal_of_mine.wait()

    @staticmethod
    def alarm() -> None:
        signal_of_mine = gw.Signal(gw.world.split(me))
        signal.signal(signal.SIGALRM, lambda *_: signal_of_mine.add(0))
        signal.setitimer(signal.ITIMER_REAL, LONG)
        signal_of_mine.wait()

    @staticmethod
    def sleeping_task() -> None:
        channel = gw.Channel()

        def produce() -> None:
            gw.sleep(LONG)
            channel.put(1)

        task = gw.Task(produce).schedule()
        channel.take()
        task.result()

    @staticmethod
    def progress_thread() -> None:
        with gw.progress_thread():
            time.sleep(LONG)

    @staticmethod
    def standard_input() -> None:
        if me == 0:
            assert input() == "go on"


def wait_for_first(act: Callable[[], None]) -> None:
    """Have rank 0 act, or all where that is collective, while the others wait for it in several ways."""
    collective = act.__name__ in ("never", "limited_wait", "thread", "alarm")
    if me == 0 or collective:
        act()
    if me == 0:
        for rank in range(1, world.size):
            world.send("go on", rank)
    elif me % 2 or collective:
        world.recv(0)
    else:
        gw.rpc(0, time.monotonic).result()
        world.recv(0)
    world.barrier()


if __name__ == "__main__":
    world.barrier()
    for name in sys.argv[1:]:
        if hasattr(Patient, name):
            wait_for_first(getattr(Patient, name))
        else:
            (getattr(Stuck, name, None) or getattr(Different, name))()
    print("went on", flush=True)
