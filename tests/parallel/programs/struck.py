"""A signal handler of rank 1 raises or exits exactly where that is most easily lost; the others wait for rank 1.

Arguments: what the handler does (raise, exit), where the signal strikes.
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


class StruckError(Exception):
    """What the handler raises."""


def strike(number: int, frame: FrameType | None) -> None:
    print(f"now {time.time()}", flush=True)
    if sys.argv[1] == "exit":
        sys.exit(3)
    raise StruckError("the odd one")


def be_struck(*_: object) -> int:
    signal.raise_signal(signal.SIGALRM)
    return 0


def wander() -> None:
    while True:
        gw.progress()
        time.sleep(0.01)


class Finalized:
    def __del__(self) -> None:
        be_struck()


class Busy:
    def __del__(self) -> None:
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass


class Referred:
    """Something that a weak reference can point to."""


_kept: list[object] = []


def in_place(where: str) -> None:
    if where == "finalizer":
        Finalized()
    elif where == "weak reference":
        thing = Referred()
        _kept.append(weakref.ref(thing, be_struck))
        del thing
    elif where == "foreign callback":
        ctypes.CFUNCTYPE(ctypes.c_int)(be_struck)()
    elif where == "finalizers":  # when it is raised again, that strikes a finalizer too
        Finalized()
        for _ in range(100):
            Busy()
    elif where == "continuation":
        gw.rpc(1, abs, -1).then(be_struck).wait()
    elif where == "device":
        deferred_by(2, lambda: be_struck() and None).wait()
    elif where == "row":
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)  # once more while the first error waits for its turn


def exit_with(status: int) -> None:
    sys.exit(status)


def rank_one(where: str) -> None:
    signal.signal(signal.SIGALRM, strike)
    if where == "end":
        signal.setitimer(signal.ITIMER_REAL, 0.5)
    elif where == "exit on a thread":
        with gw.progress_thread():
            time.sleep(60)
    elif not where.endswith("at the end"):
        in_place(where)
        wander()


def others(where: str) -> None:
    if world.rank == 0:
        if where in ("call", "call at the end"):
            gw.rpc(1, be_struck).wait()
        elif where in ("exit in a call", "exit at the end", "exit on a thread"):
            gw.rpc(1, exit_with, 3).wait()
        elif where == "leave in a call":
            gw.rpc(1, exit_with, 0).result()
    wander()


if __name__ == "__main__":
    world.barrier()
    if world.rank == min(1, world.size - 1):
        rank_one(sys.argv[2])
    else:
        others(sys.argv[2])
