"""What `copy`, `put` and `get` must do between any two places. Every rank starts copies; the owners check the bytes.

Sources hold a pattern in closed form, destinations canaries. Owners look by loads or by their device's driver alone.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
import time
import zlib

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.transfer import paths
from gondwana.transfer.slots import SLOT

world = gw.world
ME, RANKS = world.rank, world.size
CUDA = "cuda" in sys.argv or os.environ.get("GONDWANA_CUDA") == "emulated"
KIND = gw.cuda(0) if CUDA else gw.fake_device
"""The kind of memory of the devices."""
HOST, DEVICE, PRIVATE = "host", "device", "private"
SIZES = (0, 1, 3, 8, 4095, 4096, SLOT - 1, SLOT + 1)
GUARD = 64
CANARY = 0xCC
STARTS = [GUARD + sum(SIZES[:i]) + 2 * GUARD * i for i in range(len(SIZES))]
AREA = STARTS[-1] + SIZES[-1] + GUARD


class Ends:
    """Memory of every rank, of both kinds: sources with a pattern, and an area for every rank that writes there."""

    def __init__(self):
        self.sources = {HOST: gw.Segment(world, AREA), DEVICE: gw.Segment(world, AREA, KIND)}
        self.targets = {HOST: gw.Segment(world, AREA * RANKS), DEVICE: gw.Segment(world, AREA * RANKS, KIND)}
        for kind, segment in self.sources.items():
            fill(segment, pattern(kind, ME))
        self.private = pattern(PRIVATE, ME)

    def source(self, kind, rank, start):
        return self.private[start:] if kind == PRIVATE else self.sources[kind].pointer(rank) + start

    def target(self, kind, rank, start):
        if kind == PRIVATE:
            return np.full(AREA, CANARY, np.uint8)
        return self.targets[kind].pointer(rank) + (AREA * ME + start)

    def reset(self):
        for segment in self.targets.values():
            fill(segment, np.full(AREA * RANKS, CANARY, np.uint8))


@functools.cache
def pattern(kind, rank, nbytes=AREA):
    """Bytes that differ from place to place."""
    data = np.random.default_rng([len(kind), rank]).integers(0, 256, nbytes, np.uint8)
    data.flags.writeable = False
    return data


def fill(segment, data):
    """Set this rank's part by its owner's means."""
    if segment.kind == gw.host:
        segment.view(ME)[: data.size] = data
    else:
        segment.kind.write(data, segment.address).wait()


def contents(segment):
    """What this rank's part holds, by its owner's means."""
    if segment.kind == gw.host:
        return segment.view(ME).copy()
    data = np.empty(segment.nbytes, np.uint8)
    segment.kind.read(segment.address, data).wait()
    return data


def in_reach(segment, rank):
    """Whether this rank reaches device memory of a rank by its drivers, or by MPI."""
    return segment.reach(rank) != "away"


_ends = []


def ends():
    if not _ends:
        _ends.append(Ends())
    return _ends[0]


def roles():
    """Distances to the ranks that play a part: this one, the next one and the one after it."""
    return sorted({0, 1 % RANKS, 2 % RANKS})


def places():
    return [(PRIVATE, 0), *((kind, step) for kind in (HOST, DEVICE) for step in roles())]


landed = []
"""Whether the data were there when each notification arrived."""


def look(pointer, count, checksum):
    """At the owner of the destination, in its progress: are the data there?"""
    assert gw.in_callback()
    if pointer.kind == gw.host:
        landed.append(zlib.crc32(pointer.local(count)) == checksum)
    else:
        gw.get(pointer, count).then(lambda data: landed.append(zlib.crc32(data) == checksum))


def noted(checksum, data):
    """The same for private memory, whose owner this rank is: the arguments were taken when the data were there."""
    landed.append(zlib.crc32(data) == checksum)


def gather_all():
    """Everything that was sent has arrived, and what it started has ended."""
    gw.quiesce(world)
    for _ in range(50):
        gw.progress()
    gw.quiesce(world)


def copy_all_sizes(source_end, target_end, signal):
    """Start the copies of all sizes between two ends, complete them in different ways; return what was promised."""
    memory = ends()
    kind, step = target_end
    rank = (ME + step) % RANKS
    under_way = []
    for index, (start, size) in enumerate(zip(STARTS, SIZES, strict=True)):
        source = memory.source(source_end[0], (ME + source_end[1]) % RANKS, start)
        target = memory.target(kind, rank, start)
        data = pattern(source_end[0], (ME + source_end[1]) % RANKS)[start : start + size]
        way = (index + source_end[1] + step) % 4
        if source_end[0] == PRIVATE:
            source = source[:size].copy()
        into = target[GUARD : GUARD + size] if kind == PRIVATE else target
        if way == 0:
            transfer = gw.copy(source, into, size)
        elif way == 1:
            transfer = gw.copy(source, into, size, notify=signal)
        elif kind == PRIVATE:
            transfer = gw.copy(source, into, size, notify=(noted, zlib.crc32(data), into))
        else:
            transfer = gw.copy(source, into, size, notify=(look, target, size, zlib.crc32(data)))
        under_way.append((way, transfer, source, target, into, data))
    raised = sum(way == 1 for way, *_ in under_way)
    for way, transfer, source, _, into, data in under_way:
        if source_end[0] == PRIVATE:
            transfer.source.wait()
            source[:] = ~source
        if way == 3:
            transfer.remote.wait()
        else:
            transfer.wait()
        if kind == PRIVATE:
            assert (into == data).all()
        elif way == 0:
            assert (gw.get(into, data.size).result() == data).all()
    for _, transfer, _, target, into, _ in under_way:
        transfer.wait()
        transfer.remote.wait()
        if kind == PRIVATE:
            into[:] = CANARY
            assert (target == CANARY).all()
    return raised


def check_the_matrix_of_copies():
    memory, signal = ends(), gw.Signal(world)
    for number, source_end in enumerate(places()):
        for target_end in places()[number % 2 :: 2 if RANKS > 3 else 1]:
            memory.reset()
            landed.clear()
            world.barrier()
            raised = copy_all_sizes(source_end, target_end, signal)
            signal.wait(raised)
            gather_all()
            assert not signal.ready()
            assert all(landed), (source_end, target_end, landed)
            assert len(landed) == len(SIZES) - 2 * raised, (source_end, target_end, len(landed))
            kind, step = target_end
            writer = (ME - step) % RANKS
            for name, segment in memory.targets.items():
                expected = np.full(AREA * RANKS, CANARY, np.uint8)
                if name == kind:
                    data = pattern(source_end[0], (writer + source_end[1]) % RANKS)
                    for start, size in zip(STARTS, SIZES, strict=True):
                        first = AREA * writer + start
                        expected[first : first + size] = data[start : start + size]
                assert (contents(segment) == expected).all(), (source_end, target_end)
            world.barrier()


def check_a_large_copy_of_every_kind():
    size = 1 << (26 if RANKS < 3 else 22)
    right = (ME + 1) % RANKS
    host, device = gw.Segment(world, size), gw.Segment(world, size, KIND)
    gw.copy(long_pattern(ME, size), host.pointer(right)).wait()
    world.barrier()
    gw.copy(host.pointer(), device.pointer(right), size).wait()
    world.barrier()
    back = np.zeros(size, np.uint8)
    gw.copy(device.pointer(right), back).wait()
    assert (back == long_pattern((ME - 1) % RANKS, size)).all()
    world.barrier()


def long_pattern(rank, size):
    return np.resize(pattern("large", rank, 65_521), size)


def check_many_copies_share_few_slots():
    device = gw.Segment(world, 64 * SLOT, KIND)
    right = (ME + 1) % RANKS
    data = pattern("many", ME, 64 * SLOT)
    with paths.force("staged"):
        puts = [gw.copy(data[i * SLOT :][:SLOT], device.pointer(right) + i * SLOT) for i in range(64)]
        gw.when_all(*puts).wait()
        world.barrier()
        back = np.zeros_like(data)
        gets = [gw.copy(device.pointer(right) + i * SLOT, back[i * SLOT :][:SLOT]) for i in range(64)]
        gw.when_all(*gets).wait()
    assert (back == data).all()
    assert (contents(device) == pattern("many", (ME - 1) % RANKS, 64 * SLOT)).all()
    world.barrier()


def check_ring_rotation():
    """Contents move around a ring of host and device buffers; every rank in turn starts all copies of a step."""
    parts, count = 8, 3000
    kinds = (gw.host, KIND)
    buffers = [[gw.Segment(world, parts * count * 4, kind) for _ in range(2)] for kind in kinds]
    places = [(kind, rank) for rank in range(RANKS) for kind in range(2)]
    for kind in range(2):
        fill(buffers[kind][0], as_bytes(held(places.index((kind, ME)), parts * count)))
    world.barrier()
    for step in range(len(places)):
        if step % RANKS == ME:
            under_way = []
            for index, (kind, rank) in enumerate(places):
                to_kind, to_rank = places[(index + 1) % len(places)]
                source = buffers[kind][step % 2].pointer(rank, "i4")
                target = buffers[to_kind][(step + 1) % 2].pointer(to_rank, "i4")
                under_way += [gw.copy(source + part * count, target + part * count, count) for part in range(parts)]
            gw.when_all(*under_way).wait()
        world.barrier()
        for kind in range(2):
            origin = (places.index((kind, ME)) - step - 1) % len(places)
            found = contents(buffers[kind][(step + 1) % 2])
            assert (found == as_bytes(held(origin, parts * count))).all(), (step, kind)


def held(place, count):
    return (np.arange(count) * 7 + 1_000_003 * place).astype("i4")


def as_bytes(array):
    return np.ascontiguousarray(array).view(np.uint8)


def check_scalars():
    right = (ME + 1) % RANKS
    for kind in (gw.host, KIND):
        segment = gw.Segment(world, 256, kind)
        for dtype, value in (("f8", 2.5 + ME), ("i4", -7 - ME), ("u1", 200 + ME), ("c16", 1 + 2j * ME), ("?", True)):
            pointer = segment.pointer(right, dtype) + 3
            gw.put(value, pointer).wait()
            assert gw.get(pointer).result() == value
            assert gw.get(pointer, 1).result().tolist() == [value]
            out = np.zeros(1, dtype)
            assert gw.get(pointer, out=out).result() is out
            assert out[0] == value
            world.barrier()
        unaligned = segment.pointer(right, "f8", 3)
        gw.put(1.25 * ME, unaligned).wait()
        assert gw.get(unaligned).result() == 1.25 * ME
        world.barrier()


def check_records():
    record = np.dtype([("mass", "f4"), ("place", "f8", 2), ("used", "?")])
    for kind in (gw.host, KIND):
        segment = gw.Segment(world, 4 * record.itemsize, kind)
        there, here = segment.pointer((ME + 1) % RANKS, record), np.zeros(2, record)
        gw.put((ME, (1.0, 2.0), True), there).wait()
        one = gw.get(there).result()
        assert one.mass == one["mass"] == ME
        assert one.place[1] == 2.0
        assert one.used
        gw.put(one, there + 1).wait()
        gw.copy(there, there + 2, 2).wait()
        gw.copy(there + 2, here).wait()
        assert (here == one).all()
        for wrong in (1.0, (1, 2), (1, (2.0, 3.0, 4.0), True), (1, (2.0, 3.0), 5), np.zeros(1, "f4,i4")[0]):
            assert "record(mass: float32" in raises(UsageError, gw.put, wrong, there)
        assert "elements of record(mass" in raises(UsageError, gw.copy, there, np.zeros(2), 2)
        gw.quiesce(world)


def check_boxes_of_any_strides():
    """Transposes, reflections, steps, between all kinds, against NumPy."""
    shape = (3, 4, 5, 6)
    right = (ME + 1) % RANKS
    random = np.random.default_rng(5)
    for name in ("f8", "i2", "c16", "u1", "f4", [("a", "i4"), ("b", "f8")]):
        dtype = np.dtype(name)
        for source_kind in (gw.host, KIND, None):
            for target_kind in (gw.host, KIND, None):
                axes = random.permutation(4)
                signs = random.choice([-1, 1], 4)
                steps = random.integers(1, 3, 4)
                source, expected = end_of(source_kind, 0, shape, axes, signs, steps, ME, dtype)
                target, _ = end_of(target_kind, 1, shape, axes[::-1], -signs, steps[::-1], right, dtype)
                gw.copy(source, target).wait()
                back = np.empty(shape, dtype)
                gw.copy(target, back).wait()
                assert as_bytes(back).tobytes() == as_bytes(expected).tobytes()
                world.barrier()


@functools.cache
def scratch(kind, role):
    """Memory of every rank for one end of a copy: making a segment between nodes takes time."""
    return gw.Segment(world, 8 * SLOT, kind)


def end_of(kind, role, shape, axes, signs, steps, rank, dtype):
    """A strided end with these contents, of a rank's segment or private; and its elements."""
    room = np.zeros([2 * n for n in np.array(shape)[np.argsort(axes)]], dtype)
    flat = room.reshape(-1).view(np.uint8)
    flat[:] = np.arange(flat.size) * (ME + 3) % 251
    view = room.transpose(axes)
    view = view[tuple(slice(None, None, int(step)) for step in steps)]
    view = view[tuple(slice(0, n) for n in shape)][tuple(slice(None, None, int(sign)) for sign in signs)]
    if kind is None:
        return view, view.copy()
    segment = scratch(kind, role)
    fill(segment, flat)
    world.barrier()
    offset = view.__array_interface__["data"][0] - room.__array_interface__["data"][0]
    return gw.strided(segment.pointer(rank, dtype, offset), view.shape, view.strides), view.copy()


