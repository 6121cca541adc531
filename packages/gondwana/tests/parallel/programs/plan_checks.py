"""What plans of copies must do, each check by all ranks against NumPy on one rank. Prints one JSON line per check."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import time
import weakref

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.transfer.plans.create import CopiedPlan
from gondwana.transfer.plans.device import DevicePlan
from gondwana.transfer.plans.host import HostPlan

world = gw.world
ME, RANKS = world.rank, world.size
RIGHT, LEFT = (ME + 1) % RANKS, (ME - 1) % RANKS
ROOM = 1 << 11
"""Bytes in which both ends of a pair lie, each in its segment."""
DTYPES = ("uint8", "int16", "float32", "float64", "complex128")
GPUS = bool(os.environ.get("GONDWANA_CUDA"))


class Half:
    """One end of a random copy: where it lies in the part of a segment, and how its elements lie there."""

    def __init__(self, rng, shape, dtype, place):
        self.dtype, self.shape = dtype, shape
        item = dtype.itemsize
        self.starts = None
        if len(shape) == 2 and rng.integers(3) == 0:
            slots = ROOM // item // shape[1]
            self.starts = rng.permutation(slots)[: shape[0]] * shape[1]
            self.offset, self.strides = place * ROOM, None
            return
        strides, extent, offset = [0] * len(shape), item, 0
        for axis in rng.permutation(len(shape)):
            strides[axis] = extent * int(rng.integers(1, 3))
            reach = strides[axis] * (shape[axis] - 1)
            extent += reach
            if rng.integers(2):
                offset += reach
                strides[axis] = -strides[axis]
        self.offset, self.strides = place * ROOM + offset, tuple(strides)

    def of(self, memory):
        """The elements in bytes of memory, to be read."""
        if self.starts is None:
            return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)
        row = memory[self.offset : self.offset + ROOM].view(self.dtype)
        return row[self.starts[:, None] + np.arange(self.shape[1])]

    def set(self, memory, values):
        if self.starts is None:
            self.of(memory)[...] = values
        else:
            row = memory[self.offset : self.offset + ROOM].view(self.dtype)
            row[self.starts[:, None] + np.arange(self.shape[1])] = values

    def end(self, segment, rank):
        pointer = segment.pointer(rank, self.dtype, self.offset)
        if self.starts is None:
            return gw.strided(pointer, self.shape, self.strides)
        return gw.indexed(pointer, self.starts, self.shape[1])

    def private(self, memory):
        """The same in private memory."""
        if self.starts is None:
            return self.of(memory)
        return gw.indexed(memory[self.offset : self.offset + ROOM].view(self.dtype), self.starts, self.shape[1])


def random_copies(rng, count):
    """Source rank, target rank, lister, whether the source is private, and both halves: the same on all ranks."""
    copies = []
    for place in range(count):
        sender, receiver, lister = (int(rank) for rank in rng.integers(0, RANKS, 3))
        lister = (sender, receiver, lister)[int(rng.integers(3))]
        dtype = np.dtype(str(rng.choice(DTYPES)))
        shape = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 4))))
        private = lister == sender and rng.integers(3) == 0
        ends = Half(rng, shape, dtype, place), Half(rng, shape, dtype, place)
        if (ends[0].starts is None) != (ends[1].starts is None):
            ends = ends[0], ends[0]  # an indexed end and a strided one need not fit
        copies.append((sender, receiver, lister, private, *ends))
    return copies


def bytes_of(rank, key, nbytes):
    return np.random.default_rng([rank, key]).integers(0, 100, nbytes, np.uint8)


def try_plan(seed, kinds, wanted, count=8):
    """A random plan in three rounds; the kinds of a rank are those of its two segments."""
    rng = np.random.default_rng([seed, RANKS])
    copies = random_copies(rng, count)
    nbytes = count * ROOM
    source, target = (gw.Segment(world, nbytes, kind) for kind in kinds)
    private = np.zeros(nbytes, np.uint8)
    pairs = [
        (one.private(private) if hidden else one.end(source, sender), other.end(target, receiver))
        for sender, receiver, lister, hidden, one, other in copies
        if lister == ME
    ]
    plan = gw.plan(pairs)
    assert type(plan) is wanted or wanted is None, plan
    moved = sum(one.of(private).nbytes for sender, receiver, *_, one, _ in copies if sender == ME and receiver != ME)
    assert plan.moved == moved
    gw.put(bytes_of(ME, 999, nbytes), target.pointer()).wait()
    expected = bytes_of(ME, 999, nbytes)
    for key in range(3):
        private[:] = bytes_of(ME, key, nbytes)
        gw.put(private, source.pointer()).wait()
        assert plan.start() is plan
        if random.random() < 0.3:
            time.sleep(random.random() * 2e-3)
        if key == 1:
            while not plan.test():
                gw.progress()
        plan.wait()
        for sender, receiver, _, _, one, other in copies:
            if receiver == ME:
                other.set(expected, one.of(bytes_of(sender, key, nbytes)))
        gw.synchronize()
        assert np.array_equal(gw.get(target.pointer(), nbytes).result(), expected), (seed, key)
    world.barrier()


def check_random_boxes_in_host_memory():
    for seed in range(8):
        try_plan(seed, (gw.host, gw.host), HostPlan)


def check_random_boxes_in_memory_of_any_kind():
    for seed in range(100, 103):
        try_plan(seed, (gw.fake_device, gw.host), None, 5)
        try_plan(seed, (gw.host, gw.fake_device) if ME % 2 else (gw.fake_device, gw.host), None, 5)


def check_random_boxes_on_gpus():
    if not GPUS:
        return
    for seed in range(200, 204):
        rng = np.random.default_rng([seed, RANKS])
        hidden = any(copy[3] for copy in random_copies(rng, 5))
        try_plan(seed, (gw.cuda(), gw.cuda()), CopiedPlan if hidden else DevicePlan, 5)
        try_plan(seed, (gw.cuda() if ME % 2 else gw.host, gw.cuda()), None, 5)


def check_compiled_code_starts_and_waits():
    segment, mine = gw.Segment(world, 64), np.zeros(4)
    plan = gw.plan([(mine, gw.strided(segment.pointer(RIGHT, float), (4,), (8,)))])
    arrived = segment.typed(ME, np.dtype(float))[:4]

    @gw.jit
    def rounds(plan, mine, arrived, count, left):
        wrong = 0
        for number in range(count):
            for place in range(4):
                mine[place] = 1000.0 * number + mine[3] * 0.0
            mine[0] += left
            plan.start()
            while not plan.test():
                wrong += 0
            plan.wait()
            for place in range(1, 4):
                if arrived[place] != 1000.0 * number:
                    wrong += 1
        return wrong

    assert rounds(plan, mine, arrived, 60, float(ME)) == 0
    assert arrived[0] == 1000.0 * 59 + LEFT
    plan.start().wait()
    arrived[:] = -1.0  # what has arrived is brought to its place once: the next polls must leave this alone

    @gw.jit
    def poll(plan):
        plan.wait()
        return plan.test()

    assert plan.test()
    assert poll(plan)
    assert (arrived == -1.0).all()


def check_a_round_that_compiled_code_has_started_goes_on():
    """It keeps the plan, Python waits for it, and it is finished before the next."""
    arrived = gw.Segment(world, 32)

    @gw.jit
    def begin(plan):
        plan.start()

    plan = gw.plan([(np.full(4, 1.0 + ME), gw.strided(arrived.pointer(RIGHT, float), (4,), (8,)))])
    first = ME == 0 and RANKS > 1
    for _ in range(2):
        if first:
            begin(plan)
            kept = weakref.ref(plan)
            del plan
            plan = kept()
            assert plan is not None
            assert not plan.test()  # the others have not started
        world.barrier()
        if not first:
            begin(plan)
        assert "still under way" in raises(RuntimeError, begin, plan)
        plan.wait()
        assert (arrived.typed(ME, np.dtype(float)) == 1.0 + LEFT).all()
        world.barrier()
        arrived.typed(ME, np.dtype(float))[:] = 0
        world.barrier()


def check_compiled_code_exchanges_gathered_pieces_and_ghosts():
    """Several pairs of two ranks, in rounds that compiled code carries out, beside an exchange of ghosts."""
    rng = np.random.default_rng([11, RANKS])
    wanted = {rank: rng.permutation(50)[:9] for rank in range(RANKS)}
    segment = gw.Segment(world, 8 * (50 + 18 * RANKS))
    vector = segment.typed(ME, np.dtype(float))
    pairs = []
    for rank in range(RANKS):
        there = segment.pointer(rank, float) + 50 + 18 * ME
        pairs.append((gw.indexed(vector[:50], wanted[rank]), gw.strided(there, (9, 1), (16, 8))))
        pairs.append((gw.indexed(vector[:50], [40, 3], [4, 5]), gw.strided(there + 1, (9,), (16,))))
    plan = gw.plan(pairs)
    cells = gw.zeros((2 * RANKS, 5), "int64", ghost=1, grid=(RANKS, 1), periodic=True)
    ghosts = gw.exchange(cells)
    ghosts.wait()

    @gw.jit
    def rounds(plan, ghosts, vector, cells, count, me):
        for number in range(count):
            for place in range(50):
                vector[place] = place + 100 * me + 10_000 * number
            for row in range(1, 3):
                for place in range(1, 6):
                    cells[row, place] = 100 * me + 10 * row + place + number
            plan.start()
            ghosts.start()
            plan.wait()
            ghosts.wait()

    both = cells.local.numpy()
    rounds(plan, ghosts, vector, both, 40, ME)
    for other in range(RANKS):
        found = vector[50 + 18 * other : 68 + 18 * other].reshape(9, 2) - 100 * other - 390_000
        assert np.array_equal(found[:, 0], wanted[ME])
        assert np.array_equal(found[:, 1], [40, 41, 42, 43, 3, 4, 5, 6, 7])
    assert np.array_equal(both[0, 1:6], 100 * LEFT + 20 + np.arange(1, 6) + 39)
    assert np.array_equal(both[3, 1:6], 100 * RIGHT + 10 + np.arange(1, 6) + 39)


def check_gathered_sources():
    """What a sparse matrix needs of a vector: entries of others in the order of their indices, in a row behind its."""
    rng = np.random.default_rng([7, RANKS])
    wanted = {rank: {other: np.sort(rng.permutation(50)[:9]) for other in range(RANKS)} for rank in range(RANKS)}
    segment = gw.Segment(world, 8 * (50 + 9 * RANKS))
    vector = segment.typed(ME, np.dtype(float))
    pairs = [
        (gw.indexed(vector[:50], wanted[rank][ME]), gw.strided(segment.pointer(rank, float) + 50 + 9 * ME, (9,), (8,)))
        for rank in range(RANKS)
    ]
    plan = gw.plan(pairs)
    for number in range(4):
        vector[:50] = np.arange(50) + 100 * ME + 10_000 * number
        plan.start().wait()
        for other in range(RANKS):
            found = vector[50 + 9 * other : 59 + 9 * other]
            assert np.array_equal(found, wanted[ME][other] + 100 * other + 10_000 * number)


def check_pieces_of_any_lengths():
    segment, values = gw.Segment(world, 400), np.arange(50.0) + 100 * ME
    there = segment.pointer(RIGHT, float)
    plan = gw.plan([(gw.indexed(values, [30, 3, 9], [2, 0, 5]), gw.indexed(there, [8, 40], [3, 4]))])
    for step in range(2):
        values += step
        plan.start().wait()
        held, wanted = segment.view(ME).view(float), np.zeros(50)
        wanted[[8, 9, 10, 40, 41, 42, 43]] = np.array([30, 31, 9, 10, 11, 12, 13]) + 100.0 * LEFT + step
        assert (held == wanted).all()


def check_long_and_short_pieces():
    """Pieces for one rank that are several messages between nodes: short ones together, long ones alone."""
    ends = np.cumsum((0, 3, 5000, 70, 2000, 2000, 9000, 1)).tolist()
    segment, values = gw.Segment(world, 8 * ends[-1]), np.arange(float(ends[-1])) + 1e6 * ME
    there = segment.pointer(RIGHT, float)
    plan = gw.plan(
        [
            (values[begin:end][::-1], gw.strided(there + begin, (end - begin,), (8,)))
            for begin, end in itertools.pairwise(ends)
        ]
    )
    wanted = np.concatenate([np.arange(begin, end)[::-1] for begin, end in itertools.pairwise(ends)]) + 1e6 * LEFT
    for _ in range(3):
        values += 1
        wanted += 1
        plan.start().wait()
        assert (segment.view(ME).view(float) == wanted).all()


def check_chunks_and_pieces_of_memory_with_gaps():
    """Private elements with gaps, or in Fortran order, to chunks; pieces of another rank to memory with gaps."""
    segment, grid = gw.Segment(world, 800), np.arange(48.0).reshape(24, 2) + 100 * ME
    there, listed = segment.pointer(RIGHT, float), segment.pointer((ME + 2) % RANKS, float)
    plan = gw.plan(
        [
            (gw.indexed(grid[::-2, 1], [4, 0, 8], 2), gw.indexed(there, [6, 2, 0], 2)),
            (gw.indexed(grid[:, 0], [20, 3], [1, 2]), gw.strided(there + 14, (3,), (-16,))),
            (np.asfortranarray(grid[:3]), gw.indexed(there, [20, 18, 16], 2)),
            # From a rank to its right neighbour; this one owns neither on three ranks or more.
            (gw.indexed(there + 50, [5, 0], [2, 1]), gw.strided(listed + 30, (3,), (24,))),
        ]
    )
    held = segment.view(ME).view(float)
    held[50:] = np.arange(50.0) + 1000 * ME
    plan.start().wait()
    wanted = np.zeros(50)
    wanted[[6, 7, 2, 3, 0, 1]] = np.array([31, 27, 47, 43, 15, 11]) + 100.0 * LEFT
    wanted[[14, 12, 10]] = np.array([40, 6, 8]) + 100.0 * LEFT
    wanted[[20, 21, 18, 19, 16, 17]] = np.arange(6) + 100.0 * LEFT
    wanted[[30, 33, 36]] = np.array([5, 6, 0]) + 1000.0 * LEFT
    assert (held[:50] == wanted).all()


def check_nothing_is_written_before_its_owner_has_started():
    segment, value = gw.Segment(world, 8), np.zeros(1)
    under_way = gw.Signal(world)
    plan = gw.plan([(value, gw.strided(segment.pointer(RIGHT, float), (1,), (8,)))] if ME == 0 else [])
    for number in range(1, 20):
        if ME == 0 and RANKS > 1:
            value[:] = number
            plan.start()
            under_way.add(RIGHT)
        if ME == 1:
            under_way.wait()
            for _ in range(100):
                gw.progress()
                assert segment.pointer(dtype=float).local(1)[0] == number - 1
            plan.start().wait()
            assert segment.pointer(dtype=float).local(1)[0] == number
        if ME == 0:
            plan.wait()
        # Ranks without copies take no part.
    world.barrier()


def check_what_is_ready_is_written_before_its_owner_has_started():
    """Two plans take turns, so that a rank writes what the others have read before they sent their last value."""
    value, sent = np.zeros(1), gw.Signal(world)
    place = gw.Segment(world, 16 * RANKS).pointer(dtype=float)
    arrived = place.local(2 * RANKS).reshape(2, RANKS)
    turns = [
        gw.plan([(value, place.on(rank) + (turn * RANKS + ME)) for rank in range(RANKS)], ready=True)
        for turn in range(2)
    ]
    for number in range(1, 40):
        value[:] = 100.0 * number + ME
        turns[number % 2].start().wait()
        assert arrived[number % 2].tolist() == [100.0 * number + rank for rank in range(RANKS)]
    world.barrier()
    if RANKS > 1 and world.node_count == 1:
        if ME == 0:
            value[:] = -1.0
            turns[0].start()
            sent.add(RIGHT)
        if ME == 1:
            sent.wait()
            assert arrived[0, 0] == -1.0
        if ME != 0:
            turns[0].start()
        turns[0].wait()
    world.barrier()


def check_plans_under_way_together_in_any_order():
    plans, segments, values = [], [], []
    for number in range(3):
        segments.append(gw.Segment(world, 16))
        values.append(np.zeros(2))
        to = RIGHT if number % 2 else LEFT
        plans.append(gw.plan([(values[-1], gw.strided(segments[-1].pointer(to, float), (2,), (8,)))]))
    order = random.Random(ME)
    for key in range(20):
        for number, value in enumerate(values):
            value[:] = 100 * ME + 10 * key + number
        for plan in order.sample(plans, 3):
            plan.start()
        for plan in order.sample(plans, 3):
            plan.wait()
        for number, segment in enumerate(segments):
            sender = LEFT if number % 2 else RIGHT
            assert (segment.pointer(dtype=float).local(2) == 100 * sender + 10 * key + number).all()


def check_what_is_refused_is_refused_by_all():
    segment = gw.Segment(world, 64)
    here = segment.pointer(dtype=float)
    there = gw.strided(segment.pointer(RIGHT, float), (2,), (8,))
    plan = gw.plan([(np.zeros(2), there)])
    plan.start()
    assert "start()" in raises(RuntimeError, plan.start)
    plan.wait()
    raises(TypeError, lambda: pickle.dumps(plan))
    last = ME == RANKS - 1
    for pairs in (
        [(np.zeros(3), there)],
        [(np.zeros(2, int), there)],
        [(here, here + 4)],
        [(1, there)],
        [(gw.indexed(np.zeros(9), [1, 2, 3]), there)],
    ):
        assert raises(UsageError, lambda pairs=pairs: gw.plan(pairs if last else []))
    if RANKS > 1:
        assert "segment" in raises(UsageError, lambda: gw.plan([(there, np.zeros(2))] if last else []))
        assert "ready is False on rank 0" in raises(UsageError, lambda: gw.plan([], ready=last))
        pair = world.split(ME // 2)
        outside = gw.strided(segment.pointer((ME + 2) % RANKS, float), (2,), (8,))
        if RANKS % 2 == 0 and RANKS > 2:
            assert "not in" in raises(UsageError, lambda: gw.plan([(np.zeros(2), outside)], pair))
    empty = gw.plan([])
    empty.start().wait()
    nothing = gw.plan([(np.zeros((0, 3)), np.zeros((0, 3)))])
    nothing.start().wait()
    assert nothing.moved == 0


def check_views_of_global_arrays():
    """A shift of a whole array by one block, as pairs of views."""
    cells = gw.zeros((3 * RANKS, 5), "int64", ghost=1, grid=(RANKS, 1))
    copied = gw.zeros_like(cells)
    cells.local.restrict(cells.owned).numpy()[...] = np.arange(15).reshape(3, 5) + 100 * ME
    plan = gw.plan([(cells.local.restrict(cells.owned), copied.block(RIGHT).restrict(copied.owned_of(RIGHT)))])
    plan.start().wait()
    assert np.array_equal(copied.local.restrict(copied.owned).numpy(), np.arange(15).reshape(3, 5) + 100 * LEFT)


if __name__ == "__main__":
    run_checks(globals())
