"""Device memory between nodes, with an MPI that takes it and with one that does not. Prints one JSON line per check.

Run with GONDWANA_CUDA=emulated and several nodes. The emulated device's bytes are memory of the host that MPI can
really send, so with GONDWANA_MPI_CUDA=1 every MPI poses as one that takes device memory; `Handed` looks at what it
gets. The emulated device does everything as late as it may: MPI would read garbage where nobody has waited.
"""

# ruff: noqa: N803, N806 - fields are called T, as in physics

from __future__ import annotations

import contextlib
import gc

import numpy as np
from checks import raised, raises, run_checks
from exchange_checks import STALE, expected, whole_data, window

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.gpu.device import device
from gondwana.gpu.driver import driver
from gondwana.memory import cuda_kind, reclaim
from gondwana.teams import device_memory
from gondwana.teams.device_memory import DeviceBytes
from gondwana.teams.request import PersistentRequest
from gondwana.teams.windows import Window
from gondwana.transfer import paths, slots
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.devices.device_boxes import copy_box
from gondwana.transfer.plans.device import DevicePlan
from gondwana.transfer.slots import SLOT

world = gw.world
ME, RANKS = world.rank, world.size
RIGHT, LEFT = (ME + 1) % RANKS, (ME - 1) % RANKS
AWARE = device_memory.is_taken()
BIG = 5 * SLOT // 8 + 3
"""Numbers that take several slots, and are no whole number of them."""


def numbers(count, seed=0, rank=ME):
    return np.random.default_rng([rank, seed]).random(count)


class Handed:
    """What MPI is given and what is copied between host and device, on all ranks, inside a block. Collective.

    Attributes:
        buffers: pieces of device memory that MPI got.
        crossings: copies between memory of the host and of the device.
    """

    def __enter__(self):
        self.buffers = 0
        self._interface = DeviceBytes.__cuda_array_interface__
        whole = self._interface.fget

        def checked(given):
            assert driver().holds(given.address, given.nbytes), "MPI got memory outside of the device"
            self.buffers += 1
            return whole(given)

        world.barrier()
        DeviceBytes.__cuda_array_interface__ = property(checked)
        self.crossings = -driver().crossings
        return self

    def __exit__(self, *error):
        DeviceBytes.__cuda_array_interface__ = self._interface
        if error[0] is None:
            world.barrier()
            self.crossings += driver().crossings
            self.buffers, self.crossings = map(world.allreduce, (self.buffers, self.crossings))

    def check(self, *, here=True, anywhere=True):
        """With an MPI that takes device memory it got that, and nothing was staged; else it never got any.

        Args:
            here: whether the end of the rank that starts the copies is on a device.
            anywhere: whether any end is.
        """
        assert bool(self.buffers) == (AWARE and here), self.buffers
        assert bool(self.crossings) == (not AWARE and anywhere), self.crossings


def segments(nbytes):
    """Memory of every rank: two segments of the host and two of devices, by kind."""
    return {kind: [gw.Segment(world, nbytes, kind) for _ in range(2)] for kind in (gw.host, gw.cuda(0))}


def check_every_direction_of_put_and_get():
    found = segments(8 * BIG)
    for source_kind in found:
        for target_kind in found:
            by_device = gw.cuda(0) in (source_kind, target_kind)
            source, target = found[source_kind][0], found[target_kind][1]
            for count in (1, 100, BIG):
                for way in ("put", "get"):
                    data = numbers(count, count)
                    gw.put(data, source.pointer(dtype=float)).wait()
                    gw.put(np.zeros(count), target.pointer(dtype=float)).wait()
                    before = paths.counters()
                    with Handed() as handed:
                        if way == "put":
                            gw.copy(source.pointer(dtype=float), target.pointer(RIGHT, float), count).wait()
                        else:
                            gw.copy(source.pointer(LEFT, float), target.pointer(dtype=float), count).wait()
                    moved = {name for name, traffic in paths.counters().items() if traffic != before[name]}
                    assert (gw.get(target.pointer(dtype=float), count).result() == numbers(count, count, LEFT)).all()
                    here = source_kind if way == "put" else target_kind
                    handed.check(here=here is not gw.host, anywhere=by_device)
                    if by_device:
                        assert moved == ({"aware"} if AWARE else moved & {"staged", "message", "delegated"}), moved
                    world.barrier()


