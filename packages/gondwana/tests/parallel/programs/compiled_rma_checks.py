"""put, get and copy inside compiled code, on a node and between nodes, against what each rank must then hold."""

from __future__ import annotations

import numpy as np
from checks import raises, run_checks

import gondwana as gw

world = gw.world
RANK, SIZE = world.rank, world.size
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE
DTYPES = ("?", "i1", "i4", "i8", "u8", "f4", "f8", "c8", "c16")
ROOM = 64


_kept = []


def shared(nbytes):
    """A segment that lives until the end: this rank may be done with it before others are."""
    _kept.append(gw.Segment(world, nbytes))
    return _kept[-1]


@gw.jit
def put_one(ptr, value):
    gw.put(value, ptr + 2)
    return gw.get(ptr + 2)


@gw.jit
def move(theirs, out, back, n):
    """Put an array, get it and a part of it, and copy the rest in every form."""
    gw.put(out, theirs)
    gw.get(theirs, out=back)
    gw.get(theirs + 1, n, out=back)
    gw.copy(out, theirs + 16, n)
    gw.copy(theirs + 16, back, 1)
    gw.copy(theirs, theirs + 24, 2 * n)


@gw.jit
def third_party(src, dst, n):
    gw.copy(src, dst, n)


@gw.jit
def arithmetic(ptr, other):
    moved = ptr + 4 - 2
    return moved.offset, moved.rank, moved - ptr, other - ptr, (ptr - 1).offset


@gw.jit
def through_memory(ptr, n):
    """Sum what loads reach, and change it by stores."""
    total = 0.0
    memory = ptr.local(n)
    for i in range(n):
        total += memory[i]
        memory[i] = -1.0
    return total


@gw.jit
def fetch_local(ptr):
    return ptr.is_local, ptr.local()[0]


@gw.jit
def announce(team, mine, value):
    """Write a number into the memory of every rank, at the place of this one."""
    for step in range(team.size):
        rank = (team.rank + step) % team.size
        gw.put(value, mine.on(rank) + team.rank)
    return mine.on(0).on(team.size - 1).rank


@gw.jit
def on_rank(ptr, rank):
    return ptr.on(rank).rank


@gw.jit
def superstep(team, theirs, mine, arrived, ready, right, left, steps):
    """A BSP ring: put to the right, signal, wait, compute, agree; the slot is free again when `ready` says so."""
    total = 0
    for step in range(steps):
        value = team.rank + step * team.size
        gw.put(value, theirs)
        gw.signal(arrived, right)
        gw.wait(arrived)
        total += gw.get(mine)
        gw.signal(ready, left)
        gw.wait(ready)
    return gw.allreduce(team, total), total


def check_a_rank_that_has_released_its_memory_hinders_nobody_else():
    """The table of compiled code has all ranks; those that are not needed may have gone before it is made."""
    segment, last = gw.Segment(world, ROOM), SIZE - 1
    world.barrier()
    if RANK == last > 0:
        segment.close()
    world.barrier()
    if last != RANK:
        assert put_one(segment.pointer(0, "i8"), 7 + RANK) >= 7
        assert segment.bases[last] == 0
    world.barrier()


def check_numbers():
    for dtype in DTYPES:
        segment = shared(ROOM)
        value = np.dtype(dtype).type(RANK + 1)
        assert put_one(segment.pointer(RIGHT, dtype), value) == value.item()
        world.barrier()
        held = segment.view(RANK).view(dtype)
        assert held[2] == np.dtype(dtype).type(LEFT + 1), dtype
        assert not np.delete(held, 2).any()
        world.barrier()
    segment = shared(ROOM)
    assert put_one(segment.pointer(RIGHT, "f8"), 3) == 3.0  # a number of a narrower kind
    assert put_one(segment.pointer(RIGHT, "f4"), 0.1) == float(np.float32(0.1))


