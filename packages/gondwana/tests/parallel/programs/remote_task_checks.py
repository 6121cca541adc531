"""What functions that run in tasks of other ranks, shared arrays and divided loops must do, each check by all ranks."""

from __future__ import annotations

import asyncio
import itertools
import operator
import os

import numpy as np
from checks import raised, raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import world

RIGHT = (world.rank + 1) % world.size
CALLS = 10_000 if world.node.size == world.size else 500
"""Outstanding futures at the same time."""


def add(a, b=0):
    return a + b


def fail(text):
    raise LookupError(text)


def throw(error):
    raise error


def fib(n):
    """Nested spawns: each waits for the next in its own task."""
    return n if n < 2 else gw.spawn(fib, n - 1).result() + gw.spawn(fib, n - 2).result()


def check_results_and_errors_come_back():
    assert gw.spawn_at(RIGHT, add, 2, b=3).result(60) == 5
    assert gw.spawn_at(RIGHT, lambda: gw.world.rank).result(60) == RIGHT
    assert gw.spawn(os.getpid).result(60) in world.allgather(os.getpid())
    error = raised(LookupError, gw.spawn_at(RIGHT, fail, "nothing there").result, 60)
    assert "nothing there" in str(error)
    assert f"rank {RIGHT}" in "".join(error.__notes__)
    assert "in fail" in "".join(error.__notes__)
    for error in (asyncio.CancelledError("c"), GeneratorExit("g")):
        found = gw.spawn_at(RIGHT, throw, error).exception(60)
        assert type(found) is type(error)
        assert found.args == error.args
    assert "ranks of" in raises(UsageError, gw.spawn_at, world.size, add, 1)
    world.barrier()


def check_a_spawned_function_may_wait_and_spawn():
    assert fib(8 if world.rank == 0 else 2) == (21 if world.rank == 0 else 1)
    channel = gw.RemoteChannel(0)
    spawned = gw.spawn_at(RIGHT, lambda channel: [channel.take() for _ in range(5)], channel)
    for number in range(5):
        channel.put(number, timeout=60)
    assert spawned.result(60) == list(range(5))
    world.barrier()


def check_many_futures_at_the_same_time():
    if world.rank == 0:
        futures = [gw.spawn(add, number, 1) for number in range(CALLS)]
        assert [future.result(100) for future in futures] == list(range(1, CALLS + 1))
    world.barrier()


def check_work_goes_where_there_is_room():
    world.barrier()
    if world.rank == 0:
        gate = gw.RemoteChannel(100)
        waiting = [gw.spawn(lambda gate: (gw.world.rank, gate.take())[0], gate) for _ in range(2 * world.size)]
        loads = [sum(future.rank == rank for future in waiting) for rank in range(world.size)]
        others = loads[1:] or loads
        assert max(others) - min(others) <= 1, loads
        for number in range(len(waiting)):
            gate.put(number)
        assert [future.result(60) for future in waiting] == [future.rank for future in waiting]
        # One that is idle again is taken before those that have been idle for longer.
        first = gw.spawn(add, 1)
        first.wait(60)
        again = gw.spawn(add, 1)
        again.wait(60)
        assert again.rank == first.rank
    world.barrier()


def check_cancellation():
    gate = gw.RemoteChannel(0)
    spawned = gw.spawn_at(RIGHT, gate.take)
    assert spawned.cancel()
    raises(gw.TaskCancelled, spawned.result, 60)
    assert not spawned.cancel()
    world.barrier()


def check_everywhere_and_fetch():
    if world.rank == 0:
        assert gw.everywhere(lambda: gw.world.rank) == list(range(world.size))
        raises(LookupError, gw.everywhere, fail, "everywhere")
        channel = gw.RemoteChannel(1)
        channel.put("seen")
        assert gw.fetch((gw.spawn(add, 1, 2), channel, 7)) == [3, "seen", 7]
        assert channel.take() == "seen"
    world.barrier()


def check_a_shared_array_is_shared():
    array = gw.SharedArray((2 * world.size, 3), "i4")
    assert array.shape == (2 * world.size, 3)
    assert array.dtype == np.int32
    assert not array.numpy().any()
    array.team.barrier()
    for row in array.mine:
        array[row] = row + 1
    array.team.barrier()
    assert np.array_equal(np.asarray(array)[:, 0], np.arange(1, 2 * world.size + 1))
    assert sum(array.team.allgather(len(array.mine))) == len(array)
    kept = array.numpy()
    array.team.barrier()
    array.close()
    assert kept[0, 0] == 1
    assert gw.SharedArray(0).numpy().size == 0
    assert "0 or more" in raises(UsageError, gw.SharedArray, -1)
    assert "without objects" in raises(UsageError, gw.SharedArray, 1, object)
    world.barrier()


