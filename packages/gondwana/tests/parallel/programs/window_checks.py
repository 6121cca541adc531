"""What windows, payloads and rank translation must do, by all ranks, each a node of its own."""

from __future__ import annotations

import gc
import sys
import time

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.calls.payloads import MOST_BYTES, MOST_PAYLOADS, Payloads
from gondwana.errors import UsageError
from gondwana.runtime import progress
from gondwana.sync.rings import CALL, CALL_REPLY
from gondwana.teams import BOR, MAX, MIN, SUM, windows, world
from gondwana.teams.windows import Window

SIZE = 4096
PAYLOADS = Payloads(world)


def zeros(size=SIZE):
    return np.zeros(size, np.uint8)


def words(memory):
    return memory.view(np.int64)


def check_every_rank_is_a_node():
    assert world.node.size == 1
    assert world.node_count == world.size


def check_random_puts_and_gets_against_a_model():
    """Every rank owns a stripe of everybody's memory, which only it writes: what it reads there is what it wrote."""
    memory = zeros()
    window = Window(world, memory)
    stripe = SIZE // world.size
    first = world.rank * stripe
    random = np.random.default_rng(world.rank)
    model = np.zeros((world.size, stripe), np.uint8)
    for step in range(300):
        rank, start = int(random.integers(world.size)), int(random.integers(stripe))
        count = int(random.integers(stripe - start + 1))
        if step % 3 < 2:
            data = random.integers(0, 256, count, np.uint8)
            model[rank, start : start + count] = data
            epoch = window.put(rank, first + start, data)
            epoch.wait()
            assert epoch.done
            continue
        into = np.full(count, 99, np.uint8)
        get = window.get(rank, first + start, into)
        get.wait()
        assert get.done
        assert (into == model[rank, start : start + count]).all()
    models = world.allgather(model.tolist())
    world.barrier()
    for owner in range(world.size):
        assert memory[owner * stripe : (owner + 1) * stripe].tolist() == models[owner][world.rank]
    world.barrier()


def check_epochs():
    """An epoch is done when, and only when, its rank was flushed after its operations had started."""
    window = Window(world, zeros())
    right = (world.rank + 1) % world.size
    assert window.epoch(right) is None
    one, two = np.full(8, 1, np.uint8), np.full(8, 2, np.uint8)
    first = window.put(right, 0, one)
    assert window.put(right, 8, one) is first is window.epoch(right)
    assert (first.operations, first.nbytes, first.rank, first.done) == (2, 16, right, False)
    assert window.busy == (right,)
    window.flush_local(right)
    assert not first.done
    window.flush(right)
    assert first.done
    assert window.busy == ()
    second = window.put(right, 0, two)
    assert second is not first
    assert not second.done
    into = zeros(16)
    get = window.get(right, 8, into[8:])
    while not get.done:
        pass
    assert (into[8:] == 1).all()
    window.flush_all()
    assert second.done
    left_over = window.get(right, 0, into[:8])  # completed by its epoch, not by itself
    window.flush(right)
    assert left_over.done
    assert (into[:8] == 2).all()
    world.barrier()


def check_sources_live_until_the_flush():
    memory = zeros(200 * 64)
    window = Window(world, memory)
    right = (world.rank + 1) % world.size
    for i in range(200):
        window.put(right, 64 * i, np.full(64, i % 251, np.uint8))
        np.full(64, 255, np.uint8)  # would take the place of a source that was freed
    window.flush(right)
    world.barrier()
    assert (memory.reshape(200, 64) == (np.arange(200) % 251)[:, None]).all()
    world.barrier()


def check_the_backlog_is_bounded():
    memory = zeros(8 * 3000)
    window = Window(world, memory)
    right = (world.rank + 1) % world.size
    epochs = [window.put(right, 8 * i, np.full(8, i % 256, np.uint8)) for i in range(3000)]
    assert epochs[0].done
    assert window.epoch(right).operations < windows.MOST_OPERATIONS
    window.flush(right)
    assert all(epoch.done for epoch in epochs)
    world.barrier()
    assert (memory.reshape(3000, 8) == (np.arange(3000) % 256)[:, None]).all()
    big = Window(world, zeros(40 * 2**20))
    for _ in range(4):
        big.put(right, 0, zeros(40 * 2**20))
    assert big.epoch(right) is None
    world.barrier()


