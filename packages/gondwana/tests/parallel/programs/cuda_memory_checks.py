"""What holds for CUDA memory beyond the matrix of copies: order, paths, refusals of the driver, lifetime.

Every rank calls the driver itself where a program would launch kernels.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time

import numpy as np
from checks import raised, raises, run_checks

import gondwana as gw
from gondwana.errors import LaunchError, UsageError
from gondwana.futures import DONE
from gondwana.gpu.device import device, opened
from gondwana.gpu.driver import driver
from gondwana.gpu.interface import CudaError
from gondwana.memory import cuda_kind, fallbacks, ipc, pinned, reclaim
from gondwana.teams import device_memory
from gondwana.transfer import paths
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.devices.device_boxes import copy_box
from gondwana.transfer.slots import SLOT

world = gw.world
ME, RANKS = world.rank, world.size
RIGHT, LEFT = (ME + 1) % RANKS, (ME - 1) % RANKS
BIG = 5 * SLOT // 8 + 3
"""Numbers that take several slots, and are no whole number of them."""


def near(rank):
    """Whether a rank is on this node, as far as the library believes."""
    return world.node_of(rank) == world.node_index


def far_path(otherwise):
    """The path between device memory and memory of another node: another one if MPI does not take device memory."""
    return "aware" if device_memory.is_taken() else otherwise


def numbers(count, seed=0):
    return np.random.default_rng([ME, seed]).random(count)


def moved(before):
    """What went along each path since then, the paths that nothing took left out."""
    after = paths.counters()
    return {name: after[name].operations - count.operations for name, count in before.items() if after[name] != count}


@contextlib.contextmanager
def refusing(name):
    """The driver refuses one of its functions meanwhile."""

    def refuse(*_):
        raise CudaError(f"CUDA_ERROR_OPERATING_SYSTEM: {name} is refused")

    setattr(driver(), name, refuse)
    try:
        yield
    finally:
        delattr(driver(), name)


@contextlib.contextmanager
def counting(*names):
    """Count calls of functions of the driver."""
    calls = dict.fromkeys(names, 0)

    def counted(name, function):
        def call(*arguments):
            calls[name] += 1
            return function(*arguments)

        return call

    for name in names:
        setattr(driver(), name, counted(name, getattr(driver(), name)))
    try:
        yield calls
    finally:
        for name in names:
            delattr(driver(), name)


class Kernel:
    """A kernel of a program, which copies numbers from one place of a device to another on any stream."""

    def __init__(self):
        self.device = device(0)

    def __call__(self, source, target, count, stream):
        copy_box(self.device, BoxCopy.of((count,), 8, (8,), (8,), source=source, target=target), stream)


def check_a_rank_without_a_device_reaches_that_of_a_peer():
    """It opens the device where the memory lies. First of all: the other checks open devices on all ranks."""
    segment = gw.Segment(world, 80, gw.cuda(0) if ME == 0 else gw.host)
    assert bool(opened()) == (ME == 0)
    world.barrier()
    before = paths.counters()
    there = segment.pointer(0, float) + ME % 10
    gw.put(ME + 0.5, there).wait()
    assert gw.get(there).result() == ME + 0.5 or RANKS > 10
    path = "driver" if ME == 0 else "ipc" if near(0) else far_path("message")
    assert moved(before).get(path), moved(before)
    assert bool(opened()) == near(0)
    world.barrier()


def check_the_paths_between_all_ends():
    """Counters say who moved what."""
    host, mine, other = (gw.Segment(world, 8 * BIG, kind) for kind in (gw.host, gw.cuda(0), gw.cuda(0)))
    data = numbers(BIG)
    theirs = "driver" if RIGHT == ME else "ipc" if near(RIGHT) else far_path("staged")
    for source, target, path in (
        (data, mine.pointer(dtype=float), "driver"),
        (mine.pointer(dtype=float), other.pointer(dtype=float), "driver"),
        (mine.pointer(dtype=float), host.pointer(dtype=float), "driver"),
        (mine.pointer(dtype=float), host.pointer(RIGHT, float), "driver" if near(RIGHT) else far_path("staged")),
        (mine.pointer(dtype=float), other.pointer(RIGHT, float), theirs),
        (data, other.pointer(RIGHT, float), theirs),
        (host.pointer(RIGHT, float), other.pointer(RIGHT, float), theirs if near(RIGHT) else "delegated"),
    ):
        before = paths.counters()
        gw.copy(source, target, BIG).wait()
        assert moved(before) == {path: 1}, (source, target, path, moved(before))
        assert (gw.get(target, BIG).result() == data).all() or RIGHT != ME
        world.barrier()
    assert (gw.get(other.pointer(RIGHT, float), BIG).result() == np.random.default_rng([ME, 0]).random(BIG)).all()
    world.barrier()


def check_copies_come_behind_the_kernels_before_them():
    one, kernel = device(0), Kernel()
    segment = gw.Segment(world, 3 * 8 * BIG, gw.cuda(0))
    first, second, third = (segment.pointer(dtype=float) + i * BIG for i in range(3))
    base = segment.address
    for step in range(20 if RANKS == 1 else 6):
        data = numbers(BIG, step)
        gw.copy(data, first).wait()
        kernel(base, base + 8 * BIG, BIG, one.compute)
        kernel(base + 8 * BIG, base + 16 * BIG, BIG, one.compute)
        if step % 2:
            turned = np.zeros((10, 20))
            gw.copy(gw.strided(third, (10, 20), (8, 80)), turned).wait()
            assert (turned == data[:200].reshape(20, 10).T).all()
        early = gw.get(second, 10)
        assert (gw.get(third, BIG).result() == data).all()
        assert (early.result() == data[:10]).all()
        late = gw.copy(np.full(BIG, step), third.cast(int))
        late.wait()
        kernel(base + 16 * BIG, base, BIG, one.compute)
        gw.synchronize()
        assert (gw.get(first.cast(int), BIG).result() == step).all()


def check_streams_of_other_libraries():
    """A copy waits for what is on the stream, and what is put there later waits for the copy."""
    one, kernel = device(0), Kernel()
    stream = one.driver.new_stream()
    segment = gw.Segment(world, 3 * 8 * BIG, gw.cuda(0))
    theirs, base = gw.Segment(world, 8 * BIG, gw.cuda(0)), segment.address
    first, second = (segment.pointer(dtype=float) + i * BIG for i in range(2))
    for step in range(12 if RANKS == 1 else 4):
        data, back = numbers(BIG, step), np.zeros(BIG)
        for name in (None, "staged"):
            with paths.force(name) if name else contextlib.nullcontext():
                gw.copy(data, first, stream=stream)  # uploaded ...
                kernel(base, base + 8 * BIG, BIG, stream)  # ... used by a kernel ...
                down = gw.copy(second, back, stream=stream)  # ... whose result is copied
                away = gw.copy(second, theirs.pointer(RIGHT, float), BIG, stream=stream)
                single = gw.get(second + 7, stream=stream)
                gw.put(data[3] + 1.0, second + 8, stream=stream)
                some = gw.get(second, 20, stream=stream)
                one.driver.fill(base, 0, 16 * BIG, stream)  # ... and overwritten
                down.wait()
                away.wait()
            assert (back == data).all(), name
            assert single.result() == data[7]
            assert some.result().tolist() == [*data[:8], data[3] + 1.0, *data[9:20]]
            assert (gw.get(theirs.pointer(RIGHT, float), BIG).result() == data).all()
            world.barrier()
    one.driver.finish(stream)
    one.driver.free_stream(stream)
    assert "stream=" in raises(UsageError, gw.copy, data, first, stream="fast")
    world.barrier()


def check_faces_in_fortran_order():
    """All faces of a box, with and without ghosts, on all paths; short runs by kernels, rows by the copy engine."""
    shape, item = (96, 10, 12), 8
    strides = (item, item * shape[0], item * shape[0] * shape[1])
    count = int(np.prod(shape))
    segment, far = (gw.Segment(world, item * count, gw.cuda(0)) for _ in range(2))
    whole = numbers(count)
    gw.copy(whole, segment.pointer(dtype=float)).wait()
    gw.copy(np.zeros(count), far.pointer(RIGHT, float)).wait()
    grid = whole.reshape(shape, order="F")
    for axis in range(3):
        face = tuple(1 if i == axis else n for i, n in enumerate(shape))
        here = gw.strided(segment.pointer(dtype=float) + 3, face, strides)
        there = gw.strided(far.pointer(RIGHT, float) + 3, face, strides)
        wanted = grid[3:][tuple(slice(0, n) for n in face)] if axis == 0 else None
        with counting("launch", "copy_box") as calls:
            if axis:
                face = (shape[0] - 3, *face[1:])
                here, there = (gw.strided(p.pointer, face, strides) for p in (here, there))
                wanted = grid[3:][tuple(slice(0, n) for n in face)]
            for order in "CF":
                back = np.zeros(face, order=order)
                gw.copy(here, back).wait()
                assert (back == wanted).all(), (axis, order)
            gw.copy(here, there).wait()
        back = np.zeros(face)
        gw.copy(there, back).wait()
        assert (back == wanted).all(), axis
        if near(RIGHT) and near(LEFT):  # else this rank serves another meanwhile
            assert bool(calls["launch"]) == (axis == 0 or order == "C"), (axis, calls)
            assert bool(calls["copy_box"]) == (axis > 0), (axis, calls)
        world.barrier()
    assert np.isin(
        gw.get(far.pointer(dtype=float), count).result(), [0, *np.random.default_rng([LEFT, 0]).random(count)]
    ).all()
    world.barrier()


def check_strided_private_memory():
    """Gaps on the host's side, small and large."""
    segment = gw.Segment(world, 8 * 400 * 300, gw.cuda(0))
    for rows, columns in ((5, 7), (400, 300)):
        large = np.zeros((rows, 2 * columns))
        large[:, ::2] = numbers(rows * columns).reshape(rows, columns)
        target = gw.strided(segment.pointer(RIGHT, float), (rows, columns), (8, 8 * rows))
        transfer = gw.copy(large[:, ::2], target)
        transfer.source.wait()
        kept, large[:] = large[:, ::2].copy(), -1
        transfer.wait()
        gw.copy(target, large[:, ::2]).wait()
        assert (large[:, ::2] == kept).all()
        assert (large[:, 1::2] == -1).all()
        world.barrier()


