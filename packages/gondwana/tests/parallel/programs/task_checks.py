"""Tasks on several ranks: whatever waits suspends the task, and the rank serves remote calls meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError

RANK, SIZE = gw.world.rank, gw.world.size
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE
signal = gw.Signal(gw.world, channels=2)
lock = gw.Lock(gw.world)


def work_meanwhile(wait: gw.Task[Any]) -> int:
    """Count the turns of a task while another one waits."""
    turns = 0
    while not wait.done():
        gw.yield_task()
        turns += 1
    return turns


def suspended(wait: Any, release: Any) -> Any:
    """Have a task wait and release it from another one, which therefore runs meanwhile."""
    waiting = gw.Task(wait).schedule()
    gw.yield_task()
    assert not waiting.done()
    gw.world.barrier()  # nobody is released before all have looked
    gw.Task(release).schedule().wait()
    other = gw.Task(work_meanwhile, waiting).schedule()
    result = waiting.result(60)
    other.wait()
    return result


def check_signals_suspend_the_task() -> None:
    waiting = gw.Task(signal.wait, 2).schedule()
    gw.yield_task()
    assert not waiting.done()
    gw.world.barrier()
    gw.Task(signal.add, RIGHT, 2).schedule().wait()
    waiting.result(60)


def check_messages_suspend_the_task() -> None:
    if SIZE == 1:
        return
    assert suspended(lambda: gw.world.recv(LEFT, 5), lambda: gw.world.send(RANK, RIGHT, 5)) == LEFT
    here = np.empty(3)
    suspended(lambda: gw.world.Recv(here, LEFT, 6), lambda: gw.world.Send(np.full(3, float(RANK)), RIGHT, 6))
    assert here.tolist() == [LEFT] * 3


def _on_task(rank: int) -> gw.Future[int]:
    def answer() -> int:
        other: int = gw.rpc(rank, max, rank, -1).result()  # waits, which a call must not
        gw.sleep(0.001)
        return other + 100

    return gw.Task(answer).schedule()


def check_calls_start_tasks_that_wait() -> None:
    tasks = [gw.Task(lambda to=to: gw.rpc(to, _on_task, RANK).result(60)).schedule() for to in range(SIZE)]
    assert [task.result(60) for task in tasks] == [RANK + 100] * SIZE
    gw.world.barrier()


def check_a_barrier_and_a_reduction_run_beside_other_tasks() -> None:
    sums = gw.Task(lambda: gw.world.allreduce(RANK)).schedule()
    turns = gw.Task(work_meanwhile, sums).schedule()
    assert sums.result(60) == SIZE * (SIZE - 1) // 2
    turns.wait()
    halves = [gw.world.split(0), gw.world.split(0)]
    barriers = [gw.Task(half.barrier).schedule() for half in (halves if RANK % 2 else reversed(halves))]
    for task in barriers:
        task.result(60)


def check_an_exchange_suspends_the_task() -> None:
    box = gw.RectDomain((0,), (4 * SIZE,))
    cells = gw.zeros(box, ghost=1, periodic=True)
    cells.fill(float(RANK))

    def exchange() -> None:
        cells.exchange().wait()

    gw.Task(exchange).schedule().result(60)
    low, high = cells.local.domain.lo[0], cells.local.domain.hi[0]
    assert (cells.local[low], cells.local[high - 1]) == (LEFT, RIGHT)


def check_one_task_of_all_ranks_holds_a_lock() -> None:
    inside: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with lock:
                inside.append(number)
                assert len(inside) == 1
                gw.yield_task()
                inside.remove(number)

    def give_up() -> None:
        try:
            lock.acquire(1e-6)
        except TimeoutError:
            return
        lock.release()

    tasks = [gw.Task(work, number).schedule() for number in range(3)] + [gw.Task(give_up).schedule()]
    for task in tasks:
        task.result(60)
    assert not lock.held
    gw.world.barrier()
    with lock:
        with pytest.raises(UsageError, match="already"):
            lock.acquire()
        assert not gw.Task(lock.try_acquire).schedule().result()
    gw.world.barrier()


def check_collectives_take_turns() -> None:
    totals = []

    def add(number: int) -> None:
        total = np.zeros(1)
        gw.world.Allreduce(np.array([float(number)]), total)
        totals.append(total[0])

    for task in [gw.Task(add, 3).schedule() for _ in range(5)]:
        task.wait()
    assert totals == [3.0 * SIZE] * 5
