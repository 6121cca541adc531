"""Ends in the way that its argument says; ranks without a part in it wait in a collective."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

import numpy as np

from gondwana.errors import LaunchError, UsageError
from gondwana.teams import world


def solve() -> None:
    world.Allreduce(np.ones(3), np.zeros(3))


def wander() -> None:
    while True:
        time.sleep(0.05)


def fail() -> None:
    raise ValueError("the odd one")


def be_last(what: str, odd: bool) -> None:
    """Go on when rank 0 has finished, which has had its part."""
    two = world.split(int(world.rank > 0))
    if world.rank == 0:
        return
    if what.endswith("before one more sum"):
        world.allreduce(1) if odd else two.allreduce(1)
    elif what.endswith("before a message is received"):
        world.recv(0)
    elif what.endswith("and the last two still work"):
        if odd:
            time.sleep(6)  # longer than a rank waits that stands still
        two.allreduce(1)
    elif odd:
        threading.Thread(target=wander, name="worker").start()
        sys.exit(3)


def act(what: str, odd: bool) -> None:
    if what == "all raise":
        raise ValueError("everybody")
    if what == "all usage":
        raise UsageError("steps = -1: legal is a number from 1")
    if what == "all launch":
        raise LaunchError("no memory of 8 bytes")
    if what == "all exit":
        sys.exit(4)
    if what == "agree":
        world.agree(KeyError("missing") if odd else None)
    if what == "leave first":
        if world.rank == 0:
            return
        wander()
    if what.startswith("others finish"):
        be_last(what, odd)
        return
    if not odd:
        if what == "leave early":
            time.sleep(2)
            return
        solve()
    elif what == "raise":
        fail()
    elif what == "usage":
        raise UsageError("steps = -1: legal is a number from 1")
    elif what == "launch":
        raise LaunchError("no memory of 8 bytes")
    elif what == "exit":
        sys.exit(3)
    elif what == "thread":
        threading.Thread(target=fail).start()
        wander()
    elif what == "interrupt":
        raise KeyboardInterrupt
    elif what == "wander":
        wander()
    elif what == "compiled":
        ctypes.PyDLL(None).sleep(60)
    elif what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "text":
        sys.exit("a last word")


if __name__ == "__main__":
    world.barrier()
    print(f"rank {world.rank} is here", flush=True)
    act(sys.argv[1], world.rank == world.size - 1)
