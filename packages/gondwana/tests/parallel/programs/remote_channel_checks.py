"""What remote channels must do, each check by all ranks, on one node and between nodes."""

from __future__ import annotations

import itertools

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.teams import world

ONE_NODE = world.node.size == world.size
NEAR = world.node_of(0) == world.node_of(world.rank)
MANY = 1_000_000 if ONE_NODE else 400
"""Items in all through one channel, in compiled code where that is possible."""


@gw.jit
def produce(channel, first, count):
    for number in range(first, first + count):
        channel.put(number)


@gw.jit
def consume(channel, last, count):
    """Take numbers, the producers' in order each; return how many were lost, doubled or out of order."""
    wrong = 0
    for _ in range(count):
        number = channel.take()
        producer = number >> 32
        wrong += number & 0xFFFFFFFF != last[producer] + 1
        last[producer] = number & 0xFFFFFFFF
    return wrong


def check_many_items_of_all_ranks_arrive_once_and_in_the_order_of_each():
    channel = gw.RemoteChannel.of_team(world, 64, dtype="i8")
    each = MANY // world.size
    producers = [rank for rank in range(world.size) if rank or world.size == 1]
    if world.rank in producers:
        first = world.rank << 32
        if world.size == 1:
            each = 64
        if NEAR and ONE_NODE:
            produce(channel, first + 1, each)
        else:
            for number in range(first + 1, first + 1 + each):
                channel.put(number)
    if world.rank == 0:
        last = np.zeros(world.size, np.int64)
        count = len(producers) * each
        if ONE_NODE:
            assert consume(channel, last, count) == 0
        else:  # compiled code would not serve the ranks of other nodes
            for number in itertools.islice(channel, count):
                assert number & 0xFFFFFFFF == last[number >> 32] + 1
                last[number >> 32] = number & 0xFFFFFFFF
        assert last.tolist() == [each * (rank in producers) for rank in range(world.size)]
        assert len(channel) == 0
    world.barrier()


def check_many_take_what_many_put():
    channel, taken = gw.RemoteChannel.of_team(world, 3), gw.RemoteChannel.of_team(world, 1000)
    putters = [rank for rank in range(world.size) if rank % 2 == 0]

    def put_all():
        for number in range(50):
            channel.put((world.rank, number))

    def take_all():
        for item in channel:
            taken.put((world.rank, item))

    takes = gw.Task(take_all).schedule() if world.rank % 2 or world.size == 1 else None
    puts = gw.Task(put_all).schedule() if world.rank in putters else None
    if puts is not None:
        puts.result(60)
    world.barrier()
    if world.rank == 0:
        channel.close()
    if takes is not None:
        takes.result(60)
    world.barrier()
    if world.rank == 0:
        taken.close()
        found = list(taken)
        assert sorted(item for _, item in found) == [(rank, number) for rank in putters for number in range(50)]
        for taker, putter in itertools.product(range(world.size), putters):
            numbers = [item[1] for by, item in found if by == taker and item[0] == putter]
            assert numbers == sorted(numbers)
    world.barrier()


def check_a_put_beyond_the_capacity_waits():
    channel = gw.RemoteChannel.of_team(world, 2)
    if world.rank == world.size - 1:
        assert channel.put_nowait("a")
        channel.put("b", timeout=60)
        assert len(channel) == 2
        assert not channel.put_nowait("c")
        assert "room in" in raises(TimeoutError, channel.put, "c", 0.01)
        assert channel.peek() == "a"
        assert [channel.take(), channel.take_nowait()] == ["a", "b"]
        assert channel.take_nowait("none") == "none"
        assert "an item of" in raises(TimeoutError, channel.take, 0.01)
        assert "an item of" in raises(TimeoutError, channel.peek, 0.01)
        for number in range(100):
            channel.put(number)
            assert channel.take(60) == number
    world.barrier()


def check_a_put_without_capacity_waits_for_its_taker():
    channel, order = gw.RemoteChannel.of_team(world, 0), gw.RemoteChannel.of_team(world, 100)
    last = world.size - 1

    def give():
        assert "taker" in raises(TimeoutError, channel.put, "withdrawn", 0.01)
        assert not channel.put_nowait("refused")
        order.put("ready")
        for number in range(20):
            channel.put(number, timeout=60)
            order.put(("put", number))

    def receive():
        assert order.take(60) == "ready"
        for number in range(20):
            assert len(channel) == 0
            assert channel.take(60) == number

    tasks = [gw.Task(give).schedule()] if world.rank == last else []
    tasks += [gw.Task(receive).schedule()] if world.rank == 0 else []
    for task in tasks:
        task.result(60)
    world.barrier()
    if world.rank == 0:
        assert [order.take() for _ in range(20)] == [("put", number) for number in range(20)]
    world.barrier()