def check_sources_may_change_when_that_is_said():
    """Not a moment earlier than the driver has read them, from private, pinned and other ranks' memory."""
    far, host = gw.Segment(world, 8 * BIG, gw.cuda(0)), gw.Segment(world, 8 * BIG)
    for count in (1, 100, 8192, 8193, BIG):
        for make in (np.zeros, lambda n: host.pointer(dtype=float).local(n)):
            for step in range(4):
                source = make(count)
                source[:] = wanted = numbers(count, step)
                transfer = gw.copy(source, far.pointer(RIGHT, float))
                transfer.source.wait()
                source[:] = -1
                transfer.wait()
                assert (gw.get(far.pointer(RIGHT, float), count).result() == wanted).all(), (count, make)
                del transfer, source
        world.barrier()
    small = gw.copy(np.ones(3), far.pointer(dtype=float))
    assert small.source is DONE
    small.wait()  # a barrier alone does not complete it, and the left rank writes here next
    world.barrier()
    for step in range(8):
        transfer = gw.copy(numbers(BIG, step), far.pointer(RIGHT, float))  # nobody else holds the source
        junk = [np.full(BIG, -1.0) for _ in range(5)]
        transfer.wait()
        assert (gw.get(far.pointer(RIGHT, float), BIG).result() == numbers(BIG, step)).all(), len(junk)
    gw.copy(np.ones(BIG), far.pointer(RIGHT, float))  # and nobody waits
    gw.copy(np.ones(BIG), far.pointer(RIGHT, float)).wait()
    world.barrier()