def check_arrays():
    for dtype in ("i2", "f8", "c16"):
        segment = shared(1024)
        rows = np.arange(SIZE * 8).reshape(SIZE, 8).astype(dtype)
        back = np.zeros(8, dtype)
        move(segment.pointer(RIGHT, dtype), rows[RANK], back, 3)
        assert back.tolist() == [*rows[RANK][:1], *rows[RANK][2:4], *rows[RANK][3:]]
        world.barrier()
        expected = np.zeros(1024 // rows.itemsize, dtype)
        expected[:8] = rows[LEFT]
        expected[16:19] = rows[LEFT][:3]
        expected[24:30] = rows[LEFT][:6]
        assert (segment.view(RANK).view(dtype) == expected).all()
        world.barrier()


def check_large_arrays_and_gondwana_arrays():
    segment = shared(1 << 20)
    box = gw.RectDomain((-1, 2), (255, 258))
    out, back = gw.Array.zeros(box), gw.Array.zeros(box)
    out.numpy()[:] = np.arange(65536.0).reshape(256, 256) + RANK
    move(segment.pointer(RIGHT, "f8"), out, back, 4)
    world.barrier()
    assert (segment.view(RANK).view("f8")[32:65536] == np.arange(32.0, 65536.0) + LEFT).all()


def check_third_party():
    segment = shared(80_000)
    held = segment.view(RANK).view("i8")
    held[:5000] = np.arange(5000) + 10_000 * RANK
    world.barrier()
    # Everybody copies from the rank on its right to the one on its left: neither end need be its own.
    for n in (0, 1, 700, 5000):
        third_party(segment.pointer(RIGHT, "i8"), segment.pointer(LEFT, "i8", 40_000), n)
        world.barrier()
        assert (held[5000 : 5000 + n] == np.arange(n) + 10_000 * ((RANK + 2) % SIZE)).all()
        assert not held[5000 + n :].any()
        world.barrier()
        held[5000:] = 0
        world.barrier()


def check_pointers():
    segment = shared(256)
    ptr = segment.pointer(RIGHT, "f4", 16)
    assert arithmetic(ptr, ptr + 7) == (24, RIGHT, 2, 7, 12)
    mine = segment.pointer(RANK, "f8")
    segment.view(RANK).view("f8")[:4] = [1, 2, 3, 4]
    assert through_memory(mine, 4) == 10.0
    assert (segment.view(RANK).view("f8")[:4] == -1).all()
    if ptr.is_local:
        assert fetch_local(ptr)[0]
    else:
        assert "loads and stores do not reach" in raises(ValueError, fetch_local, ptr)


@gw.jit
def rings_of_threads(threads, team, slots, arrived, right, left, steps):
    """Each thread has a ring of its own, through the ranks; after every step all threads of all ranks agree."""
    wrong = 0
    mine = slots + threads.index
    for step in range(steps):
        gw.put(1000 * step + 10 * team.rank + threads.index, mine.on(right))
        gw.signal(arrived, right, 1, threads.index)
        gw.wait(arrived, 1, threads.index)
        wrong += gw.get(mine) != 1000 * step + 10 * left + threads.index
        done = threads.sum(1)
        if threads.index == 0:
            done = gw.allreduce(team, done)
        wrong += threads.broadcast(done) != team.size * threads.size
    return threads.sum(wrong)


@gw.jit
def fail_on_a_rank(threads, team, whom):
    if team.rank == whom and threads.index == threads.size - 1:
        raise ValueError("this thread fails")
    threads.barrier()


def check_threads_of_every_rank():
    on_one_node = world.node_count == 1
    for size in (1, 2, 3) if on_one_node else (1,):
        slots, arrived = shared(8 * size).pointer(dtype="i8"), gw.Signal(world, channels=size)
        assert gw.parallel(rings_of_threads, world, slots, arrived, RIGHT, LEFT, 20, threads=size) == 0
        world.barrier()
    for size in (1, 2, 3):
        if RANK == 0:
            assert "this thread fails" in raises(ValueError, gw.parallel, fail_on_a_rank, world, 0, threads=size)
        else:
            gw.parallel(fail_on_a_rank, world, 0, threads=size)


def check_the_same_place_of_every_rank():
    """Parts have different sizes: what is inside of one may be outside of another."""
    segment = shared(8 * (SIZE + 1) + 8 * RANK)
    mine = segment.pointer(dtype="f8") + 1
    assert announce(world, mine, RANK + 0.5) == SIZE - 1
    world.barrier()
    assert mine.local(SIZE).tolist() == [rank + 0.5 for rank in range(SIZE)]
    assert not mine.local(SIZE + RANK)[SIZE:].any()
    assert mine.on(RIGHT) == segment.pointer(RIGHT, "f8", 8)
    assert gw.get(mine.on(LEFT) + RIGHT).result() == RIGHT + 0.5
    last = mine + SIZE + RANK  # behind the last element of this rank
    assert last.on(SIZE - 1).rank == SIZE - 1
    if RANK > 0:
        assert f"rank 0 has {8 * (SIZE + 1)} bytes" in raises(gw.errors.UsageError, last.on, 0)
    for rank in (-1, SIZE):
        assert "there is no such rank" in raises(IndexError, on_rank, mine, rank)
        assert f"the ranks of world are 0 to {SIZE - 1}" in raises(gw.errors.UsageError, mine.on, rank)
    world.barrier()


@gw.jit
def records(ptr, buffer, arrived):
    """Put records in every form, get one, and work on its fields where loads and stores reach them."""
    gw.put(buffer[0], ptr + 5, notify=arrived)
    gw.put((1.5, (9, 6), False), ptr + 6, notify=arrived)
    gw.put(buffer, ptr)
    gw.put(buffer[1], ptr + 2)
    gw.put((0.5, (7, 8), True), ptr + 3)
    gw.copy(ptr + 3, ptr + 4, 1)
    gw.get(ptr + 3, out=buffer[:1])
    buffer[0].place[1] += 1.0
    return buffer[0].mass + buffer[0]["place"][0]


def check_records():
    record = np.dtype([("mass", "f4"), ("place", "f8", 2), ("used", "?")])
    segment, arrived = shared(7 * record.itemsize), gw.Signal(world)
    buffer = np.zeros(2, segment.pointer(dtype=record).dtype)
    buffer[:] = [(RANK, (1.0, 2.0), False), (RANK + 1, (3.0, 4.0), True)]
    world.barrier()
    assert records(segment.pointer(RIGHT, record), buffer, arrived) == 7.5
    assert buffer[0].mass == 0.5
    assert buffer[0].place.tolist() == [7.0, 9.0]
    assert buffer[0].used
    arrived.wait(2)
    held = segment.pointer(dtype=record).local(7)
    assert held["mass"][5:].tolist() == [LEFT, 1.5]
    assert held["place"][5:].tolist() == [[1.0, 2.0], [9.0, 6.0]]
    world.barrier()
    assert held["mass"][:5].tolist() == [LEFT, LEFT + 1, LEFT + 1, 0.5, 0.5]
    assert held["place"][:5].tolist() == [[1.0, 2.0], [3.0, 4.0], [3.0, 4.0], [7.0, 8.0], [7.0, 8.0]]
    assert held["used"][:5].tolist() == [False, True, True, True, True]
    world.barrier()


@gw.jit
def put_made(ptr, like, arrived):
    made = np.zeros(60, like.dtype)
    made[1].mass = 2.5
    row = made[1]
    taken = np.full(60 * 3, -1.0)
    gw.put(row, ptr)
    gw.put(row, ptr + 1, notify=arrived)
    gw.wait(arrived)
    return taken[0]


def check_records_of_arrays_that_compiled_code_has_made():
    record = np.dtype([("mass", "f8"), ("place", "f8", 2)])
    segment, arrived = shared(2 * record.itemsize), gw.Signal(world)
    like = np.zeros(1, segment.pointer(dtype=record).dtype)
    assert put_made(segment.pointer(RIGHT, record), like, arrived) == -1.0
    world.barrier()
    assert segment.pointer(dtype=record).local(2)["mass"].tolist() == [2.5, 2.5]
    world.barrier()


@gw.jit
def move_unnamed(ptr, n, value, arrived):
    """Put, copy and get in memory that no variable refers to: each is done with it when it returns."""
    gw.put(np.full(n, value), ptr)
    gw.put(np.full(n, value) + 1.0, ptr + n, notify=arrived)
    gw.copy(np.full(n + 1, value + 2.0)[1:], ptr + 2 * n)
    back = np.empty(n)
    gw.get(ptr, out=back[:])
    gw.wait(arrived)
    return back.min(), back.max()


def check_arrays_that_nobody_names():
    for n in (10, 1500, 5000):  # one message, two, and a put through the window
        segment, arrived = shared(3 * n * 8), gw.Signal(world)
        assert move_unnamed(segment.pointer(RIGHT, "f8"), n, 1.0 + RANK, arrived) == (1.0 + RANK, 1.0 + RANK)
        world.barrier()
        held = segment.pointer(dtype="f8").local(3 * n).reshape(3, n)
        assert np.array_equal(held.T - np.arange(3), np.full((n, 3), 1.0 + LEFT))
    world.barrier()


def check_errors():
    segment = shared(1024)
    ptr = segment.pointer(RIGHT, "f8")
    assert "n is negative" in raises(ValueError, move, ptr, np.zeros(4), np.zeros(4), 5)
    assert "n is negative" in raises(ValueError, third_party, ptr, ptr, -1)
    every_other = gw.Array.zeros(gw.RectDomain((0,), (9,))).restrict(gw.RectDomain((0,), (9,), (2,)))
    assert "contiguous" in raises(ValueError, move, ptr, every_other, np.zeros(5), 3)


def check_superstep():
    arrived, ready = gw.Signal(world), gw.Signal(world)
    segment = shared(8)
    steps = 60
    total, own = superstep(
        world, segment.pointer(RIGHT, "i8"), segment.pointer(RANK, "i8"), arrived, ready, RIGHT, LEFT, steps
    )
    assert own == sum(LEFT + step * SIZE for step in range(steps))
    assert total == sum(range(steps * SIZE))


@gw.jit
def put_with_signal(theirs, mine, arrived, left, lines, numbers):
    """Put rows and numbers to the right, each with a signal; wait for those of the left; count wrong elements."""
    wrong, width = 0, lines.shape[1]
    for step in range(len(lines)):
        gw.put(lines[step], theirs, notify=arrived)
        gw.wait(arrived)
        here = mine.local(width)
        for i in range(width):
            wrong += here[i] != 1000.0 * left + step * width + i
        gw.put(numbers[step], theirs + width, notify=arrived.at(theirs.rank, 1))
        gw.put(lines[step, :0], theirs, notify=arrived.at(theirs.rank, 2))
        gw.wait(arrived, 1, 1)
        gw.wait(arrived, 1, 2)
        wrong += gw.get(mine + width) != 1000 * left + step
        gw.put(lines[step, :1], mine.on(left) + width + 1, notify=arrived.at(left, 3))  # the left one may go on
        gw.wait(arrived, 1, 3)
    return wrong


@gw.jit
def put_many_with_signals(theirs, mine, arrived, values):
    """Put more than may be under way, then wait for as many."""
    for i in range(len(values)):
        gw.put(values[i : i + 1], theirs + i, notify=arrived)
    gw.wait(arrived, len(values))
    total = 0.0
    for i in range(len(values)):
        total += gw.get(mine + i)
    return total


@gw.jit
def put_then_agree(team, theirs, mine, arrived, values):
    """The same with a target that enters a reduction of MPI before it looks."""
    for i in range(len(values)):
        gw.put(values[i : i + 1], theirs + i, notify=arrived)
    total = gw.allreduce(team, 1)
    gw.wait(arrived, len(values))
    return total + mine.local(len(values)).sum()


def check_puts_with_signals():
    arrived = gw.Signal(world, 4)
    for width in (1, 1024, 1500, 2500):  # of 8 KiB and less, between nodes one message; of 16 KiB two; more: none
        segment = shared(8 * (width + 2))
        lines = 1000.0 * RANK + np.arange(12.0 * width).reshape(12, width)
        numbers = 1000 * RANK + np.arange(12)
        ends = segment.pointer(RIGHT, "f8"), segment.pointer(RANK, "f8")
        assert put_with_signal(*ends, arrived, LEFT, lines, numbers) == 0
        world.barrier()
    assert not any(arrived.ready(1, channel) for channel in range(4))


def check_more_puts_with_signals_than_may_be_under_way():
    count, arrived = 150, gw.Signal(world)
    segment = shared(8 * count)
    ends = segment.pointer(RIGHT, "f8"), segment.pointer(RANK, "f8")
    assert put_many_with_signals(*ends, arrived, np.full(count, LEFT + 1.0)) == count * ((LEFT - 1) % SIZE + 1.0)
    world.barrier()
    expected = SIZE + count * (LEFT + 5.0)
    assert put_then_agree(world, *ends, arrived, np.full(count, RANK + 5.0)) == expected
    world.barrier()
    assert not arrived.ready()


@gw.jit
def notify_by(ptr, notice):
    gw.put(1.0, ptr, notify=notice)


@gw.jit
def notify_channel(ptr, signal, rank, channel):
    gw.put(1.0, ptr, notify=signal.at(rank, channel))


def check_whom_puts_notify():
    segment, signal = shared(8), gw.Signal(world, 2)
    there = segment.pointer(RIGHT, "f8")
    for rank, channel in ((-1, 0), (SIZE, 0)):
        assert "there is no such rank" in raises(IndexError, notify_channel, there, signal, rank, channel)
    assert "no such channel" in raises(IndexError, notify_channel, there, signal, RIGHT, 2)
    assert "give a signal, or signal.at" in raises(gw.errors.KernelError, notify_by, there, 3)
    notify_channel(there, signal, LEFT, 1)  # not the owner of the memory
    signal.wait(1, 1)
    world.barrier()
    assert segment.pointer(dtype="f8").local()[0] == 1.0
    alone, reverse = world.split(RANK), world.split(0, -RANK)
    turned = gw.Signal(reverse)  # ranks have other numbers in its team
    notify_by(there, turned)
    turned.wait()
    assert not turned.ready()
    if SIZE > 1:
        assert "not in the team of the signal" in raises(ValueError, notify_by, there, gw.Signal(alone))
    else:
        gw.Signal(alone)
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