def check_the_memory_of_shared_arrays_is_freed():
    def shared_memory():
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss_Shmem"))

    before = shared_memory()
    for _ in range(20):
        array = gw.SharedArray(2**20, "u1")
        array[:] = 1
        array.team.barrier()
        array.close()
        del array
    world.barrier()
    assert shared_memory() - before < 8 * 2**10  # kB; 20 MB if they stayed
    world.barrier()


def check_conditions_wake_ranks():
    """A token goes round: each rank waits for its turn, which the one before it announces."""
    changed = world.bcast(gw.RemoteCondition() if world.rank == 0 else None)
    turn = gw.DistObject([0])
    world.barrier()

    def pass_on(turn, number):
        turn.value[0] = max(turn.value[0], number)  # the next one may be faster

    for number in range(world.rank + 1, 20 + 1, world.size):
        changed.wait_for(lambda number=number: turn.value[0] >= number - 1, 60)
        for rank in range(world.size):
            gw.rpc(rank, pass_on, turn, number).result()
        changed.notify_all()
    changed.wait_for(lambda: turn.value[0] == 20, 60)
    world.barrier()


def check_conditions_wake_those_who_have_waited_longest():
    changed, order = (
        world.bcast(gw.RemoteCondition() if world.rank == 0 else None),
        gw.RemoteChannel.of_team(world, 100),
    )
    world.barrier()
    if world.rank == world.size - 1:
        assert changed.notify_all().result(60) == 0

        def wait(number):
            changed.wait(60)
            order.put(number)

        waiting = [gw.Task(wait, number).schedule() for number in range(5)]
        while changed.notify(0).result(60) or not all(task._strand for task in waiting):
            gw.yield_task()
        waiting[1].cancel()
        waiting[1].wait()
        for count in (1, 2, 5):
            assert changed.notify(count).result(60) == min(count, {1: 4, 2: 3, 5: 1}[count])
        gw.fetch([task for number, task in enumerate(waiting) if number != 1])
        assert [order.take() for _ in range(4)] == [0, 2, 3, 4]
        assert "waited 0.01 s for <RemoteCondition" in raises(TimeoutError, changed.wait, 0.01)
        assert "waited 0.01 s for <RemoteCondition" in raises(TimeoutError, changed.wait_for, lambda: False, 0.01)
        assert changed.notify_all().result(60) == 0
        assert "callback" in str(raised(gw.ProgressError, gw.rpc(world.rank, changed.wait).result))
    world.barrier()


def check_a_notification_is_not_lost_with_the_task_that_has_it():
    changed = gw.RemoteCondition()
    first, second = (gw.Task(changed.wait, 60).schedule() for _ in range(2))
    gw.yield_task()
    woken = changed.notify()
    first.cancel()
    assert isinstance(first.exception(60), gw.TaskCancelled)
    assert woken.result(60) == 1
    assert second.result(60) is None
    world.barrier()


def check_loops():
    numbers = np.random.default_rng(1).random(1000)
    chunks = [numbers[start : start + 4] for start in range(0, 1000, 4)]
    expected = 0.0
    partial = []
    for chunk in chunks:
        total = chunk[0]
        for number in chunk[1:]:
            total = total + number
        partial.append(total)
    expected = partial[0]
    for total in partial[1:]:
        expected = expected + total
    for schedule in ("static", "dynamic"):
        assert gw.pfor(lambda x: x, numbers, reduce=operator.add, schedule=schedule) == expected
        words = gw.pfor(lambda i: [i], range(30), reduce=operator.add, schedule=schedule, chunk=4)
        assert words == list(range(30))
        done = []
        assert gw.pfor(done.append, range(101), schedule=schedule, chunk=7) is None
        assert sorted(itertools.chain(*world.allgather(done))) == list(range(101))
        assert gw.pfor(abs, (), reduce=operator.add, schedule=schedule) is None
    assert "dynamic" in raises(UsageError, gw.pfor, abs, [1], schedule="guided")
    assert "1 or more" in raises(UsageError, gw.pfor, abs, [1], chunk=0)
    world.barrier()


if __name__ == "__main__":
    run_checks(globals())