def check_a_signal_means_that_the_data_are_there():
    """The owner looks by its own driver at once, on a stream that waits for nothing."""
    far, arrived, free = gw.Segment(world, 8 * BIG, gw.cuda(0)), gw.Signal(world), gw.Signal(world)
    stream = device(0).driver.new_stream()
    back = np.zeros(BIG)
    for step in range(10):
        sent = gw.copy(np.full(BIG, 100.0 * step + ME), far.pointer(RIGHT, float), notify=arrived)
        arrived.wait()
        driver().copy(back.ctypes.data, far.address, back.nbytes, stream)
        driver().finish(stream)
        assert (back == 100.0 * step + LEFT).all()
        free.add(LEFT)
        free.wait()
        sent.remote.wait()
    driver().free_stream(stream)
    world.barrier()


def check_nothing_changes_when_memory_cannot_be_attached():
    if world.node_count > 1 or RANKS == 1:
        return
    before = fallbacks.counters()["attach"]
    with refusing("attach"):
        far = gw.Segment(world, 8 * BIG, gw.cuda(0))
        data = numbers(BIG)
        counts = paths.counters()
        gw.copy(data, far.pointer(RIGHT, float)).wait()
        assert (gw.get(far.pointer(RIGHT, float), BIG).result() == data).all()
        gw.put(2.5, far.pointer(RIGHT, float)).wait()
        assert gw.get(far.pointer(RIGHT, float)).result() == 2.5
        assert moved(counts) == {"staged": 3, "message": 1}, moved(counts)
    assert fallbacks.counters()["attach"] == before + 1  # tried once a rank and segment
    world.barrier()
    far.close()


