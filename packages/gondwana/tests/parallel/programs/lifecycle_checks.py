"""Segments, signals, teams and remote calls come and go; nothing stays behind, also with more ranks than cores."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import resource
from unittest.mock import patch

import numpy as np
from checks import run_checks

import gondwana as gw
from gondwana.memory import segment as segments
from gondwana.runtime.shared_file import HUGE, pages_of_arrays

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


def pages_at(address: int) -> dict[str, int]:
    """What the system says of the mapping that an address is in, in bytes."""
    found: dict[str, int] = {}
    here = False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            first, *rest = line.split()
            if not first.endswith(":"):
                low, high = (int(end, 16) for end in first.split("-"))
                here = low <= address < high
            elif here and rest[-1] == "kB":
                found[first[:-1]] = int(rest[0]) << 10
    return found


def check_a_large_block_gets_huge_pages_when_it_is_first_used() -> None:
    cells = 4 * HUGE // 8
    before = resident()
    field = gw.zeros(cells * world.size, ghost=1, periodic=True)
    unused = gw.zeros_like(field)
    assert resident() - before < HUGE, "what nobody has used is resident"
    field.fill(world.rank + 1.0)
    assert resident() - before < 4 * HUGE + 2 * HUGE, "more than the block is resident"
    field.exchange().wait()
    block = field.local.numpy()
    assert (block[0], block[-1]) == (LEFT + 1.0, RIGHT + 1.0)
    assert (block[1:-1] == world.rank + 1.0).all()
    world.barrier()
    if world.node.size > 1:
        for rank in {world.rank, RIGHT} & set(world.node.world_ranks):
            seen = field.block(rank).numpy()
            assert (seen[1:-1] == rank + 1.0).all()
            start = seen.ctypes.data
            assert start % HUGE < mmap.PAGESIZE, "file and addresses do not agree in where huge pages begin"
            if pages_of_arrays()["shared"] == "2 MiB":
                assert pages_at(start)["ShmemPmdMapped"] > 0
    world.barrier()
    assert not unused.local.numpy().any()


def check_large_blocks_start_at_different_places_of_a_page() -> None:
    starts = [gw.zeros(HUGE * world.size // 8).local.numpy().ctypes.data % mmap.PAGESIZE for _ in range(8)]
    assert len(set(starts)) == len(starts)


def check_small_pages_are_good_enough() -> None:
    """As on a system that makes none on demand: the same results, and nobody is bothered."""
    with patch.object(segments, "collapse", return_value=errno.EINVAL) as refused:
        field = gw.from_numpy(np.arange(2.0 * HUGE * world.size / 8), ghost=1, periodic=True)
        assert refused.called == (world.node.size > 1)
    field.exchange().wait()
    total = gw.world.allreduce(float(field.local.numpy()[1:-1].sum()))
    count = field.domain.size
    assert total == count * (count - 1) / 2


def check_a_small_block_of_a_large_segment_takes_little_memory() -> None:
    segment = gw.Segment(world, 16 * HUGE)
    heap = gw.Heap(segment)
    before = resident()
    small = [gw.array_at(heap.allocate(100, float), 100) for _ in range(10)]
    for number, array in enumerate(small):
        array.fill(number)
    assert resident() - before < 3 * HUGE
    large = gw.array_at(heap.allocate(4 * HUGE // 8, float), 4 * HUGE // 8)
    large.fill(-1.0)
    assert resident() - before < 8 * HUGE
    assert [array.numpy().sum() for array in small] == [100 * number for number in range(10)]
    assert (large.numpy() == -1.0).all()


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
