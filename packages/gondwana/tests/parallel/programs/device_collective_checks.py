"""Collectives on device memory: the bits of those on the host, each check by all ranks. Prints one JSON line per check.

On CUDA devices, real or emulated, with GONDWANA_CUDA=emulated or the argument "cuda"; else on the fake device.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError

world = gw.world
ME, RANKS = world.rank, world.size
RIGHT = (ME + 1) % RANKS
CUDA = "cuda" in sys.argv or os.environ.get("GONDWANA_CUDA") == "emulated"
KIND = gw.cuda(0) if CUDA else gw.fake_device
SIZES = (0, 1, 7, 1024, 1025, 20_000)
"""Elements of 8 bytes: none, few, the most that shared memory takes, and more than pass through a ring."""
COUNTS = [(3 * rank + 2) % 5 for rank in range(RANKS)]
"""Elements from or for each rank, some none."""


class Room:
    """Device memory of this rank in which arrays are placed, between canaries."""

    CANARY = 0xA5
    GAP = 64

    def __init__(self):
        self.segment = gw.Segment(world, 24 << 20, KIND)
        self.end, self.arrays = 0, []

    def hold(self, data, order="C"):
        """Return an array on the device with the elements of an array."""
        data = np.asarray(data, order=order)
        start = self.end + self.GAP
        self.end = start + -(-data.nbytes // 64) * 64
        pointer = self.segment.pointer(dtype=data.dtype, offset=start)
        gw.put(np.full(self.end + self.GAP - start + self.GAP, self.CANARY, "u1"), pointer.cast("u1") - self.GAP).wait()
        array = gw.array_at(pointer, data.shape, order=order)
        array.copy_from(gw.Array(data))
        self.arrays.append((start, data.nbytes))
        return array

    def check(self):
        """Nothing was written beside the arrays; then forget them."""
        world.barrier()
        memory = gw.get(self.segment.pointer(), self.end + self.GAP).result() if self.arrays else np.empty(0, "u1")
        outside = np.ones(memory.size, bool)
        for start, nbytes in self.arrays:
            outside[start : start + nbytes] = False
        assert (memory[outside] == self.CANARY).all()
        self.end, self.arrays = 0, []


@functools.cache
def room():
    return Room()


def held(array):
    """The elements of an array on the device."""
    return array.copy().numpy()


def same(array, expected):
    """Whether an array on the device has exactly these elements, bit by bit."""
    found = held(array)
    shapes = not expected.size or found.shape == expected.shape  # empty domains have no extent along any axis
    return found.dtype == expected.dtype and shapes and found.tobytes() == expected.tobytes()


def rows(size, dtype="f8", seed=0):
    """What each rank contributes: numbers whose sum depends on the order of the additions."""
    rng = np.random.default_rng([seed, size])
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 9, (RANKS, size)).astype(dtype)
    numbers = rng.standard_normal((RANKS, size)) * 10.0 ** rng.integers(-8, 8, (RANKS, 1))
    return (numbers + 1j * numbers[::-1] if np.dtype(dtype).kind == "c" else numbers).astype(dtype)


def waited(start):
    """A non-blocking collective, with the wait for it."""
    return lambda *arguments: start(*arguments).wait()


def twice(call, *arrays, orders="CCC"):
    """Make a collective on the host and on devices; return what both leave in their arrays.

    Args:
        call: takes as many arrays as are given; None stands for itself.
        arrays: what they hold before.
        orders: of their memory.
    """
    pairs = list(zip(arrays, orders, strict=False))
    on_host = [None if array is None else np.array(array, order=order) for array, order in pairs]
    on_device = [None if array is None else room().hold(array, order) for array, order in pairs]
    call(*on_host)
    call(*on_device)
    for expected, found in zip(on_host, on_device, strict=True):
        assert expected is None or same(found, expected)
    return on_host


def check_broadcasts():
    root = RANKS - 1
    for size, dtype in [(7, "i2"), (7, "c16"), (7, "?"), (7, ">i4"), (7, "M8[s]"), *((size, "f8") for size in SIZES)]:
        data = rows(size, "i8").astype(dtype)
        for form in (world.Bcast, waited(world.Ibcast), functools.partial(gw.bcast, world)):
            found = twice(lambda a, form=form: form(a, root), data[ME])[0]
            assert found.tobytes() == data[root].tobytes()
    assert (twice(world.Bcast, data[ME])[0] == data[0]).all()
    room().check()


def check_reductions_have_the_bits_of_those_on_the_host():
    root = RANKS - 1
    for size, dtype in [(7, "f4"), (9000, "f4"), (7, "i8"), (7, "u4"), (7, "c16"), *((size, "f8") for size in SIZES)]:
        data, zeros = rows(size, dtype), np.zeros(size, dtype)
        total = data.sum(axis=0, dtype=dtype)
        for form in (world.Allreduce, waited(world.Iallreduce)):
            near(twice(form, data[ME], zeros)[1], total)
            near(twice(lambda a, form=form: form(gw.IN_PLACE, a), data[ME])[0], total)
        near(twice(lambda a: gw.allreduce(world, a), data[ME])[0], total)
        for form in (world.Reduce, waited(world.Ireduce)):
            at_root = zeros if root == ME else None
            found = twice(lambda s, r, form=form: form(s, r, gw.SUM, root), data[ME], at_root)[1]
            if found is not None:
                near(found, total)
        room().check()
    found = twice(lambda a: world.Reduce(*((gw.IN_PLACE, a) if ME == 0 else (a, None))), data[ME])[0]
    near(found, total if ME == 0 else found)
    data = rows(300, "i8")
    for op, oracle in (("max", np.max), ("prod", np.prod), (gw.MIN, np.min)):
        found = twice(lambda s, r, op=op: world.Allreduce(s, r, op), data[ME], np.zeros(300, "i8"))[1]
        assert (found == oracle(data, axis=0)).all()
    room().check()


def near(found, expected):
    """Assert that a sum is right up to rounding: the order of additions is MPI's."""
    scale = np.abs(rows(expected.size, expected.dtype)).sum(axis=0)
    assert (np.abs(found - expected) <= (1e-5 if expected.dtype == np.float32 else 1e-12) * scale).all()


