"""What signals, atomic domains and locks must do, each check by all ranks. Prints one JSON line per check."""

from __future__ import annotations

import functools
import itertools
import os
import time

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.runtime import progress
from gondwana.sync.atomic_paths import DTYPES
from gondwana.sync.delivery import MOST_SIGNALS
from gondwana.teams import SUM, world

ONE_NODE = world.node.size == world.size
FEW = "FEWER_ROUNDS" in os.environ
MANY = 200 if FEW or not ONE_NODE else 20_000
"""Steps in compiled code."""
SOME = 50 if FEW or not ONE_NODE else 200
"""Steps in Python."""
RIGHT = (world.rank + 1) % world.size
OPS = {
    "add": np.add,
    "sub": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


def word(dtype="i8"):
    """A word on rank 0, and the pointer to it."""
    return gw.Segment(world, 64).pointer(0, dtype) + 2


# -- signals -------------------------------------------------------------------------------------------------------


def check_ring_of_signals():
    signal = gw.Signal(world, 2)
    for _ in range(SOME):
        signal.add(RIGHT, 1, 1)
        signal.wait(1, 1)
    assert not signal.ready(1, 1)
    assert not signal.ready(1, 0)


@gw.jit
def compiled_ring(signal, right, steps):
    for _ in range(steps):
        gw.signal(signal, right)
        gw.wait(signal)


def check_ring_of_signals_in_compiled_code():
    signal = gw.Signal(world)
    compiled_ring(signal, RIGHT, MANY // 10)
    # Python on even ranks, compiled code on odd ones
    if world.rank % 2:
        compiled_ring(signal, RIGHT, SOME)
    else:
        for _ in range(SOME):
            signal.add(RIGHT)
            signal.wait()
    world.barrier()
    assert not signal.ready()


def check_signals_from_all_to_all():
    signal = gw.Signal(world, 3)
    for rank, channel in itertools.product(range(world.size), range(3)):
        for _ in range(5):
            signal.add(rank, channel + 1, channel)
    for channel in (2, 0, 1):
        signal.wait(5 * (channel + 1) * world.size, channel)
    world.barrier()
    assert not any(signal.ready(1, channel) for channel in range(3))


@gw.jit
def add_often(signal, right, times):
    for _ in range(times):
        gw.signal(signal, right)


def check_signals_that_nobody_waits_for_yet():
    """More than may be under way between nodes: no rank waits for another one meanwhile, and none is lost."""
    signal = gw.Signal(world)
    add_often(signal, RIGHT, MOST_SIGNALS + 500)
    for _ in range(500):
        signal.add(RIGHT, 2)
    signal.wait(MOST_SIGNALS + 1500)
    world.barrier()
    assert not signal.ready()


def check_signals_of_different_sizes():
    if world.size > 1:
        message = raises(UsageError, gw.Signal, world, 3 if world.rank else 2)
        assert "with 2 and with 3 channels" in message


def check_timeouts_of_signals():
    signal = gw.Signal(world)
    start = time.monotonic()
    message = raises(TimeoutError, signal.wait, 2, timeout=0.05)
    assert "2 arrivals on channel 0" in message
    assert "only 0" in message
    assert time.monotonic() - start < 30
    world.barrier()
    signal.add(RIGHT, 2)
    signal.wait(2, timeout=60)


def check_signal_carries_what_was_written_before():
    """A producer and a consumer, at most as many steps apart as there are slots."""
    slots, steps = 4, SOME
    segment = gw.Segment(world, 8 * slots)
    filled, free = gw.Signal(world), gw.Signal(world)
    left = (world.rank - 1) % world.size
    free.add(left, slots)
    mine = segment.view(world.rank).view("i8")
    for step in range(steps):
        free.wait()
        write(segment, RIGHT, step % slots, step + 1)
        filled.add(RIGHT)
        filled.wait()
        assert mine[step % slots] == step + 1
        free.add(left)


def write(segment, rank, place, value):
    """A plain store, or a put that is complete."""
    if rank in segment.peers:
        segment.view(rank).view("i8")[place] = value
    else:
        segment.window.put(rank, 8 * place, np.array([value]).view("u1")).wait()


@gw.jit
def produce(payload, filled, free, to, steps):
    slots = payload.shape[0]
    for step in range(steps):
        gw.wait(free)
        for part in range(payload.shape[1]):
            payload[step % slots, part] = step
        gw.signal(filled, to)


@gw.jit
def consume(payload, filled, free, to, steps):
    slots, wrong = payload.shape[0], 0
    for step in range(steps):
        gw.wait(filled)
        for part in range(payload.shape[1]):
            wrong += payload[step % slots, part] != step
        gw.signal(free, to)
    return wrong


def check_litmus_of_producer_and_consumer():
    """The payload has the version that the signal says, also in cache lines that the signal is not in."""
    if not ONE_NODE or world.size == 1:
        return
    slots, parts = 16, 16
    segment = gw.Segment(world, 8 * slots * parts)
    filled, free = gw.Signal(world), gw.Signal(world)
    partner = world.rank ^ 1
    steps = 300_000 if world.size == 2 and not FEW else 5_000
    if partner < world.size:
        payload = segment.view(world.rank | 1).view("i8").reshape(slots, parts)
        if world.rank % 2:
            free.add(partner, slots)
            assert consume(payload, filled, free, partner, steps) == 0
        else:
            produce(payload, filled, free, partner, steps)
    world.barrier()


@gw.jit
def raise_and_look(domain, mine, other, seen, meet, partner):
    for step in range(seen.size):
        gw.signal(meet, partner)
        gw.wait(meet)
        domain.store(mine, 1)
        seen[step] = domain.load(other)
        gw.signal(meet, partner)
        gw.wait(meet)
        domain.store(mine, 0)


def check_litmus_of_dekker():
    """Each raises its flag and looks at the other's: not both may find it down. It takes the order of a domain."""
    if not ONE_NODE or world.size != 2:
        return
    domain = gw.AtomicDomain("i8", ["store", "load"], world)
    flags = gw.Segment(world, 8)
    mine, other = (flags.pointer(rank, "i8") for rank in (world.rank, 1 - world.rank))
    seen = np.zeros(30_000, "i8")
    raise_and_look(domain, mine, other, seen, gw.Signal(world), 1 - world.rank)
    mine_and_theirs = np.zeros((2, seen.size), "i8")
    world.Allgather(seen, mine_and_theirs)
    assert (mine_and_theirs.sum(axis=0) > 0).all()


BOX = 72 * 1024


def boxes(pointer):
    """Destinations of every form in `BOX` bytes: what `copy` takes, and the same as views of the memory."""
    number = pointer.dtype.itemsize
    cases = [((7,), (number,)), ((1024,), (number,)), ((1025,), (number,)), ((4,), (5 * number,)), ((0,), (number,))]
    cases += [((8192,), (number,)), ((8193,), (number,)), ((1100, 2), (4 * number, number))]  # the last one has gaps
    cases += [((3, 5, 2), (100 * number, 3 * number, number)), ((6, 4), (number, 9 * number)), ((), ())]
    cases += [((2, 3, 2, 2, 2), tuple(number * step for step in (240, 60, 20, 7, 2)))]  # too many axes for one message
    for shape, strides in cases:
        yield gw.strided(pointer, shape, strides), shape, strides
    yield gw.strided(pointer + 12, (3, 4), (-4 * number, number)), (3, 4), (-4 * number, number)


def check_copies_with_signals():
    """Of all sizes and strides; the signal says that they are there, `done` that the other rank has them."""
    segment, signal = gw.Segment(world, BOX), gw.Signal(world, 2)
    mine, left = segment.view(world.rank), (world.rank - 1) % world.size
    for target, shape, strides in boxes(segment.pointer(RIGHT, "f8")):
        world.barrier()
        mine[:] = 255
        world.barrier()
        data = np.arange(float(np.prod(shape))).reshape(shape)
        transfer = gw.copy(np.asarray(data + world.rank), target, notify=signal.at(RIGHT, 1))
        transfer.source.wait()
        signal.wait(1, 1)
        offset = segment.pointer(dtype="f8", offset=target.pointer.offset).offset
        expected = np.full(BOX, 255, np.uint8)
        for memory in (mine, expected):
            held = np.ndarray(shape, "f8", memory, offset if data.size else 0, strides)
            if memory is expected:
                held[...] = data + left
            else:
                assert (held == data + left).all()
        assert (mine == expected).all(), (shape, strides)
        while not transfer.done():  # without a wait
            gw.progress()
        assert transfer.remote.done()
    world.barrier()
    gw.put(2.5, segment.pointer(RIGHT, "f8"), notify=signal).wait()
    signal.wait()
    assert mine.view("f8")[0] == 2.5
    assert not signal.ready()
    assert not signal.ready(1, 1)
    world.barrier()


def check_many_copies_with_signals():
    """More than may be under way: all arrive, their futures complete by callbacks, and in callbacks, too."""
    segment, signal = gw.Segment(world, 8 * 200), gw.Signal(world)
    theirs, left = segment.pointer(RIGHT, "i8"), (world.rank - 1) % world.size
    copies = [gw.copy(np.array([world.rank + step]), theirs + step, notify=signal) for step in range(200)]
    gw.when_all(*[copy.remote for copy in copies]).wait()
    signal.wait(200)
    assert (segment.view(world.rank).view("i8") == left + np.arange(200)).all()
    world.barrier()
    waited = gw.copy(np.array([-1]), theirs, notify=signal).then(lambda _: gw.put(-2, theirs, notify=signal).wait())
    waited.wait()
    signal.wait(2)
    world.barrier()
    assert segment.view(world.rank).view("i8")[0] == -2
    several = np.arange(8192)  # eight messages each
    segment = gw.Segment(world, 10 * several.nbytes)
    theirs = segment.pointer(RIGHT, "i8")
    copies = [gw.copy(several + (world.rank + step), theirs + 8192 * step, notify=signal) for step in range(10)]
    signal.wait(10)
    expected = several + (left + np.arange(10)[:, None])
    assert (segment.view(world.rank).view("i8").reshape(10, -1) == expected).all()
    gw.when_all(*copies).wait()
    world.barrier()


def check_copies_with_signals_to_ranks_that_wait_for_others():
    """A target receives in a barrier, in a reduction, in a wait for another signal, and when it waits for nothing."""
    segment, first, second = gw.Segment(world, 8 * world.size), gw.Signal(world), gw.Signal(world)
    mine = segment.view(world.rank).view("i8")
    ranks = np.arange(world.size)
    waits = (
        world.barrier,
        lambda: world.allreduce(1),
        lambda: second.wait(world.size),
        lambda: gw.allreduce(world, 1),
        lambda: gw.allreduce(world, np.ones(5000)),
        lambda: gw.bcast(world, np.ones(5000)),
    )
    for meet in waits:
        for rank in ranks.tolist():
            gw.put(world.rank + 1, segment.pointer(rank, "i8") + world.rank, notify=first).wait()
            second.add(rank)
        meet()
        first.wait(world.size)
        assert (mine == ranks + 1).all()
        world.barrier()
        mine[:] = 0
        world.barrier()


@gw.jit
def wait_in_recv(team, data, source):
    gw.recv(team, data, source)


@gw.jit
def wait_in_send(team, data, dest):
    gw.send(team, data, dest)


@gw.jit
def wait_in_sendrecv(team, data, other, partner):
    gw.sendrecv(team, data, partner, other, partner)


@gw.jit
def wait_for_requests(team, data, other, partner):
    gw.wait_all((gw.irecv(team, other, partner), gw.isend(team, data, partner)))


@gw.jit
def wait_in_barrier(team):
    gw.barrier(team)


@gw.jit
def wait_in_bcast(team, data):
    gw.bcast(team, data)


@gw.jit
def wait_in_sum(team, data):
    gw.allreduce(team, data)


def check_ranks_that_wait_in_compiled_code_apply_puts():
    """Rank 0 waits until its puts are applied before it does what the others wait for."""
    few, many = np.arange(3.0), np.arange(200_000.0)
    other, sums, large_sums = np.zeros(200_000), np.ones(3), np.ones(70_000)
    others = range(1, world.size)
    cases = (
        (lambda: wait_in_recv(world, few, 0), lambda: [gw.send(world, few, rank) for rank in others]),
        (lambda: wait_in_send(world, many, 0), lambda: [gw.recv(world, other, rank) for rank in others]),
        (
            lambda: wait_in_sendrecv(world, many, other, 0),
            lambda: [gw.sendrecv(world, many, rank, other, rank) for rank in others],
        ),
        (
            lambda: wait_for_requests(world, many, other, 0),
            lambda: [wait_in_sendrecv(world, many, other, rank) for rank in others],
        ),
        (lambda: wait_in_barrier(world), world.barrier),
        (lambda: wait_in_bcast(world, few), lambda: gw.bcast(world, few)),
        (lambda: wait_in_bcast(world, many), lambda: gw.bcast(world, many)),
        (lambda: wait_in_sum(world, sums), lambda: gw.allreduce(world, sums)),
        (lambda: gw.allreduce(world, sums), lambda: wait_in_sum(world, sums)),
        (lambda: wait_in_sum(world, large_sums), lambda: gw.allreduce(world, large_sums)),
        (lambda: gw.allreduce(world, large_sums), lambda: wait_in_sum(world, large_sums)),
        (lambda: gw.bcast(world, few), lambda: wait_in_bcast(world, few)),
    )
    segment, signal = gw.Segment(world, 8), gw.Signal(world)
    for wait, do in cases:
        if world.rank == 0:
            for rank in others:
                gw.put(rank, segment.pointer(rank, "i8"), notify=signal).wait()
            do()
        else:
            wait()
            signal.wait()
            assert segment.view(world.rank).view("i8")[0] == world.rank
            segment.view(world.rank)[:] = 0
        world.barrier()
    assert (sums == world.size**2).all()
    assert (large_sums == world.size**2).all()
    assert (other == many).all() or world.size == 1


def check_ranks_that_wait_for_their_node_apply_puts():
    """All but one rank of a node put to that rank of the next node, which waits for its own node."""
    segment, signal = gw.Segment(world, 8), gw.Signal(world)
    first = {world.node_of(rank): rank for rank in reversed(range(world.size))}
    there = first[(world.node_of(world.rank) + 1) % world.node_count]
    if world.node.rank > 0:
        gw.put(1, segment.pointer(there, "i8"), notify=signal).wait()
    wait_in_barrier(world.node)


def check_sums_of_all_kinds():
    """In Python and in compiled code, of few and of many bytes, in the order of the ranks or by MPI."""
    for dtype in ("f8", "f4", "i4", "u1", "i8"):
        for size in (0, 1, 7, 600, 5000):
            given = [(np.arange(size) * (rank + 1) % 31).astype(dtype) for rank in range(world.size)]
            for op, combine in ((gw.SUM, np.add), (gw.MAX, np.maximum)):
                expected = functools.reduce(combine, given)
                mine = given[world.rank].copy()
                gw.allreduce(world, mine, op)
                assert (mine == expected).all(), (dtype, size, op)
            if dtype == "f8":
                mine = given[world.rank].copy()
                wait_in_sum(world, mine)
                assert (mine == functools.reduce(np.add, given)).all(), size
    in_columns = np.asfortranarray(np.full((3, 4), world.rank))
    gw.allreduce(world, in_columns)
    assert (in_columns == sum(range(world.size))).all()
    assert gw.allreduce(world, world.rank == 0, "lor") is True


def check_segments_with_copies_on_the_way_come_and_go():
    """Memory is given back when what is on its way has arrived, whether anybody looks at it or not."""
    if world.node_count < world.size:
        return  # a rank that has released its memory can no longer be put to on its own node
    kept = gw.Segment(world, 64)
    for step in range(12):
        segment, signal = gw.Segment(world, 4096), gw.Signal(world)
        for rank in range(world.size):
            gw.put(np.full(512, step), segment.pointer(rank, "i8"), notify=signal)
        if step % 3 == world.rank % 3:
            signal.wait(world.size)
        if step % 2:
            segment.close()
        del segment, signal
    world.barrier()
    assert not kept.view(world.rank).any()


# -- atomic domains ------------------------------------------------------------------------------------------------


@gw.jit
def draw(domain, counter, tickets):
    for index in range(tickets.size):
        tickets[index] = domain.fetch_add(counter, 1)


def check_tickets_are_a_permutation():
    domain = gw.AtomicDomain("i8", ["fetch_add"], world)
    assert domain.path == ("cpu" if ONE_NODE else "mpi")
    counter = word()
    tickets = np.zeros(MANY, "i8")
    draw(domain, counter, tickets)
    assert (np.diff(tickets) > 0).all()
    more = [domain.fetch_add(counter, 1).result() for _ in range(SOME)]
    everybody = [ticket for part in world.allgather([*tickets.tolist(), *more]) for ticket in part]
    assert sorted(everybody) == list(range((MANY + SOME) * world.size))


@gw.jit
def increase(domain, counter, steps):
    for _ in range(steps):
        old = domain.load(counter)
        while True:
            seen = domain.compare_exchange(counter, old, old + 1)
            if seen == old:
                break
            old = seen


def check_loops_of_compare_and_swap():
    steps = MANY // 10 if ONE_NODE else 20
    for dtype in ("u4", "i8", "f8"):
        domain = gw.AtomicDomain(dtype, ["load", "compare_exchange", "fetch_add", "add"], world)
        counter = word(dtype)
        increase(domain, counter, steps)
        for _ in range(10):  # with others of the same domain on the same word
            domain.add(counter, 1).wait()
            domain.fetch_add(counter, 1).wait()
            old = domain.load(counter).result()
            while (seen := domain.compare_exchange(counter, old, old + 1).result()) != old:
                old = seen
        world.barrier()
        assert domain.load(counter).result() == (steps + 30) * world.size, dtype


def check_every_operation_on_every_type():
    for dtype in DTYPES:
        names = [name for name in OPS if dtype[0] != "f" or "bit" not in name]
        fetching = [f"fetch_{name}" for name in names]
        domain = gw.AtomicDomain(dtype, [*names, *fetching, "store", "load", "exchange"], world)
        segment = gw.Segment(world, 1024)
        owner = world.size - 1
        words = {name: segment.pointer(owner, dtype, 8 * place) for place, name in enumerate([*names, *fetching])}
        if world.rank == 0:
            for name, pointer in words.items():
                domain.store(pointer, initial(name)).wait()
        world.barrier()
        futures = [
            getattr(domain, name)(pointer, value)
            for name, pointer in words.items()
            for value in values(name, world.rank)
        ]
        for future in futures:
            future.wait()
        world.barrier()
        for name, pointer in words.items():
            expected = np.array([initial(name)], dtype)
            for rank in range(world.size):
                for value in values(name, rank):
                    signed = -value if "sub" in name else value
                    expected = OPS[name.removeprefix("fetch_")](expected, np.array([signed]).astype(dtype))
            assert domain.load(pointer).result() == expected[0], (dtype, name)


def initial(name):
    return 0b1111111 if "and" in name else 20 if "min" in name else 1


def values(name, rank):
    """What a rank applies: small, so that floats are exact in any order."""
    if "mul" in name:
        return [1, 2, 1 + rank % 2]
    return [2 + rank, 7 * rank % 5 + 64, 3]


@gw.jit
def every_update(domain, words, value):
    domain.add(words[0], value)
    domain.sub(words[1], value)
    domain.max(words[2], value)
    domain.min(words[3], value)
    a = domain.fetch_add(words[4], value)
    b = domain.fetch_max(words[5], value)
    domain.mul(words[6], 2)
    return a >= 0, b >= 0


def check_compiled_updates():
    names = ["add", "sub", "max", "min", "fetch_add", "fetch_max", "mul", "load", "store"]
    for dtype, swaps in (("u4", False), ("f8", True)):
        domain = gw.AtomicDomain(dtype, [*names, "compare_exchange"] if swaps else names, world)
        first = gw.Segment(world, 64).pointer(0, dtype)
        words = tuple(first + place for place in range(7))
        if world.rank == 0:
            for pointer, value in zip(words, [1, 1000, 0, 1000, 0, 0, 1], strict=True):
                domain.store(pointer, value).wait()
        world.barrier()
        assert every_update(domain, words, np.dtype(dtype).type(world.rank + 2)) == (True, True)
        world.barrier()
        ranks = np.arange(world.size) + 2
        total = int(ranks.sum())
        expected = [1 + total, 1000 - total, ranks.max(), 2, total, ranks.max(), 2**world.size]
        assert [domain.load(pointer).result() for pointer in words] == expected, dtype


def check_batches_of_all_ranks():
    places, rounds = 97, 3 if FEW or not ONE_NODE else 30
    counts, largest = np.zeros((world.size, places), "i8"), np.zeros((world.size, places), "i8")
    table = gw.Segment(world, places * 8).pointer(dtype="i8")
    peaks = gw.Segment(world, places * 8).pointer(dtype="i8")
    tickets = gw.Segment(world, 8).pointer(0, "i8")
    domain = gw.AtomicDomain("i8", ["add", "max", "fetch_add", "load"], world)
    drawn = []
    for turn, source in itertools.product(range(rounds), range(world.size)):
        rng = np.random.default_rng([turn, source])
        indices, values = rng.integers(0, places, 40), rng.integers(1, 1000, 40)
        target = (source + turn) % world.size
        np.add.at(counts[target], indices, values)
        np.maximum.at(largest[target], indices, values)
        if source == world.rank:
            updates = [domain.batch("add", table.on(target), indices, values)]
            updates += [domain.batch("max", peaks.on(target), indices, values)]
            drawn += domain.batch("fetch_add", tickets, np.zeros(5, int), 1).result().tolist()
            for update in updates:
                update.wait()
    world.barrier()
    for rank in range(world.size):
        assert (domain.batch("load", table.on(rank), np.arange(places)).result() == counts[rank]).all()
        assert (domain.batch("load", peaks.on(rank), np.arange(places)).result() == largest[rank]).all()
    assert sorted(itertools.chain(*world.allgather(drawn))) == list(range(5 * rounds * world.size))
    world.barrier()


def check_exchanges_form_a_chain():
    domain = gw.AtomicDomain("i8", ["exchange", "load"], world)
    place = word()
    mine = [1 + world.rank * SOME + step for step in range(SOME)]
    seen = [domain.exchange(place, value).result() for value in mine]
    world.barrier()
    everything = [value for values in world.allgather((*seen,)) for value in values]
    everything.append(domain.load(place).result())
    assert sorted(everything) == list(range(SOME * world.size + 1))


def check_sum_of_floats():
    for ops in (["add", "load"], ["add", "load", "compare_exchange"]):
        domain = gw.AtomicDomain("f8", ops, world)
        total = word("f8")
        for future in [domain.add(total, 0.1 * (step + world.rank)) for step in range(SOME)]:
            future.wait()
        world.barrier()
        expected = sum(0.1 * (step + rank) for step in range(SOME) for rank in range(world.size))
        np.testing.assert_allclose(domain.load(total).result(), expected, rtol=1e-12)


def check_what_domains_refuse():
    if world.size == 1:
        return
    message = raises(UsageError, gw.AtomicDomain, "i8" if world.rank else "u8", ["add"], world)
    assert "different atomic domains" in message
    message = raises(UsageError, gw.AtomicDomain, "i8" if world.rank else [], ["add"], world)
    assert "without fields" in message
    message = raises(UsageError, gw.AtomicDomain, "i8", ["add"] if world.rank else ["plus"], world)
    assert "plus" in message
    half = world.split(world.rank % 2)
    domain = gw.AtomicDomain("i8", ["load"], half)
    segment = gw.Segment(world, 8)
    assert "belongs to no rank" in raises(UsageError, domain.load, segment.pointer(1 - world.rank % 2, "i8"))
    if domain.path == "cpu":
        assert domain.load(segment.pointer(world.rank, "i8")).result() == 0
    world.barrier()


# -- locks ---------------------------------------------------------------------------------------------------------


def read(segment):
    """The plain integer at the start of the part of rank 0."""
    if 0 in segment.peers:
        return int(segment.view(0).view("i8")[0])
    value = np.zeros(1, "i8")
    segment.window.get(0, 0, value.view("u1")).wait()
    return int(value[0])


def check_lock_protects_a_counter():
    lock, segment = gw.Lock(world), gw.Segment(world, 8)
    steps = 200 if ONE_NODE else 15
    for step in range(steps):
        with lock:
            value = read(segment)
            if step % 10 == 0:
                gw.progress()
            write(segment, 0, 0, value + 1)
    world.barrier()
    assert read(segment) == steps * world.size


def check_lock_comes_in_the_order_of_asking():
    lock, order = gw.Lock(world), gw.Segment(world, 8 * (world.size + 1))
    turn = gw.Signal(world)
    if world.rank == 0:
        lock.acquire()
        for rank in range(1, world.size):
            turn.add(rank)
            while lock._load(lock._tail) != rank + 1:
                pass
        lock.release()
    else:
        turn.wait()
        with lock:
            place = read(order)
            write(order, 0, 0, place + 1)
            write(order, 0, 1 + place, world.rank)
    world.barrier()
    if world.rank == 0:
        assert order.view(0).view("i8").tolist() == [world.size - 1, *range(1, world.size), 0]


def check_who_gives_up_waiting_for_a_lock():
    lock, segment = gw.Lock(world), gw.Segment(world, 8)
    if world.rank == 0:
        lock.acquire()
    world.barrier()
    if world.rank:
        assert not lock.try_acquire()
        assert "Lock" in raises(TimeoutError, lock.acquire, timeout=0.01)
        assert not lock.try_acquire()
        assert "not hold" in raises(UsageError, lock.release)
        with progress.callback():
            assert "inside a callback" in raises(gw.ProgressError, lock.acquire)
    world.barrier()
    if world.rank == 0:
        lock.release()
    for _ in range(10):
        # some come back to the place that they gave up, some have been passed by meanwhile
        try:
            lock.acquire(timeout=1e-4 * (world.rank % 3))
        except TimeoutError:
            continue
        write(segment, 0, 0, read(segment) + 1)
        lock.release()
    with lock:
        write(segment, 0, 0, read(segment) + 1)
    world.barrier()
    assert world.size <= read(segment) <= 11 * world.size
    assert world.allreduce(int(lock.held), SUM) == 0
    with lock:
        pass
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
    # Puts that nobody waits for: they arrive before the ranks end.
    _last = gw.Segment(world, 8192), gw.Signal(world)
    for _ in range(40):
        gw.put(np.zeros(1024), _last[0].pointer(RIGHT, "f8"), notify=_last[1])
