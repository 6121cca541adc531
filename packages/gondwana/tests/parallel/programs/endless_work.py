"""Every rank uses the whole communication API without end; one rank fails at a given moment.

Arguments: how it fails (raise, exit, kill), which rank, after how many seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

import numpy as np

import gondwana as gw

world = gw.world
WORDS = 4096


class HandlerError(Exception):
    """What the signal handler of the failing rank raises."""


@gw.jit
def handshake(signals, right, rounds):  # type: ignore[no-untyped-def]
    """Signals around the ring without the interpreter."""
    for _ in range(rounds):
        gw.signal(signals, right)
        gw.wait(signals)
    return 0


def fail(number: int, frame: FrameType | None) -> None:
    print(f"now {time.time()}", flush=True)
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "exit":
        sys.exit(3)
    raise HandlerError("the odd one")


def work() -> None:
    right = (world.rank + 1) % world.size
    segment = gw.Segment(world, WORDS * 8)
    device = gw.Segment(world, WORDS * 8, gw.fake_device)
    signals = gw.Signal(world)
    counters = gw.AtomicDomain("i8", ["fetch_add"], world)
    lock = gw.Lock(world)
    inbox = gw.DistObject([], world)
    ours, theirs = segment.pointer(dtype=float), segment.pointer(right, float)
    data = np.arange(float(WORDS // 2))
    world.barrier()
    print(f"rank {world.rank} is here", flush=True)
    if world.rank == int(sys.argv[2]):
        signal.signal(signal.SIGALRM, fail)
        signal.setitimer(signal.ITIMER_REAL, float(sys.argv[3]))
    while True:
        handshake(signals, right, 100)
        gw.copy(data, theirs, notify=signals).wait()
        signals.wait()
        gw.copy(ours, device.pointer(right, float), WORDS // 2).wait()
        counters.fetch_add(segment.pointer(0, "i8") + WORDS - 1, 1).result()
        with lock:
            gw.get(theirs + WORDS // 2).result()
        assert gw.rpc(right, sum, [1, 2]).result() == 3
        for _ in range(20):
            gw.rpc_ff(right, lambda here, more: here.value.append(len(more)), inbox, data)
        gw.quiesce(world)
        inbox.value.clear()
        world.Allreduce(data, data.copy())
        world.barrier()


if __name__ == "__main__":
    work()