def check_indexed_chunks():
    """Chunks at any places, between all kinds, against NumPy."""
    right = (ME + 1) % RANKS
    random = np.random.default_rng(11)
    for length, count in ((1, 700), (3, 50), (300, 9), (SLOT // 8 + 5, 3)):
        room = 2 * length * count
        for source_kind in (gw.host, KIND, None):
            for target_kind in (gw.host, KIND, None):
                starts = random.integers(0, room - length, count)
                into = length * random.permutation(2 * count)[:count]
                values = (np.arange(room) + 1000.0 * ME) % 9973
                source = row_of(source_kind, 0, values, ME)
                target = row_of(target_kind, 1, np.zeros(room), right)
                gw.copy_indexed(source, starts, target, into, length).wait()
                expected = np.zeros(room)
                expected[into[:, None] + np.arange(length)] = values[starts[:, None] + np.arange(length)]
                back = np.empty(room)
                gw.copy(target, back).wait()
                assert (back == expected).all()
                world.barrier()


def row_of(kind, role, values, rank):
    """An end with these values in a row, in a rank's segment or private."""
    if kind is None:
        return values.copy()
    segment = scratch(kind, role)
    fill(segment, as_bytes(values))
    world.barrier()
    return segment.pointer(rank, values.dtype)


def pieces(random, total, room):
    """Pieces of `total` elements in all, some of none, that do not overlap, in any order: starts and lengths."""
    lengths = np.diff([0, *np.sort(random.integers(0, total + 1, 8)), total])
    order, gaps = random.permutation(lengths.size), random.multinomial(room - total, np.full(10, 0.1))
    starts = np.zeros(lengths.size, int)
    starts[order] = np.cumsum(lengths[order] + gaps[:9]) - lengths[order]
    return starts, lengths


def expand(starts, lengths):
    return np.concatenate([np.arange(start, start + length) for start, length in zip(starts, lengths, strict=True)])


def check_irregular_pieces():
    """Lists of pieces at both ends, of other lengths at each, between all kinds, against NumPy."""
    right, arrived = (ME + 1) % RANKS, gw.Signal(world)
    random = np.random.default_rng(12)
    ends = list(itertools.product((gw.host, KIND, None), repeat=2))
    segments = {(role, kind): scratch(kind, role) for role in (0, 1) for kind in (gw.host, KIND)}
    for total in (90, 2500):
        room = 2 * total + 9
        for source_kind, target_kind in ends:
            (starts, lengths), (into, counts) = pieces(random, total, room), pieces(random, total, room)
            values = (np.arange(room) + 1000.0 * ME) % 9973
            source, target = values, np.zeros(room)
            if source_kind is not None:
                fill(segments[0, source_kind], as_bytes(values))
                source = segments[0, source_kind].pointer(dtype=float)
            if target_kind is not None:
                fill(segments[1, target_kind], as_bytes(target))
                target = segments[1, target_kind].pointer(right, float)
            world.barrier()
            there = gw.indexed(target, into, counts)
            sent = gw.copy(gw.indexed(source, starts, lengths), there, notify=arrived)
            sent.wait()
            wanted = np.zeros(room)
            wanted[expand(into, counts)] = values[expand(starts, lengths)]
            found = target if target_kind is None else gw.get(target, room).result()
            assert (found == wanted).all()
            back = np.zeros((total, 1))  # the other end may be a pointer, an array of any shape, or chunks
            gw.copy(there, back).wait()
            assert (back[:, 0] == values[expand(starts, lengths)]).all()
            gw.copy(gw.indexed(values, np.arange(total)[::-1]), there).wait()
            gw.copy(there, back, total).wait()
            assert (back[:, 0] == values[:total][::-1]).all()
            sent.remote.wait()
            world.barrier()
    arrived.wait(2 * len(ends))
    assert not arrived.ready()


def check_pieces_between_other_ranks_with_gaps():
    """Pieces of one rank to memory with gaps of another, started by a third: it names them to those who copy."""
    right, values, places = (ME + 1) % RANKS, np.arange(20.0), 1 + 3 * np.arange(6)
    for source_kind, target_kind in itertools.product((gw.host, KIND), repeat=2):
        source, target = scratch(source_kind, 0), scratch(target_kind, 1)
        fill(source, as_bytes(values + 100 * ME))
        fill(target, as_bytes(np.zeros(20)))
        world.barrier()
        apart = gw.strided(target.pointer((ME + 2) % RANKS, float) + 1, (6,), (24,))
        gw.copy(gw.indexed(source.pointer(right, float), [5, 0, 9], [2, 1, 3]), apart).wait()
        world.barrier()
        wanted = np.zeros(20)
        wanted[places] = np.array([5, 6, 0, 9, 10, 11]) + 100.0 * ((ME - 1) % RANKS)
        assert (gw.get(target.pointer(dtype=float), 20).result() == wanted).all()
        world.barrier()


def check_forced_paths_give_the_same_bytes():
    """Whatever path is forced: identical bytes, counted where they went, or a clear refusal."""
    right = (ME + 1) % RANKS
    size = 5000
    data = pattern("forced", ME, size)
    segments = [None, *(gw.Segment(world, size, kind) for kind in (gw.host, KIND) for _ in range(2))]
    taken = set()
    for from_segment in segments[::2]:
        for to_segment in (None, *segments[1::2]):
            for name in paths.counters():
                source = data.copy() if from_segment is None else from_segment.pointer(right)
                target = np.zeros(size, np.uint8) if to_segment is None else to_segment.pointer(right)
                gw.copy(data, source, size).wait()
                gw.copy(np.zeros(size, np.uint8), target, size).wait()
                before = paths.counters()
                refusal = refused(name, source, target, size)
                if refusal:
                    assert f"the path {name} is forced" in refusal
                    assert "possible are" in refusal
                    continue
                after = paths.counters()
                moved = {path: after[path].nbytes - before[path].nbytes for path in after}
                assert moved == {path: size if path == name else 0 for path in after}, (source, target, moved)
                back = np.empty(size, np.uint8)
                gw.copy(target, back, size).wait()
                assert (back == data).all()
                taken.add(name)
            world.barrier()
    expected = {"staged", "message", "delegated", "direct"}
    expected |= {"driver"} if RANKS == 1 else {"ipc", "aware"} & taken if in_reach(segments[3], right) else set()
    assert RANKS == 1 or bool({"ipc", "aware"} & taken) == in_reach(segments[3], right)
    expected |= {"window"} if right not in segments[1].peers else set()
    assert expected <= taken, taken
    raises(UsageError, paths.force("nonsense").__enter__)


def refused(name, source, target, size):
    """Copy along a path; return why that is not possible."""
    try:
        with paths.force(name):
            gw.copy(source, target, size).wait()
    except UsageError as error:
        return str(error)
    return None


def check_third_party_of_unknown_segments():
    """The owners of the two ends need not know each other's segments."""
    if RANKS < 3:
        return
    left, right = (world.split(int(ME < 2)), world.split(int(ME != 0)))
    first = gw.Segment(left, 4000, KIND) if ME < 2 else None
    second = gw.Segment(right, 4000, KIND) if ME else None
    if ME == 0:
        fill(first, pattern("unknown", 0, 4000))
    world.barrier()
    if ME == 1:
        gw.copy(first.pointer(0), second.pointer(1), 4000).wait()
    world.barrier()
    if ME == 2:
        data = np.empty(4000, np.uint8)
        second.kind.read(second.address, data).wait()
        assert (data == pattern("unknown", 0, 4000)).all()


@gw.jit
def through_code(there, back):
    gw.put(7.5, there)
    gw.get(there, out=back)
    return there.is_local


def check_memory_of_the_user():
    """Some ranks give arrays of their own, of any sizes, others have memory made: all copies reach all of them."""
    right, arrived = (ME + 1) % RANKS, gw.Signal(world)
    own = np.arange(40.0 + ME) + 100.0 * ME
    given = ME % 3 != 1
    segment = gw.Segment(world, memory=own) if given else gw.Segment(world, own.nbytes)
    mine, there = segment.pointer(dtype=float), segment.pointer(right, float)
    if not given:
        mine.local(own.size)[:] = own
    world.barrier()
    assert there.is_local == (RANKS == 1 or (right % 3 == 1 and world.node_of(right) == world.node_of(ME)))
    assert (gw.get(there, 40 + right).result() == np.arange(40.0 + right) + 100.0 * right).all()
    world.barrier()
    gw.put(-1.0, there).wait()
    gw.copy(np.full(5, float(ME)), there + 1, notify=arrived).wait()
    gw.copy(gw.indexed(np.arange(9.0), [2, 8], [3, 1]), gw.indexed(there, [30, 20], [2, 2]), notify=arrived).wait()
    gw.copy(np.ones(3), gw.strided(there + 10, (3,), (16,)), notify=arrived).wait()
    device = gw.Segment(world, 16, KIND).pointer(dtype=float)
    gw.copy(there + 1, device, 2).wait()
    gw.copy(device, there + 36, 2, notify=arrived).wait()
    arrived.wait(4)
    left = (ME - 1) % RANKS
    wanted = np.arange(40.0 + ME) + 100.0 * ME
    wanted[:6], wanted[[30, 31, 20, 21]], wanted[10:16:2], wanted[36:38] = [-1.0, *[left] * 5], [2, 3, 4, 8], 1.0, left
    assert (mine.local(own.size) == wanted).all()
    assert (own[0] == -1.0) == given
    world.barrier()
    assert through_code(there + 7, back := np.zeros(2)) == there.is_local
    assert back[0] == 7.5
    world.barrier()
    assert mine.local(8)[7] == 7.5
    source = np.arange(4.0) + ME
    ring = gw.plan([(source, gw.indexed(there, [1, 3], 2))])
    for step in range(2):
        source += step
        ring.start().wait()
        assert (mine.local(5)[1:] == np.arange(4.0) + left + step).all()
    world.barrier()
    if not there.is_local:
        assert "shares no memory" in raises(UsageError, segment.view, right)
    served = gw.Segment(world, memory=np.zeros(3), window=False)  # reached with the progress of its owner
    gw.put(ME + 0.5, served.pointer(right, float) + 2).wait()
    world.barrier()
    assert served.pointer(dtype=float).local(3).tolist() == [0.0, 0.0, left + 0.5]
    segment.close()
    assert "was closed" in raises(UsageError, gw.put, 1.0, there) if RANKS > 1 else True
    for wrong in (np.zeros(8)[::2], b"read-only", np.zeros(9, np.uint8)[1:], 3) if RANKS < 3 else ():
        fitting = np.zeros(0)
        raises(UsageError, gw.Segment, world, memory=wrong if ME == RANKS - 1 else fitting)
    for wrong in (-1, 8.5, None) if RANKS < 3 else ():
        assert "a segment" in raises(UsageError, gw.Segment, world, wrong if ME == RANKS - 1 else 8)
    world.barrier()


def check_errors_of_copies_are_raised():
    """All that waits for a copy raises its error, and none of its futures stays under way: its owner has closed it."""
    last = RANKS - 1
    served = gw.Segment(world, memory=np.zeros(2 * SLOT // 8), window=False)  # reached with the progress of its owner
    there, arrived = served.pointer(last, float), gw.Signal(world)
    world.barrier()
    if last == ME:
        served.close()
    world.barrier()
    if last != ME:
        for n in (1, 4, 2 * SLOT // 8):  # inside of a call, and in pieces
            here = np.ones(n)
            for start in (
                lambda here=here: gw.put(here, there),
                lambda here=here: gw.get(there, out=here),
                lambda here=here: gw.copy(here, there, notify=arrived),
                lambda here=here: gw.copy(gw.indexed(here, [0], [here.size]), there),
            ):
                assert "was closed" in raises(UsageError, start().wait)
                assert "was closed" in raises(UsageError, start().result)
                assert "was closed" in raises(UsageError, gw.when_all(start(), start()).wait)
                assert "was closed" in str(start().exception())
                assert "was closed" in raises(UsageError, in_region, start)
            failed = gw.copy(here, there, notify=arrived)
            assert "was closed" in raises(UsageError, failed.remote.wait)
            assert "was closed" in str(failed.source.exception() or failed.exception())
    world.barrier()
    assert not arrived.ready()


def in_region(start):
    with gw.AccessRegion():
        start()


def check_access_regions():
    """The end of a region waits for all copies, puts and gets that were started inside, and for no others."""
    right = (ME + 1) % RANKS
    segments = [gw.Segment(world, 800), gw.Segment(world, 800, KIND)]
    ends = [segment.pointer(right, float) for segment in segments]
    with gw.AccessRegion() as outer:
        puts = [gw.put(np.full(10, place + 100.0 * ME), end + 10 * place) for place in range(9) for end in ends]
        with gw.AccessRegion(wait=False) as inner:
            late = gw.copy(np.full(10, 9.0 + 100.0 * ME), ends[1] + 90)
        raises(KeyError, fail_in_region, puts, ends[0] + 90)
        everything = inner.future
    assert all(transfer.done() for transfer in (*puts, late))
    assert outer.future.done()
    everything.wait()
    with gw.AccessRegion() as region:
        rows = [gw.get(end, 100) for end in ends]
    assert region.future.done()
    for row in rows:
        assert row.done()
        assert (row.result()[:90] == np.repeat(np.arange(9), 10) + 100.0 * ME).all()
    assert (rows[1].result()[90:] == 9.0 + 100.0 * ME).all()
    # What others start meanwhile is not of the region: another thread, and a call that runs in its progress.
    left_alone.clear()
    with gw.AccessRegion(wait=False) as region:
        thread = threading.Thread(target=lambda: left_alone.append(gw.copy(np.zeros(10), ends[1])))
        thread.start()
        thread.join()
        gw.rpc(ME, start_in_callback, ends[1] + 10).wait()
        assert region.future.done()
        left_alone.append(gw.copy(np.zeros(10), ends[1] + 20))
        finished = region.future.done()
        assert left_alone[-1].done() or not finished
    for transfer in left_alone:
        transfer.wait()
    region.wait()
    assert "second time" in raises(RuntimeError, region.__enter__)
    world.barrier()


def fail_in_region(started, there):
    with gw.AccessRegion():
        started.append(gw.copy(np.zeros(10), there))
        raise KeyError


left_alone = []
"""Copies that belong to no region."""


def start_in_callback(there):
    left_alone.append(gw.copy(np.zeros(10), there))


def check_copies_inside_callbacks():
    """In a callback copies can be started and continued; waiting for one that needs others raises."""
    right = (ME + 1) % RANKS
    device = gw.Segment(world, 8000, KIND)
    data = gw.rpc(ME, copy_in_callback, device.pointer(right)).result()
    assert (data == pattern("callback", ME, 8000)).all()
    world.barrier()


def copy_in_callback(there):
    """Write to another rank's device, then read it back."""
    transfer = gw.copy(pattern("callback", ME, 8000), there)
    if CUDA and not paths.state.delayed and in_reach(there.segment, there.rank):
        transfer.wait()  # the driver needs nobody's help
    else:
        assert "then" in raises(gw.ProgressError, transfer.wait)
    return transfer.then(lambda _: gw.get(there, 8000))


def check_who_can_write_while_the_owner_does_nothing():
    """Loads and stores need nobody; a device needs its owner's attention, unless it can be attached."""
    host, device = gw.Segment(world, 64), gw.Segment(world, 64, KIND)
    last = RANKS - 1
    if RANKS == 1 or world.node.size < RANKS:
        return
    if last == ME:
        release = host.view(ME)
        while not release[63]:
            time.sleep(1e-3)
    elif ME == 0:
        there = host.pointer(last, "i8")
        gw.put(5, there).wait()
        assert gw.get(there).result() == 5
        transfer = gw.copy(np.arange(8), device.pointer(last, "i8"))
        if in_reach(device, last):
            transfer.wait()
        else:
            for _ in range(1000):
                gw.progress()
            assert not transfer.done()
            raises(TimeoutError, transfer.wait, 0.01)
        gw.put(1, host.pointer(last) + 63).wait()
        transfer.wait()
        assert (gw.get(device.pointer(last, "i8"), 8).result() == np.arange(8)).all()
    world.barrier()


def check_a_progress_thread_serves_copies():
    device, flag = gw.Segment(world, SLOT * 9, KIND), gw.Segment(world, 8)
    last = RANKS - 1
    world.barrier()
    if last == ME:
        with gw.progress_thread():
            while not flag.view(ME)[0] and RANKS > 1:
                time.sleep(1e-3)
    if ME == 0:
        data = pattern("thread", 0, SLOT * 9)
        gw.copy(data, device.pointer(last)).wait()
        assert (gw.get(device.pointer(last), data.size).result() == data).all()
        gw.put(1, flag.pointer(last)).wait()
    world.barrier()


def check_elements_larger_than_a_slot():
    dtype = np.dtype([("id", "i8"), ("data", "u1", SLOT)])
    right = (ME + 1) % RANKS
    there = gw.Segment(world, 3 * dtype.itemsize, KIND).pointer(right, dtype)
    records = np.zeros(3, dtype)
    records["id"], records["data"] = np.arange(3) + ME, pattern("records", ME, SLOT)
    gw.copy(records, there).wait()
    assert gw.get(there, 3).result().tobytes() == records.tobytes()
    world.barrier()


def check_nothing_moves_when_refused():
    right = (ME + 1) % RANKS
    for kind in (gw.host, KIND):
        segment = gw.Segment(world, 80, kind)
        p = segment.pointer(right, float)
        raises(UsageError, gw.copy, np.ones(11), p)
        raises(UsageError, gw.copy, np.ones(10, "f4"), p)
        raises(UsageError, gw.copy, p + 8, p, 3)
        raises(UsageError, gw.copy, p, p)
        raises(UsageError, gw.copy, p, np.zeros((2, 5)), 11)
        raises(UsageError, gw.put, 1.0, p + 10)
        raises(UsageError, gw.put, 1.0, p + (-1))
        raises(UsageError, gw.put, 1j, p)
        raises(UsageError, gw.get, p + 10)
        raises(UsageError, gw.get, p, 11)
        raises(UsageError, gw.copy, np.ones(2), p, notify="somebody")
        raises(UsageError, gw.copy, "text", p, 1)
        world.barrier()
        assert (contents(segment) == 0).all()
        world.barrier()


if __name__ == "__main__":
    run_checks(globals())