def check_private_memory_single_numbers_and_nothing():
    far = gw.Segment(world, 8 * BIG, gw.cuda(0))
    there, data = far.pointer(RIGHT, float), numbers(BIG)
    with Handed() as handed:
        gw.put(2.5 + ME, there).wait()
        assert gw.get(there).result() == 2.5 + ME
        gw.put(data, there).wait()
        back = np.zeros(BIG)
        gw.get(there, out=back).wait()
        assert (back == data).all()
    handed.check(here=False)
    before = paths.counters()
    gw.copy(data[:0], there).wait()
    gw.copy(gw.strided(there, (0, 5), (8, 8)), gw.strided(far.pointer(dtype=float), (0, 5), (40, 8))).wait()
    assert paths.counters() == before
    uneven = gw.Segment(world, 8 * ME, gw.cuda(0))  # that of rank 0 is empty
    gw.copy(numbers(RIGHT), uneven.pointer(RIGHT, float)).wait()
    world.barrier()
    assert (gw.get(uneven.pointer(dtype=float), ME).result() == numbers(ME, 0, LEFT)).all()
    world.barrier()


def check_boxes():
    """Long rows go to MPI one by one; shorter ones are packed at the ends that need it."""
    rows, width = 6, 400
    for columns, order, backwards in ((200, "C", False), (200, "C", True), (30, "C", False), (30, "F", False)):
        near, far = (gw.Segment(world, 8 * rows * width, gw.cuda(0)) for _ in range(2))
        data = numbers(rows * width).reshape(rows, width)
        gw.put(data.reshape(-1), near.pointer(dtype=float)).wait()
        gw.put(np.zeros(rows * width), far.pointer(dtype=float)).wait()
        first, strides = (rows - 1) * width if backwards else 0, (-8 * width if backwards else 8 * width, 8)
        source = gw.strided(near.pointer(dtype=float) + first, (rows, columns), strides)
        there = gw.strided(far.pointer(RIGHT, float) + 7, (rows, columns), (8 * width, 8))
        if order == "F":
            there = gw.strided(far.pointer(RIGHT, float) + 7, (rows, columns), (8, 8 * rows))
        with Handed() as handed:
            gw.copy(source, there).wait()
        wanted, sent = np.zeros((rows, width)), numbers(rows * width, 0, LEFT).reshape(rows, width)
        part = sent[::-1, :columns] if backwards else sent[:, :columns]
        if order == "C":
            wanted[:, 7 : 7 + columns] = part
        else:
            wanted.reshape(-1)[7 : 7 + rows * columns] = part.T.reshape(-1)
        assert (gw.get(far.pointer(dtype=float), rows * width).result() == wanted.reshape(-1)).all(), (columns, order)
        if columns == 200:
            handed.check()
        back = np.zeros((rows, columns))
        gw.copy(there, back).wait()
        assert (back == (data[::-1] if backwards else data)[:, :columns]).all()
        world.barrier()