def check_large_transfers_go_in_pieces():
    whole = windows.PIECE
    windows.PIECE = 1000
    try:
        memory = zeros(5008)
        window = Window(world, memory)
        right = (world.rank + 1) % world.size
        data = np.random.default_rng(world.rank).integers(0, 256, 5000, np.uint8)
        window.put(right, 8, data).wait()
        into = zeros(5000)
        window.get(right, 8, into).wait()
        assert (into == data).all()
        world.barrier()
        window.put(right, 0, zeros(5008)).wait()
        world.barrier()
        window.accumulate(right, 8, np.ones(625, np.int64), SUM).wait()
        world.barrier()
        assert words(memory).tolist() == [0] + 625 * [1]
        world.barrier()
    finally:
        windows.PIECE = whole


def check_empty_memories_and_transfers():
    mine = zeros(0 if world.rank % 2 else 64)
    window = Window(world, mine)
    assert window.sizes == tuple(0 if rank % 2 else 64 for rank in range(world.size))
    for rank in range(world.size):
        window.put(rank, window.sizes[rank], zeros(0)).wait()
        window.get(rank, 0, zeros(0)).wait()
        if window.sizes[rank]:
            window.put(rank, world.rank, np.full(1, 7, np.uint8)).wait()
    world.barrier()
    assert mine.size == 0 or mine.tolist() == world.size * [7] + (64 - world.size) * [0]
    nobody = Window(world, zeros(0))
    assert nobody.sizes == (0,) * world.size
    assert "0 bytes" in raises(UsageError, nobody.put, 0, 0, zeros(1))
    world.barrier()


def check_refusals():
    window = Window(world, zeros(64))
    assert "64 bytes" in raises(UsageError, window.put, 0, 60, zeros(8))
    assert "offset -1" in raises(UsageError, window.get, 0, -1, zeros(8))
    assert "ranks of" in raises(UsageError, window.put, world.size, 0, zeros(1))
    assert "rank -1" in raises(UsageError, window.put, -1, 0, zeros(1))
    assert "contiguous" in raises(UsageError, Window, world, zeros(64)[::2])
    assert "float64" in raises(UsageError, Window, world, np.zeros(8))
    assert window.handle != 0
    world.barrier()


def check_fetch_and_add_gives_a_permutation():
    counter = zeros(8)
    window = Window(world, counter)
    one, old = np.ones(1, np.int64), np.zeros(1, np.int64)
    mine = []
    for _ in range(500):
        window.fetch_and_op(0, 0, one, old, SUM).wait()
        mine.append(int(old[0]))
    assert mine == sorted(mine)
    everything = sorted(number for numbers in world.allgather(mine) for number in numbers)
    assert everything == list(range(500 * world.size))
    window.fetch_and_op(0, 0, one, old, "NO_OP").wait()
    assert old[0] == 500 * world.size
    world.barrier()