def check_everybody_sees_the_end():
    channel = gw.RemoteChannel.of_team(world, 4)
    blocked = gw.Task(list, channel).schedule()  # takes until the end
    gw.yield_task()
    if world.rank == world.size - 1:
        for number in range(10):
            channel.put(number)
        channel.close()
        channel.close()
        assert channel.closed
        assert "closed" in raises(gw.ChannelClosed, channel.put, 1)
    everything = world.allgather(blocked.result(60))
    assert sorted(itertools.chain(*everything)) == list(range(10))
    assert "all items have been taken" in raises(gw.ChannelClosed, channel.take)
    assert "all items have been taken" in raises(gw.ChannelClosed, channel.take_nowait)
    raises(gw.ChannelClosed, channel.peek)
    raises(gw.ChannelClosed, channel.put_nowait, 1)
    world.barrier()


def check_items_of_any_size_and_type():
    channel = gw.RemoteChannel.of_team(world, 8)
    items = [None, 3, "word", b"x" * 10_000, [1, {"a": (2, 3)}], np.arange(100_000.0), lambda x: x + world.size]
    if world.rank == world.size - 1:
        for item in items:
            channel.put(item, timeout=60)
    world.barrier()
    if world.rank == 0:
        assert np.array_equal(items[5], [channel.take(60) for _ in range(5)] and channel.peek(60))
        array, function = channel.take(60), channel.take(60)
        assert array.flags.writeable
        assert np.array_equal(array, items[5])
        assert function(1) == 1 + world.size
    world.barrier()


def check_references_travel_in_calls_and_through_channels():
    mine = gw.RemoteChannel(1)
    right = (world.rank + 1) % world.size
    if world.node_of(right) == world.node_of(
        world.rank
    ):  # between nodes a put would have to wait, which a callback cannot
        gw.rpc(right, lambda channel: channel.put_nowait("here"), mine).result()
        assert mine.take(60) == "here"
    mail = gw.RemoteChannel.of_team(world, world.size)
    mail.put(mine)
    world.barrier()
    theirs = mail.take(60)
    theirs.put(world.rank, timeout=60)
    assert mine.take(60) in range(world.size)
    copies = world.allgather(mine)
    assert copies[world.rank] is mine
    assert {copy.home for copy in copies} == set(range(world.size))
    world.barrier()


def check_a_reference_to_a_channel_that_is_gone():
    channel = gw.RemoteChannel(1)
    late = world.allgather(gw.RemoteChannel(1))
    channel.put(1)
    for other in late:
        if other.home == world.rank:
            other.close()
    del other
    world.barrier()
    assert all(other.closed for other in late)
    world.barrier()


def check_values_of_a_dtype():
    pairs = np.dtype([("key", "i4"), ("value", "f8", 2)])
    for dtype, item in (("f4", 1.5), ("u1", 255), ("?", True), ("c16", 1 - 2j), (pairs, (3, (1.0, 2.0)))):
        channel = gw.RemoteChannel.of_team(world, 2, dtype)
        if world.rank == world.size - 1:
            channel.put(item, timeout=60)
            assert channel.dtype == np.dtype(dtype)
        world.barrier()
        if world.rank == 0:
            found = channel.take(60)
            assert np.array_equal(np.array(found, dtype), np.array(item, dtype))
        world.barrier()
    assert "dtype uint8" in raises(TypeError, gw.RemoteChannel(1, "u1").put, 256)
    assert "dtype int64" in raises(TypeError, gw.RemoteChannel(1, int).put, "word")
    assert "without objects" in raises(UsageError, gw.RemoteChannel, 1, object)
    assert "0 or more" in raises(UsageError, gw.RemoteChannel, -1)
    if world.size > 1:
        assert "different channels" in raises(UsageError, gw.RemoteChannel.of_team, world, world.rank)


def check_compiled_code_says_what_it_cannot():
    @gw.jit
    def put_one(channel):
        channel.put(1)

    @gw.jit
    def take_one(channel):
        return channel.take()

    assert "dtype" in raises(KernelError, put_one, gw.RemoteChannel(1))
    channel = gw.RemoteChannel(1, "i4")
    put_one(channel)
    channel.close()
    assert take_one(channel) == 1
    assert "closed" in raises(RuntimeError, put_one, channel)
    assert "closed" in raises(RuntimeError, take_one, channel)


if __name__ == "__main__":
    run_checks(globals())