def check_signals_and_calls():
    """The owner looks by its own driver at once, on a stream that waits for nothing."""
    near, far = (gw.Segment(world, 8 * BIG, gw.cuda(0)) for _ in range(2))
    arrived, free = gw.Signal(world, 2), gw.Signal(world)
    stream, back = device(0).driver.new_stream(), np.zeros(BIG)
    for step in range(4):
        gw.put(np.full(BIG, 10.0 * step + ME), near.pointer(dtype=float)).wait()
        notify = arrived if step % 2 else arrived.at(RIGHT, 1)
        with Handed() as handed:
            sent = gw.copy(near.pointer(dtype=float), far.pointer(RIGHT, float), BIG, notify=notify)
            arrived.wait(channel=0 if step % 2 else 1)
            sent.remote.wait()
        handed.check()
        driver().copy(back.ctypes.data, far.address, back.nbytes, stream)
        driver().finish(stream)
        assert (back == 10.0 * step + LEFT).all()
        free.add(LEFT)
        free.wait()
    driver().free_stream(stream)
    gw.copy(near.pointer(dtype=float), far.pointer(RIGHT, float), BIG, notify=(called, ME)).remote.wait()
    world.barrier()
    assert CALLED == [LEFT]


CALLED = []


def called(rank):
    CALLED.append(rank)


def check_mpi_comes_behind_the_kernels_before():
    """It reads what they write, and writes what they read; a source may be changed when that is said."""
    one = device(0)
    near, far = gw.Segment(world, 3 * 8 * BIG, gw.cuda(0)), gw.Segment(world, 8 * BIG, gw.cuda(0))
    first, second, third = (near.pointer(dtype=float) + i * BIG for i in range(3))

    def kernel(source, target):
        start, end = (near.address + pointer.offset for pointer in (source, target))
        copy_box(one, BoxCopy.of((BIG,), 8, (8,), (8,), source=start, target=end), one.compute)

    for step in range(3):
        data = numbers(BIG, step)
        gw.put(data, first).wait()
        kernel(first, second)
        sent = gw.copy(second, far.pointer(RIGHT, float), BIG)
        sent.source.wait()
        kernel(third, second)  # zeros, or what the last step has left
        sent.wait()
        world.barrier()
        kernel(first, third)
        gw.copy(far.pointer(LEFT, float), first, BIG).wait()  # what the rank before that has sent there
        assert (gw.get(third, BIG).result() == data).all()
        there = (LEFT - 1) % RANKS
        assert (gw.get(first, BIG).result() == numbers(BIG, step, there)).all()
        assert (gw.get(far.pointer(dtype=float), BIG).result() == numbers(BIG, step, LEFT)).all()
        world.barrier()


def filled(shape, key, **options):
    """An array on GPUs whose ghosts are stale, and its cells."""
    T = gw.zeros(shape, kind=gw.cuda(), **options)
    whole = whole_data(T, key)
    fill(T, whole)
    return T, whole


def fill(T, whole):
    T.fill(STALE)
    T.block(ME).restrict(T.owned).copy_from(gw.Array(whole[window(T, T.owned)], T.owned))


