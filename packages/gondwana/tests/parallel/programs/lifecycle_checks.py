"""Segments, signals, teams and remote calls come and go; nothing stays behind, also with more ranks than cores."""

from __future__ import annotations

import gc
import os
import resource

import numpy as np
from checks import run_checks

import gondwana as gw

world = gw.world
RIGHT = (world.rank + 1) % world.size
LEFT = (world.rank - 1) % world.size
MEBIBYTE = 1 << 20
TIMES = 20
"""How often; what one of two rounds leaves behind is noticed."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * resource.getpagesize()


def use(kind: gw.MemoryKind, nbytes: int) -> None:
    """Make a segment, write to the right neighbour's part, see what the left one wrote."""
    segment = gw.Segment(world, nbytes, kind)
    data = np.full(nbytes // 8, float(world.rank))
    gw.copy(data, segment.pointer(RIGHT, float), data.size).wait()
    world.barrier()
    back = np.empty_like(data)
    gw.copy(segment.pointer(dtype=float), back, data.size).wait()
    assert (back == LEFT).all()
    world.barrier()
    segment.close()


def comes_and_goes(kind: gw.MemoryKind, nbytes: int, times: int) -> None:
    for _ in range(5):
        use(kind, nbytes)
    gc.collect()
    files, memory = descriptors(), resident()
    for _ in range(times):
        use(kind, nbytes)
    gc.collect()
    assert descriptors() <= files + 2, (files, descriptors())
    assert resident() <= memory + 16 * MEBIBYTE, (memory, resident())


def check_host_segments_come_and_go() -> None:
    comes_and_goes(gw.host, 2 * MEBIBYTE, TIMES)


def check_device_segments_come_and_go() -> None:
    comes_and_goes(gw.fake_device, 1 << 16, TIMES)


def check_memory_of_others_takes_no_descriptors() -> None:
    segments = [gw.Segment(world, 4096) for _ in range(4)]
    files = descriptors()
    for segment in segments:
        for rank in segment.peers:
            segment.view(rank)[0] = 1
    assert descriptors() <= files + 2, (files, descriptors())
    world.barrier()


def check_segments_that_are_only_dropped_give_their_memory_back() -> None:
    files = descriptors()
    for _ in range(TIMES):
        gw.zeros(gw.RectDomain((0, 0), (256, 256)), ghost=1).fill(1.0)
    gc.collect()
    world.barrier()
    assert descriptors() <= files + 2


def check_all_the_parts_work_at_once() -> None:
    """What an application uses in one step, on as many ranks as there are."""
    signal, lock = gw.Signal(world), gw.Lock(world)
    tickets = gw.AtomicDomain("i8", ["fetch_add"], world)
    segment = gw.Segment(world, 4096)
    mine = []
    for step in range(10):
        gw.copy(np.full(8, float(step)), segment.pointer(RIGHT, float), notify=signal).wait()
        signal.wait()
        assert (segment.pointer(dtype=float).local(8) == step).all()
        assert gw.rpc(RIGHT, divmod, step, 3).result() == divmod(step, 3)
        mine.append(tickets.fetch_add(segment.pointer(0, "i8") + 100, 1).result())
        with lock:
            pass
        world.barrier()
    every = sorted(ticket for part in world.allgather(mine) for ticket in part)
    assert every == list(range(10 * world.size))


if __name__ == "__main__":
    run_checks(globals())