def check_accumulates():
    memory = zeros(64)
    window = Window(world, memory)
    for rank in range(world.size):
        mine = np.full(1, world.rank + 1, np.int64)
        window.accumulate(rank, 0, mine, SUM)
        window.accumulate(rank, 8, mine, MAX)
        window.accumulate(rank, 16, -mine, MIN)
        window.accumulate(rank, 24, np.full(1, 1 << world.rank, np.int64), BOR)
        window.accumulate(rank, 32, np.full(2, 0.5), SUM)
    window.flush_all()
    world.barrier()
    n = world.size
    assert words(memory)[:4].tolist() == [n * (n + 1) // 2, n, -n, (1 << n) - 1]
    assert memory[32:48].view(np.float64).tolist() == [n / 2, n / 2]
    world.barrier()


def check_different_operations_on_one_word_exclude_each_other():
    memory = zeros(8)
    window = Window(world, memory)
    one, old, new = np.ones(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    expected = np.zeros(1, np.int64)
    for step in range(150):
        if step % 3 == 0:
            window.fetch_and_op(0, 0, one, old, SUM).wait()
        elif step % 3 == 1:
            window.accumulate(0, 0, one, SUM).wait()
        else:
            while True:
                new[0] = expected[0] + 1
                window.compare_and_swap(0, 0, new, expected, old).wait()
                if old[0] == expected[0]:
                    break
                expected[0] = old[0]
    world.barrier()
    window.fetch_and_op(0, 0, one, old, "NO_OP").wait()
    assert old[0] == 150 * world.size
    world.barrier()


def check_compare_and_swap_is_a_lock():
    """A counter that is read and written by plain operations under a lock loses no step."""
    window = Window(world, zeros(16))
    free, taken, old = np.zeros(1, np.int64), np.full(1, world.rank + 1, np.int64), np.zeros(1, np.int64)
    count = np.zeros(1, np.int64)
    for _ in range(20):
        while True:
            window.compare_and_swap(0, 0, taken, free, old).wait()
            if old[0] == 0:
                break
        window.get(0, 8, count.view(np.uint8)).wait()
        count += 1
        window.put(0, 8, count.view(np.uint8)).wait()
        window.fetch_and_op(0, 0, free, old, "REPLACE").wait()
        assert old[0] == world.rank + 1
    world.barrier()
    window.get(0, 8, count.view(np.uint8)).wait()
    assert count[0] == 20 * world.size
    world.barrier()


def check_windows_come_and_go():
    gc.collect()
    before = len(windows._unfreed)
    for step in range(200):
        memory = zeros(256)
        window = Window(world, memory)
        right = (world.rank + 1) % world.size
        window.put(right, 0, np.full(4, step % 256, np.uint8))
        if step % 2:
            window.release()
            window.release()
        del window, memory
    assert len(windows._unfreed) <= before + 2, "windows that all ranks have released are freed"


def check_a_window_released_by_one_rank_serves_the_others():
    memory = zeros(64)
    window = Window(world, memory)
    if world.rank == 0:
        window.release()
        del window, memory
        gc.collect()
    Window(world, zeros(0))
    if world.rank > 0:
        window.put(0, 0, np.full(64, 5, np.uint8)).wait()
        into = zeros(64)
        window.get(0, 0, into).wait()
        assert (into == 5).all()
    world.barrier()


def check_windows_over_other_teams():
    half = world.split(world.rank % 2)
    window = Window(half, zeros(8))
    for rank in range(half.size):
        window.put(rank, half.rank, np.full(1, 1 + world.rank, np.uint8))
    window.flush_all()
    half.barrier()
    assert window._exposure.memory[: half.size].tolist() == [1 + rank for rank in half.world_ranks]
    half.barrier()
    half.free()


def check_a_sleeping_target_delays_but_corrupts_nothing():
    memory = zeros(2**20 + 64)
    window = Window(world, memory)
    if world.size > 1:
        world.barrier()
        last = world.size - 1
        if world.rank == last:
            time.sleep(2)
        elif world.rank == 0:
            old = np.zeros(1, np.int64)
            window.put(last, 64, np.full(2**20, 3, np.uint8))
            window.put(last, 0, np.full(8, 4, np.uint8))
            window.flush(last)
            window.fetch_and_op(last, 8, np.full(1, 6, np.int64), old, SUM)
            window.flush(last)
        world.barrier()
        if world.rank == last:
            assert (memory[64:] == 3).all()
            assert (memory[:8] == 4).all()
            assert words(memory)[1] == 6
    world.barrier()


def check_progress_at_the_target_is_enough():
    """A target that only calls progress, and not MPI, serves puts, gets and atomic operations.

    So it does while a message of the program lies there unread, which a probe for any message would find each time.
    """
    if world.size > 1:
        memory = zeros(2**20)
        window = Window(world, memory)
        last = world.size - 1
        unread = world.Isend(np.arange(3.0), last, tag=8) if world.rank == 0 else None
        world.barrier()
        if world.rank == last:
            give_up = time.monotonic() + 20
            while memory[-1] != 1 and time.monotonic() < give_up:
                progress.progress()
            assert memory[-1] == 1, "the put never came through"
            assert words(memory)[0] == 6
        elif world.rank == 0:
            old, into = np.ones(1, np.int64), zeros(2**20 - 8)
            window.fetch_and_op(last, 0, np.full(1, 6, np.int64), old, SUM).wait()
            assert old[0] == 0
            window.get(last, 8, into).wait()
            assert not into.any()
            window.put(last, 2**20 - 1, np.ones(1, np.uint8)).wait()
        if world.rank == last:
            world.Recv(np.zeros(3), 0, tag=8)
        if unread is not None:
            unread.wait()
        world.barrier()


# -- payloads --------------------------------------------------------------------------------------------------------


def send(rank, queue, data):
    """Send a payload if there is room; return whether there was."""
    if not PAYLOADS.has_room(rank, queue, len(data)):
        return False
    PAYLOADS.send(rank, queue, np.frombuffer(data, np.uint8))
    return True


def poll_until(ready):
    """Receive until ``ready(received)``; return what came, by queue."""
    received = []
    while not ready(received):
        for queue in (CALL_REPLY, CALL):
            if (found := PAYLOADS.arrived(queue)) is not None:
                received.append((queue, *found[:3], bytes(found[3])))
    return received


def settle():
    world.barrier()
    assert PAYLOADS.coming == 0
    assert PAYLOADS.arrived(CALL) is None
    assert PAYLOADS.arrived(CALL_REPLY) is None
    world.barrier()


def check_payloads_of_any_size_arrive_once():
    sizes = (1, 8, 4095, 4096, 65_537, 3_000_000)
    sent = {(rank, size): bytes([(rank + size) % 251]) * size for rank in range(world.size) for size in sizes}
    received = []
    for rank in range(world.size):
        for number, size in enumerate(sizes):
            PAYLOADS.expect(CALL, rank, 7, number, size)
    for rank in range(world.size):
        for size in sizes:
            while not send(rank, CALL, sent[world.rank, size]):
                if (found := PAYLOADS.arrived(CALL)) is not None:
                    received.append((CALL, *found[:3], bytes(found[3])))
    received += poll_until(lambda new: len(new) + len(received) == len(sent))
    expected = [(CALL, rank, 7, sizes.index(size), data) for (rank, size), data in sent.items()]
    assert sorted(received) == sorted(expected)
    settle()


def check_a_send_copies_what_may_change():
    right = (world.rank + 1) % world.size
    for nbytes in (6, 20_000, 3_000_000):
        data, array = bytearray(b"x" * nbytes), np.arange(nbytes, dtype=np.uint8)
        futures = [gw.rpc(right, bytes, data), gw.rpc(right, bytes, array)]
        data[:] = b"y" * nbytes
        array[:] = 7
        assert futures[0].result() == b"x" * nbytes
        assert futures[1].result() == np.arange(nbytes, dtype=np.uint8).tobytes()
    world.barrier()


def check_the_budget_towards_a_rank():
    left, right = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    accepted = 0
    while send(right, CALL, b"x"):
        accepted += 1
    assert accepted == MOST_PAYLOADS
    # The other queue has a budget of its own, and more than that passes when it is empty.
    assert send(right, CALL_REPLY, bytes(2 * MOST_BYTES))
    assert not send(right, CALL_REPLY, b"x")
    world.barrier()
    # What lies unread in one queue does not hold up the other.
    PAYLOADS.expect(CALL_REPLY, left, 0, 0, 2 * MOST_BYTES)
    while PAYLOADS.arrived(CALL_REPLY) is None:
        pass
    for number in range(MOST_PAYLOADS):
        PAYLOADS.expect(CALL, left, 0, number, 1)
    received = poll_until(lambda received: len(received) == MOST_PAYLOADS)
    assert {queue for queue, *_ in received} == {CALL}
    settle()
    assert send(right, CALL, b"again")
    PAYLOADS.expect(CALL, left, 0, 0, 5)
    poll_until(lambda received: len(received) == 1)
    settle()


def check_payloads_do_not_meet_other_messages():
    left, right = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    request = world.Isend(np.arange(4.0), right, tag=CALL)
    PAYLOADS.expect(CALL, left, 0, 0, 7)
    assert send(right, CALL, b"payload")
    assert [data for *_, data in poll_until(lambda received: len(received) == 1)] == [b"payload"]
    into = np.zeros(4)
    world.Recv(into, tag=CALL)
    request.wait()
    assert into.tolist() == [0, 1, 2, 3]
    settle()


# -- ranks -----------------------------------------------------------------------------------------------------------


def check_world_ranks():
    assert world.world_ranks == tuple(range(world.size))
    assert world.rank_of_world(world.size) is None
    reverse = world.split("all", key=-world.rank)
    assert reverse.world_ranks == tuple(range(world.size))[::-1]
    assert [reverse.rank_of_world(rank) for rank in range(world.size)] == list(range(world.size))[::-1]
    odd = world.split(world.rank % 2)
    assert odd.world_ranks == tuple(range(world.rank % 2, world.size, 2))
    assert odd.rank_of_world(1 - world.rank % 2) is None
    assert odd.rank_of_world(world.rank) == odd.rank
    nested = odd.split(odd.rank % 2)
    assert nested.world_ranks[nested.rank] == world.rank


if __name__ == "__main__":
    if "--live" in sys.argv:
        # Windows that live at exit, with operations under way, are no problem.
        alive = Window(world, zeros())
        alive.put((world.rank + 1) % world.size, 0, zeros())
    run_checks(globals())