def check_exchanges():
    """Blocks of uneven size, one without cells; ghosts of several pieces."""
    for shape, options in (
        ((7, 5), {"ghost": 1, "periodic": True}),
        ((RANKS - 1, 9), {"ghost": (1, 2), "grid": (RANKS, 1), "periodic": True}),
        ((2 * RANKS + 1, 3 * SLOT // 8), {"ghost": 1, "grid": (RANKS, 1)}),
    ):
        T, _ = filled(shape, 0, **options)
        with Handed() as handed:
            T.exchange(corners=True).wait()
            gw.synchronize()
        divided = RANKS > 2 or shape[0] > 1  # else one rank has all cells
        assert bool(handed.buffers) == (
            AWARE and divided
        )  # and tables of the kernels that pack were copied to the device
        whole = whole_data(T, 1)
        fill(T, whole)
        with Handed() as handed:
            T.exchange(corners=True).wait()
            gw.synchronize()
        stale = np.full(T.local.shape, STALE, T.dtype)
        assert np.array_equal(T.block(ME).copy().numpy(), expected(T, whole, stale, True)), shape
        assert handed.buffers == 0  # MPI got the memory of the plan when that was made
        assert bool(handed.crossings) == (not AWARE and divided)
        assert all(isinstance(plan, DevicePlan) for plan in T.plans.values())
        world.barrier()


@contextlib.contextmanager
def tracing(thing, name, note):
    """Call `note` with the arguments of each call of a function meanwhile, before it is executed."""
    whole = getattr(thing, name)

    def traced(*given, **named):
        note(*given)
        return whole(*given, **named)

    setattr(thing, name, traced)
    try:
        yield
    finally:
        setattr(thing, name, whole)


def check_pieces_of_an_exchange_are_under_way_together():
    """All of a message is on its way to the host when the first piece is sent, and all of it may arrive by then."""
    T, _ = filled((2 * RANKS, 3 * SLOT // 8 - 2), 0, ghost=1, grid=(RANKS, 1))
    T.exchange(corners=True).wait()
    neighbours, acts = (ME > 0) + (ME < RANKS - 1), []
    world.barrier()
    with (
        tracing(driver(), "copy", lambda target, source, *_: acts.append("down" if source >= 1 << 62 else "up")),
        tracing(PersistentRequest, "start", lambda request: acts.append("send" if request.route else "receive")),
    ):
        T.exchange(corners=True).wait()
        gw.synchronize()
    if AWARE:
        assert acts.count("send") == acts.count("receive") == neighbours
        assert "down" not in acts
        assert "up" not in acts
    else:
        pieces = 3 * neighbours
        assert [acts.count(act) for act in ("down", "send", "receive", "up")] == [pieces] * 4
        assert acts.index("send") > max(place for place, act in enumerate(acts) if act == "down")
    world.barrier()


def check_pieces_of_a_copy_are_under_way_together():
    near, far = gw.Segment(world, 8 * BIG, gw.cuda(0)), gw.Segment(world, 8 * BIG, gw.cuda(0))
    gw.put(numbers(BIG), near.pointer(dtype=float)).wait()
    taken, most, own = [0], [0], slots.pools.own

    def take(*_):
        taken[0] += 1
        most[0] = max(most[0], taken[0])

    with (
        tracing(own, "take", take),
        tracing(own, "release", lambda *_: taken.__setitem__(0, taken[0] - 1)),
    ):
        gw.copy(near.pointer(dtype=float), far.pointer(RIGHT, float), BIG).wait()
    assert taken == [0]
    assert most[0] == 0 if AWARE else most[0] >= 2, most
    world.barrier()
    assert (gw.get(far.pointer(dtype=float), BIG).result() == numbers(BIG, 0, LEFT)).all()
    world.barrier()


def check_staging_can_be_forced():
    near, far = gw.Segment(world, 8 * BIG, gw.cuda(0)), gw.Segment(world, 8 * BIG, gw.cuda(0))
    gw.put(numbers(BIG), near.pointer(dtype=float)).wait()
    T, whole = filled((5, 4 * RANKS), 3, ghost=1, periodic=True)
    with paths.force("staged"):
        before = paths.counters()["staged"].operations
        with Handed() as handed:
            gw.copy(near.pointer(dtype=float), far.pointer(RIGHT, float), BIG).wait()
            T.exchange(corners=True).wait()
        assert handed.buffers == 0
        assert handed.crossings > 0
        assert paths.counters()["staged"].operations > before + 1
    stale = np.full(T.local.shape, STALE, T.dtype)
    assert np.array_equal(T.block(ME).copy().numpy(), expected(T, whole, stale, True))
    assert (gw.get(far.pointer(dtype=float), BIG).result() == numbers(BIG, 0, LEFT)).all()
    world.barrier()


def check_mpis_that_differ():
    """On some nodes MPI takes device memory, on others not: each pair of ranks finds a way."""
    whole = device_memory.is_taken
    device_memory.is_taken = lambda: AWARE and ME == 0
    try:
        near, far = gw.Segment(world, 8 * BIG, gw.cuda(0)), gw.Segment(world, 8 * BIG, gw.cuda(0))
        T, cells = filled((5, 4 * RANKS), 3, ghost=1, periodic=True)
    finally:
        gw.put(numbers(BIG), near.pointer(dtype=float)).wait()
        world.barrier()
        for target in range(RANKS):
            part = BIG // RANKS
            gw.copy(near.pointer(dtype=float), far.pointer(target, float) + ME * part, part).wait()
            assert (gw.get(near.pointer(target, float), 100).result() == numbers(BIG, 0, target)[:100]).all()
        T.exchange(corners=True).wait()
        device_memory.is_taken = whole
    world.barrier()
    found = gw.get(far.pointer(dtype=float), RANKS * part).result().reshape(RANKS, part)
    assert (found == [numbers(BIG, 0, rank)[:part] for rank in range(RANKS)]).all()
    stale = np.full(T.local.shape, STALE, T.dtype)
    assert np.array_equal(T.block(ME).copy().numpy(), expected(T, cells, stale, True))
    world.barrier()


def check_errors():
    """What is wrong is said at once; what MPI refuses later is the error of all futures, and nobody is notified."""
    near, far = gw.Segment(world, 800, gw.cuda(0)), gw.Segment(world, 800, gw.cuda(0))
    assert "101 elements" in raises(UsageError, gw.copy, near.pointer(dtype=float), far.pointer(RIGHT, float), 101)
    assert "dtype" in raises(UsageError, gw.copy, near.pointer(dtype=float), far.pointer(RIGHT, int), 3)
    assert "forced" in refused("ipc", near, far)
    if not AWARE:
        assert "forced" in refused("aware", near, far)
        world.barrier()
        return
    arrived = gw.Signal(world)

    def refuse(*_):
        raise RuntimeError("MPI_ERR_OTHER: no memory of GPUs today")

    kernel = BoxCopy.of((10,), 8, (8,), (8,), source=near.address, target=near.address + 400)
    with contextlib.ExitStack() as refusing:
        refusing.callback(setattr, Window, "put", Window.put)
        Window.put = refuse
        copy_box(device(0), kernel, device(0).compute)
        futures = started_or_not(near, far, arrived)
        problems = [str(raised(RuntimeError, future.wait)) for future in futures]
    assert all("no memory of GPUs" in problem for problem in problems)
    world.barrier()
    assert not arrived.ready()
    world.barrier()


def started_or_not(near, far, signal):
    """The futures of a copy that MPI refuses; none if the kernel was through, so that the call itself has raised."""
    try:
        sent = gw.copy(near.pointer(dtype=float), far.pointer(RIGHT, float), 100, notify=signal)
    except RuntimeError:
        return ()
    return sent, sent.source, sent.remote


def refused(path, near, far):
    """Why a copy along a path is not possible."""
    with paths.force(path):
        return raises(UsageError, gw.copy, near.pointer(dtype=float), far.pointer(RIGHT, float), 3)


def check_memory_lives_as_long_as_mpi_uses_it():
    """A segment may be closed at once; its memory is given back when the window is freed, with the next one."""
    for _ in range(3):
        near, far = gw.Segment(world, 8 * BIG, gw.cuda(0)), gw.Segment(world, 8 * BIG, gw.cuda(0))
        gw.put(numbers(BIG), near.pointer(dtype=float)).wait()
        sent = gw.copy(near.pointer(dtype=float), far.pointer(RIGHT, float), BIG)
        sent.source.wait()
        near.close()
        sent.wait()
        world.barrier()
        assert (gw.get(far.pointer(dtype=float), BIG).result() == numbers(BIG, 0, LEFT)).all()
        world.barrier()
        far.close()
    del near, far, sent
    gc.collect()
    last = gw.Segment(world, 8)
    gw.progress()
    while reclaim.waiting():
        gw.progress()
    settled = len(cuda_kind._allocations)
    for _ in range(3):
        gw.Segment(world, 8 * BIG, gw.cuda(0)).close()
    gc.collect()
    last = gw.Segment(world, 8)
    while reclaim.waiting():
        gw.progress()
    assert len(cuda_kind._allocations) == settled
    last.close()
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