def check_nothing_changes_when_memory_cannot_be_offered():
    if world.node_count > 1 or RANKS == 1:
        return
    with refusing("export"):
        far = gw.Segment(world, 8 * BIG, gw.cuda(0))
    data = numbers(BIG)
    counts = paths.counters()
    gw.copy(data, far.pointer(RIGHT, float)).wait()
    assert (gw.get(far.pointer(RIGHT, float), BIG).result() == data).all()
    assert moved(counts) == {"staged": 2}
    assert fallbacks.counters()["export"] >= 1
    world.barrier()


def check_nothing_changes_when_memory_cannot_be_pinned():
    host, far = gw.Segment(world, 8 * BIG), gw.Segment(world, 8 * BIG, gw.cuda(0))
    mine = host.pointer(dtype=float).local(BIG)
    before = fallbacks.counters()["pin"]
    with refusing("register"):
        for step in range(3):
            mine[:] = data = numbers(BIG, step)
            transfer = gw.copy(host.pointer(dtype=float), far.pointer(RIGHT, float), BIG)
            transfer.source.wait()
            mine[:] = -1
            transfer.wait()
            gw.copy(far.pointer(RIGHT, float), mine).wait()
            assert (mine == data).all()
            world.barrier()
    if near(RIGHT):
        assert not pinned.is_pinned(host.view(ME))
        assert fallbacks.counters()["pin"] == before + 1
    assert "pin" in fallbacks.counters()
    world.barrier()


def check_memory_is_pinned_while_it_lives():
    host, far = gw.Segment(world, 8 * BIG), gw.Segment(world, 8 * BIG, gw.cuda(0))
    gw.put(1.0, far.pointer(dtype=float)).wait()  # makes the ring
    with counting("register", "unregister") as calls:
        for _ in range(3):
            gw.copy(host.pointer(dtype=float), far.pointer(dtype=float), BIG).wait()
            gw.copy(host.pointer(RIGHT, float), far.pointer(dtype=float), 100).wait()
        assert calls == {"register": 1, "unregister": 0}
        world.barrier()
        kept = host.view(ME)[5:9]
        host.close()
        assert calls["unregister"] == 0
        del kept
        gc.collect()
        # An MPI window over it keeps it until another one is made.
        assert calls == {"register": 1, "unregister": 1 if world.node_count == 1 else 0}
    world.barrier()


def check_nothing_is_left_of_segments_that_were_closed():
    """Made and dropped many times, closed by hand or collected: no memory, no attachments, no open files."""
    data = numbers(5000)
    settle()
    gc.freeze()  # what was there before need not be looked through thirty times
    for step in range(30):
        if step == 5:
            before = held()
        far = gw.Segment(world, 40_000, gw.cuda(0))
        gw.copy(data, far.pointer(RIGHT, float)).wait()
        world.barrier()
        if step % 2:
            far.close()
        del far
        settle()
    gc.unfreeze()
    assert held() == before