def check_parts_of_reductions():
    for size, dtype in itertools.product((0, 1, 3000), ("f8", "i4")):
        data = rows(size * RANKS, dtype)
        mine = slice(size * ME, size * (ME + 1))
        total = data.sum(axis=0, dtype=dtype)[mine]
        found = twice(world.Reduce_scatter_block, data[ME], np.zeros(size, dtype))[1]
        assert np.allclose(found, total)
        whole = twice(lambda a: world.Reduce_scatter_block(gw.IN_PLACE, a), data[ME])[0]
        assert np.allclose(whole[:size], total)
    room().check()


def in_place_at(form, root, array):
    form(*((gw.IN_PLACE, array) if root == ME else (array, None)), root)


def check_gathering_and_scattering():
    for size, dtype in ((0, "f8"), (1, "i2"), (1000, "f8"), (9000, "f8")):
        data = rows(size, dtype)
        zeros = np.zeros((RANKS, size), dtype)
        own = zeros.copy()
        own[ME] = data[ME]
        for root in {0, RANKS - 1} if size == 1000 else {0}:
            here = root == ME
            for form in (world.Gather, waited(world.Igather)):
                found = twice(lambda s, r, form=form, root=root: form(s, r, root), data[ME], zeros if here else None)[1]
                assert not here or (found == data).all()
                found = twice(functools.partial(in_place_at, form, root), own if here else data[ME])[0]
                assert not here or (found == data).all()
            for form in (world.Scatter, waited(world.Iscatter)):
                found = twice(lambda s, r, form=form, root=root: form(s, r, root), data if here else None, zeros[0])[1]
                assert (found == data[ME]).all()
        for form in (world.Allgather, waited(world.Iallgather)):
            assert (twice(form, data[ME], zeros)[1] == data).all()
            assert (twice(lambda a, form=form: form(gw.IN_PLACE, a), own)[0] == data).all()
        room().check()


def check_all_to_all():
    for size, dtype in ((0, "f8"), (1, "f8"), (700, "u1"), (9000, "f8")):
        data = np.array([[rows(size, "i8", 50 * a + b)[a] for b in range(RANKS)] for a in range(RANKS)]).astype(dtype)
        for form in (world.Alltoall, waited(world.Ialltoall)):
            assert (twice(form, data[ME], np.zeros((RANKS, size), dtype))[1] == data[:, ME]).all()
            assert (twice(lambda a, form=form: form(gw.IN_PLACE, a), data[ME])[0] == data[:, ME]).all()
    room().check()


def with_counts(array):
    return None if array is None else (array, COUNTS)


def check_parts_of_any_length():
    """What lies behind the parts stays as it is."""
    total, mine = sum(COUNTS), COUNTS[ME]
    whole = np.concatenate([np.full(count, rank + 0.5) for rank, count in enumerate(COUNTS)])
    send, stale = np.full(mine, ME + 0.5), np.full(total + 3, -1.0)
    expected = np.concatenate([whole, stale[:3]])
    for root in {0, RANKS - 1}:
        at_root = stale if root == ME else None
        found = twice(lambda s, r, root=root: world.Gatherv(s, with_counts(r), root), send, at_root)[1]
        assert found is None or (found == expected).all()
        from_root = expected if root == ME else None
        found = twice(lambda s, r, root=root: world.Scatterv(with_counts(s), r, root), from_root, np.zeros(mine))[1]
        assert (found == send).all()
    assert (twice(lambda s, r: world.Allgatherv(s, (r, COUNTS)), send, stale)[1] == expected).all()
    to = [COUNTS[(ME + rank) % RANKS] for rank in range(RANKS)]  # as many to a rank as from it
    parts = np.concatenate([np.full(count, 10.0 * ME + rank) for rank, count in enumerate(to)])
    arrived = np.concatenate([np.full(count, 10.0 * rank + ME) for rank, count in enumerate(to)])
    found = twice(lambda s, r: world.Alltoallv((s, to), (r, to)), parts, np.full(sum(to) + 2, -1.0))[1]
    assert (found == [*arrived, -1.0, -1.0]).all()
    room().check()


