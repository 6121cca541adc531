"""A signal handler of rank 1 raises or exits where its exception is most easily lost; the others wait for rank 1.

Arguments: what the handler does (raise, exit), where the signal is delivered.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import time
import weakref
from types import FrameType

import gondwana as gw
from gondwana.futures import deferred_by

world = gw.world


class HandlerError(Exception):
    """What the handler raises."""


def on_alarm(number: int, frame: FrameType | None) -> None:
    print(f"now {time.time()}", flush=True)
    if sys.argv[1] == "exit":
        sys.exit(3)
    raise HandlerError("the odd one")


def raise_alarm(*_: object) -> int:
    signal.raise_signal(signal.SIGALRM)
    return 0


def make_progress() -> None:
    while True:
        gw.progress()
        time.sleep(0.01)


class AlarmInFinalizer:
    def __del__(self) -> None:
        raise_alarm()


class SlowFinalizer:
    def __del__(self) -> None:
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass


class Referenced:
    """Something that a weak reference can point to."""


_kept: list[object] = []


def raise_alarm_in(where: str) -> None:
    if where == "finalizer":
        AlarmInFinalizer()
    elif where == "weak reference":
        thing = Referenced()
        _kept.append(weakref.ref(thing, raise_alarm))
        del thing
    elif where == "foreign callback":
        ctypes.CFUNCTYPE(ctypes.c_int)(raise_alarm)()
    elif where == "finalizers":  # when it is raised again, a finalizer is running too
        AlarmInFinalizer()
        for _ in range(100):
            SlowFinalizer()
    elif where == "continuation":
        gw.rpc(1, abs, -1).then(raise_alarm).wait()
    elif where == "device":
        deferred_by(2, lambda: raise_alarm() and None).wait()
    elif where == "row":
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)  # once more while the first error waits for its turn


def exit_with(status: int) -> None:
    sys.exit(status)


def rank_one(where: str) -> None:
    signal.signal(signal.SIGALRM, on_alarm)
    if where == "end":
        signal.setitimer(signal.ITIMER_REAL, 0.5)
    elif where == "exit on a thread":
        with gw.progress_thread():
            time.sleep(60)
    elif not where.endswith("at the end"):
        raise_alarm_in(where)
        make_progress()


def others(where: str) -> None:
    if world.rank == 0:
        if where in ("call", "call at the end"):
            gw.rpc(1, raise_alarm).wait()
        elif where in ("exit in a call", "exit at the end", "exit on a thread"):
            gw.rpc(1, exit_with, 3).wait()
        elif where == "leave in a call":
            gw.rpc(1, exit_with, 0).result()
    make_progress()


if __name__ == "__main__":
    world.barrier()
    if world.rank == min(1, world.size - 1):
        rank_one(sys.argv[2])
    else:
        others(sys.argv[2])