def held():
    """What this rank has of devices, of other ranks and of the system."""
    return len(cuda_kind._allocations), ipc.attached(), len(os.listdir("/proc/self/fd")), free_memory()


def free_memory():
    """Bytes of the device that nobody has; on a real one others come and go."""
    return driver().memory()[0] if driver().name == "emulated" else 0


def settle():
    """All ranks have let go, and have given back."""
    gc.collect()
    device(0).activate()
    world.barrier()
    for _ in range(3):  # who has attached lets go first
        while reclaim.waiting():
            gw.progress()
            time.sleep(1e-4)
        world.barrier()


def check_what_is_attached_outlives_its_owner():
    """The owner closes first; who has it attached still reads and writes it."""
    if world.node_count > 1:
        return
    far = gw.Segment(world, 8000, gw.cuda(0))
    there = far.pointer(RIGHT, float)
    gw.copy(np.full(1000, ME + 0.25), there).wait()
    world.barrier()
    address = far.address
    far._release()  # as when the segment is closed, but for what this rank has attached itself
    for _ in range(20):
        gw.progress()
        time.sleep(1e-3)
    assert reclaim.waiting() == (1 if RANKS > 1 else 0)
    world.barrier()
    if RANKS > 1:
        assert (gw.get(there, 1000).result() == ME + 0.25).all()
        others = [gw.Segment(world, 8000, gw.cuda(0)) for _ in range(3)]
        assert address not in [other.address for other in others]
    world.barrier()
    far.close()
    del far, there
    settle()


def check_too_much_memory_is_refused_by_all():
    last = ME == RANKS - 1
    device(0).activate()
    total = driver().memory()[1]
    error = raised(LaunchError if last else Exception, gw.Segment, world, total + 1 if last else 8, gw.cuda(0))
    assert f"no memory of {total + 1} bytes of kind cuda(0)" in str(error)
    assert f"of whose {total} bytes" in str(error)
    assert "are free" in str(error)
    error = raised(UsageError, gw.Segment, world, 8, gw.cuda(0) if ME else type(gw.cuda(0))(99))
    assert "there is no CUDA device 99" in str(error)


def check_many_small_copies_share_a_ring():
    """More are under way than it has room for; lengths of all kinds."""
    count, longest = 1000, 192
    far = gw.Segment(world, 8 * longest * count, gw.cuda(0))
    lengths = np.random.default_rng(3).integers(1, longest, count)
    starts = np.cumsum(lengths) - lengths
    data = numbers(int(lengths.sum()))
    there = far.pointer(RIGHT, float)
    sent = [gw.copy(data[a : a + n], there + int(a)) for a, n in zip(starts, lengths, strict=True)]
    data = data.copy()
    gw.when_all(*sent).wait()
    back = [gw.get(there + int(a), int(n)) for a, n in zip(starts, lengths, strict=True)]
    found = np.concatenate([future.result() for future in back])
    assert (found == data).all()
    large = [gw.copy(np.full(8000, float(i)), there) for i in range(60)]
    for transfer in large:
        transfer.wait()
    world.barrier()


def check_the_device_of_this_rank():
    kind = gw.cuda()
    assert kind == gw.cuda(world.node.rank % driver().count())
    assert gw.Segment(world, 100, kind).kind_of(ME) == kind
    world.barrier()


def check_two_devices_of_one_rank():
    if driver().count() < 2:
        return
    first, second = (gw.Segment(world, 8 * BIG, gw.cuda(i)) for i in (0, 1))
    data = numbers(BIG)
    gw.copy(data, first.pointer(dtype=float)).wait()
    before = paths.counters()
    gw.copy(first.pointer(dtype=float), second.pointer(dtype=float), BIG).wait()
    assert moved(before) == {"driver": 1}
    turned = gw.strided(first.pointer(dtype=float), (50, 60), (8, 400))
    gw.copy(gw.strided(second.pointer(dtype=float), (50, 60), (480, 8)), turned).wait()
    assert moved(before) == {"driver": 1, "staged": 1}
    back = np.zeros((50, 60))
    gw.copy(turned, back).wait()
    assert (back.reshape(-1) == data[:3000]).all()
    gw.copy(second.pointer(RIGHT, float), first.pointer(dtype=float), BIG).wait()
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