def check_memory_orders_and_axes():
    """Elements travel in the order of their indices, as on the host."""
    data = rows(60)[ME].reshape(3, 4, 5)
    for orders in ("CC", "FF", "FC", "CF"):
        found = twice(world.Allreduce, data, np.zeros((3, 4, 5)), orders=orders)[1]
        assert np.allclose(found, rows(60).reshape(RANKS, 3, 4, 5).sum(axis=0)), orders
    room().check()


def check_buffers_on_both_sides():
    """One buffer may be on a device and the other on the host, on some ranks and not on others."""
    data = rows(3000)
    for size in (10, 3000):
        mine, expected = data[ME, :size].copy(), np.zeros(size)
        world.Allreduce(mine, expected)
        device, host = room().hold(np.zeros(size)), np.zeros(size)
        world.Allreduce(mine if ME % 2 else room().hold(mine), device if ME % 2 else host)
        assert same(device, expected) if ME % 2 else host.tobytes() == expected.tobytes()
    room().check()


def check_requests_complete_when_the_device_has_the_data():
    """By looking alone, in any order, many at once."""
    data = rows(20_000)
    arrays = [room().hold(np.zeros(20_000)) for _ in range(5)]
    sent = [room().hold(data[ME] + step) for step in range(5)]
    requests = [world.Iallgather(np.full(1, 2.0), room().hold(np.zeros(RANKS)))]
    requests += [world.Iallreduce(source, array, "max") for source, array in zip(sent, arrays, strict=True)]
    requests.append(world.Ibcast(sent[0], 0))
    for request in requests[::-1]:
        while not request.test():
            gw.progress()
    assert requests[1].result() is arrays[0]
    for step, array in enumerate(arrays):
        assert (held(array) == data.max(axis=0) + step).all()
    assert (held(sent[0]) == data[0]).all()
    assert (held(requests[0].result()) == 2.0).all()
    room().check()


def check_collectives_come_after_kernels_and_before_others():
    if not CUDA:
        return
    size = 30_000
    block, total = room().hold(np.zeros(size)), room().hold(np.zeros(size))
    for step in range(3):
        block.fill(step + ME)  # does not wait
        world.Allreduce(block, total)
        block.copy_from(total)
        assert (held(block) == RANKS * step + sum(range(RANKS))).all()
        block.fill(2.0 * step + ME)
        world.Iallreduce(gw.IN_PLACE, block).wait()
        assert (held(block) == 2 * RANKS * step + sum(range(RANKS))).all()
    room().check()


class Theirs:
    """An array of another library on the memory of one of ours."""

    def __init__(self, array, **more):
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **more}


class Capsules:
    """The same by DLPack."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def check_arrays_of_other_libraries():
    if not CUDA or gw.device_count() > 1:  # with several, an interface does not say which one
        return
    data = rows(500)
    for wrap in (Theirs, Capsules):
        send, recv = room().hold(data[ME]), room().hold(np.zeros(500))
        world.Allreduce(wrap(send), wrap(recv), "max")
        assert (held(recv) == data.max(axis=0)).all()
        gw.bcast(world, wrap(recv), 0)
        gw.allreduce(world, wrap(send), gw.MIN)
        assert (held(send) == data.min(axis=0)).all()
    protected = Theirs(room().hold(data[ME]), data=(room().hold(data[ME]).address, True))
    world.Allreduce(protected, send)
    assert "read-only" in raises(ValueError, world.Allreduce, send, protected)
    room().check()


def check_buffers_on_devices_that_are_refused():
    segment = gw.Segment(world, 800, KIND)
    mine = gw.array_at(segment.pointer(dtype=float), (10, 10))
    line = gw.array_at(segment.pointer(dtype=float), (10,))
    host = np.zeros(10)
    if RANKS > 1:
        theirs = gw.array_at(segment.pointer(RIGHT, float), (10,))
        assert "own rank" in raises(UsageError, world.Allreduce, theirs, host)
        assert "own rank" in raises(UsageError, world.Ibcast, theirs)
    assert "not contiguous" in raises(UsageError, world.Bcast, mine[:, 0])
    assert "not contiguous" in raises(UsageError, world.Allreduce, mine[:, 2:4], np.zeros((10, 2)))
    assert "not contiguous" in raises(UsageError, gw.allreduce, world, line[::2])
    assert "gw.array_at" in raises(UsageError, world.Gather, segment.pointer(dtype=float), host)
    half = gw.array_at(segment.pointer(dtype="f2"), (10,))
    assert "no reductions of dtype float16" in raises(TypeError, world.Allreduce, half, half)
    assert "cannot do 'band' on float64" in raises(UsageError, world.Allreduce, line, host, "band")
    assert "they must agree" in raises(ValueError, world.Allreduce, line, np.zeros(9))
    assert "they must be equal" in raises(TypeError, world.Allgather, line, np.zeros(10 * RANKS, "i8"))
    assert "upper-case" in raises(TypeError, world.Isend, line, RIGHT)
    assert "cannot be pickled" in raises(TypeError, world.allgather, line)
    assert (held(mine) == 0).all()
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
