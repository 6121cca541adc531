"""Channels, selections, conditions and semaphores of the tasks of a rank; channels also against a model."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import gondwana as gw
from gondwana.errors import UsageError
from support import jobs

OPERATIONS = st.lists(
    st.sampled_from(["put", "take", "peek", "put_nowait", "take_nowait", "cancel", "close"]), max_size=40
)


class Model:
    """A channel by its definition: every operation is a request, served as soon as the ones before it allow."""

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.items: deque[int] = deque()
        self.putters: deque[tuple[int, int]] = deque()
        self.takers: deque[tuple[int, str]] = deque()
        self.closed = False
        self.results: dict[int, Any] = {}

    def put(self, request: int, item: int) -> None:
        if self.closed:
            self.results[request] = "closed"
            return
        self.putters.append((request, item))
        self._serve()

    def take(self, request: int, kind: str) -> None:
        self.takers.append((request, kind))
        self._serve()

    def close(self) -> None:
        self.closed = True
        for request, _ in self.putters:
            self.results[request] = "closed"
        self.putters.clear()
        self._serve()

    def cancel(self, request: int) -> None:
        if request not in self.results:
            self.putters = deque(pair for pair in self.putters if pair[0] != request)
            self.takers = deque(pair for pair in self.takers if pair[0] != request)
            self.results[request] = "cancelled"

    def _room(self) -> bool:
        return self.capacity is None or len(self.items) < self.capacity

    def _serve(self) -> None:
        progress = True
        while progress:
            progress = False
            while self.putters and self._room():
                request, item = self.putters.popleft()
                self.items.append(item)
                self.results[request] = None
            first = self.items[0] if self.items else self.putters[0][1] if self.putters else None
            if first is not None:
                for request, kind in [pair for pair in self.takers if pair[1] == "peek"]:
                    self.takers.remove((request, kind))
                    self.results[request] = first
                if self.takers:
                    request, _ = self.takers.popleft()
                    self.results[request] = first
                    if self.items:
                        self.items.popleft()
                    else:
                        self.results[self.putters.popleft()[0]] = None
                    progress = True
            elif self.closed:
                for request, _ in self.takers:
                    self.results[request] = "closed"
                self.takers.clear()


def outcome(task: gw.Task[Any]) -> Any:
    try:
        return task.result()
    except gw.ChannelClosed:
        return "closed"
    except gw.TaskCancelled:
        return "cancelled"


@settings(deadline=None, max_examples=200)
@given(st.sampled_from([0, 1, 2, None]), OPERATIONS, st.data())
def test_a_channel_does_what_its_definition_says(capacity: int | None, operations: list[str], data: Any) -> None:
    channel: gw.Channel[int] = gw.Channel(capacity)
    model = Model(capacity)
    tasks: list[gw.Task[Any]] = []
    for number, operation in enumerate(operations, 1):
        request = len(tasks)
        if operation == "cancel":
            if tasks:
                one = data.draw(st.integers(0, len(tasks) - 1))
                tasks[one].cancel()
                model.cancel(one)
        elif operation == "close":
            channel.close()
            model.close()
        elif operation == "put_nowait":
            possible = not model.closed and (model._room() or any(kind == "take" for _, kind in model.takers))
            try:
                assert channel.put_nowait(number) == possible
            except gw.ChannelClosed:
                assert model.closed
            if possible:
                model.put(-number, number)
        elif operation == "take_nowait":
            possible = bool(model.items or model.putters)
            try:
                assert (channel.take_nowait() is not None) == possible
            except gw.ChannelClosed:
                assert model.closed
                assert not possible
            if possible:
                model.take(-number, "take")
        else:
            call = getattr(channel, operation)
            tasks.append(gw.Task(call, number) if operation == "put" else gw.Task(call))
            tasks[-1].schedule()
            if operation == "put":
                model.put(request, number)
            else:
                model.take(request, operation)
        for _ in range(3):
            gw.yield_task()
        assert len(channel) == len(model.items)
        assert {n for n, task in enumerate(tasks) if task.done()} == {n for n in model.results if n >= 0}
    assert {n: outcome(task) for n, task in enumerate(tasks) if task.done()} == {
        n: result for n, result in model.results.items() if n >= 0
    }
    for task in tasks:
        task.cancel()
        outcome(task)


@pytest.mark.parametrize("capacity", [0, 1, 7, None])
def test_nothing_is_lost_or_reordered_between_many_producers_and_consumers(capacity: int | None) -> None:
    channel: gw.Channel[tuple[int, int]] = gw.Channel(capacity)

    def produce(who: int) -> None:
        for number in range(200):
            channel.put((who, number))
            assert capacity is None or len(channel) <= capacity

    consumers = [gw.Task(list, channel).schedule() for _ in range(3)]
    for task in [gw.Task(produce, who).schedule() for who in range(4)]:
        task.wait()
    channel.close()
    taken = [task.result() for task in consumers]
    assert sorted(item for of_one in taken for item in of_one) == [
        (who, number) for who in range(4) for number in range(200)
    ]
    for of_one in taken:
        for who in range(4):
            numbers = [number for by, number in of_one if by == who]
            assert numbers == sorted(numbers)


def test_time_limits_and_callbacks() -> None:
    channel: gw.Channel[int] = gw.Channel(1)
    with pytest.raises(TimeoutError, match="an item of <Channel of capacity 1, 0 in it>"):
        channel.take(0.01)
    with pytest.raises(TimeoutError, match="an item of"):
        channel.peek(0.01)
    channel.put(1)
    with pytest.raises(TimeoutError, match="room in"):
        channel.put(2, timeout=0.01)
    assert channel.peek() == channel.take(1.0) == 1
    refused: list[str] = []

    def in_callback(_: object) -> None:
        channel.put(3)  # there is room
        with pytest.raises(gw.ProgressError):
            channel.put(4)
        refused.append("put")

    promise: gw.Promise[None] = gw.Promise()
    promise.future.add_done_callback(in_callback)
    promise.set_result(None)
    gw.progress()
    assert refused == ["put"]
    assert list(channel._putters) == []
    assert channel.take() == 3
    assert channel
    for wrong in (-1, 1.5, "2"):
        with pytest.raises(UsageError, match="capacity"):
            gw.Channel(wrong)  # type: ignore[arg-type]


def test_a_closed_channel_ends_iteration_and_waits() -> None:
    channel: gw.Channel[int] = gw.Channel(4)
    waiting = [gw.Task(channel.take).schedule(), gw.Task(channel.peek).schedule()]
    gw.yield_task()
    with channel:
        channel.put_nowait(5)
    assert waiting[1].result() == waiting[0].result() == 5
    assert channel.closed
    for call in (
        channel.take,
        channel.peek,
        channel.take_nowait,
        lambda: channel.put(1),
        lambda: channel.put_nowait(1),
    ):
        with pytest.raises(gw.ChannelClosed, match="nothing can be put"):
            call()
    assert list(channel) == []


def test_select_does_the_first_that_is_possible() -> None:
    a: gw.Channel[int] = gw.Channel()
    b: gw.Channel[int] = gw.Channel(1)
    b.put(1)
    assert gw.select(a, b) == (1, 1)
    assert gw.select(a, (b, 2)) == (1, None)
    assert gw.select(a, (b, 3), default="none") == (None, "none")
    with pytest.raises(TimeoutError, match="one of 2 channels"):
        gw.select(a, (b, 3), timeout=0.01)
    assert not a._takers
    assert not b._putters
    assert b.take() == 2
    for wrong in ((), (3,), ((a,),)):
        with pytest.raises(UsageError, match=r"select"):
            gw.select(*wrong)  # type: ignore[arg-type]


def test_select_waits_for_puts_and_takes_and_leaves_the_other_channels() -> None:
    a: gw.Channel[int] = gw.Channel()
    b: gw.Channel[int] = gw.Channel()
    waiting = gw.Task(gw.select, a, (b, 7)).schedule()
    other = gw.Task(gw.select, a, b).schedule()
    gw.yield_task()
    assert other.result() == (1, 7)
    assert waiting.result() == (1, None)
    waiting = gw.Task(gw.select, a, a, (b, 8)).schedule()
    gw.yield_task()
    a.put(3)
    assert waiting.result() == (0, 3)
    for channel in (a, b):
        assert not channel._takers
        assert not channel._putters
    cancelled = gw.Task(gw.select, a, (b, 8)).schedule()
    gw.yield_task()
    cancelled.cancel()
    cancelled.wait()
    assert not a.put_nowait(1)
    assert b.take_nowait("nothing") == "nothing"


def test_select_passes_over_closed_channels_until_all_are() -> None:
    channels: list[gw.Channel[int]] = [gw.Channel(2) for _ in range(3)]

    def fill(channel: gw.Channel[int], first: int) -> None:
        with channel:
            for number in range(first, first + 3):
                channel.put(number)

    for number, channel in enumerate(channels):
        gw.Task(fill, channel, 10 * number).schedule()
    got = [gw.select(*channels).item for _ in range(9)]
    with pytest.raises(gw.ChannelClosed, match="all channels"):
        gw.select(*channels)
    assert sorted(got) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    with pytest.raises(gw.ChannelClosed):
        gw.select(gw.Channel(), (channels[0], 1))
    late: gw.Channel[int] = gw.Channel()
    waiting = gw.Task(gw.select, late, channels[0]).schedule()
    gw.yield_task()
    late.close()
    with pytest.raises(gw.ChannelClosed):
        waiting.result()


def test_a_condition_wakes_those_that_have_waited_longest() -> None:
    condition = gw.Condition()
    order: list[int] = []

    def wait(number: int) -> None:
        condition.wait()
        order.append(number)

    tasks = [gw.Task(wait, number).schedule() for number in range(5)]
    gw.yield_task()
    tasks[1].cancel()
    assert condition.notify(2) == 2
    gw.yield_task()
    assert order == [0, 2]
    assert condition.notify_all() == 2
    tasks[4].wait()
    assert order == [0, 2, 3, 4]
    assert condition.notify() == 0
    with pytest.raises(TimeoutError, match="Condition"):
        condition.wait(0.01)
    condition.wait_for(lambda: True)
    with pytest.raises(TimeoutError):
        condition.wait_for(lambda: False, 0.01)


def test_a_semaphore_bounds_how_many_tasks_are_inside() -> None:
    semaphore = gw.Semaphore(2)
    inside: list[int] = []

    def work(number: int) -> int:
        with semaphore:
            inside.append(number)
            assert len(inside) <= 2
            gw.yield_task()
            inside.remove(number)
        return number

    tasks = [gw.Task(work, number).schedule() for number in range(6)]
    gw.yield_task()
    tasks[3].cancel()
    for task in tasks[:3] + tasks[4:]:
        task.wait()
    assert semaphore.permits == 2
    none = gw.Semaphore(0)
    assert not none.try_acquire()
    with pytest.raises(TimeoutError, match="Semaphore"):
        none.acquire(0.01)
    none.release(2)
    assert none.try_acquire()
    with pytest.raises(UsageError, match="permits"):
        gw.Semaphore(-1)


DEADLOCK = """
import gondwana as gw
a, b = gw.Channel(), gw.Channel()
task = gw.Task(a.take).schedule()
for wait in (b.take, task.result):
    try:
        wait()
    except gw.ProgressError as error:
        print(error)
a.put(1)
print(task.result())
"""


def test_waiting_for_each_other_forever_is_an_error() -> None:
    """In a process of its own, since threads of pytest could wake a task."""
    first, second, last = jobs.run_command([sys.executable, "-c", DEADLOCK], timeout=60).stdout.splitlines()
    assert "the program waits for <Channel of capacity 0, 0 in it>" in first
    assert "<Task Channel.take, under way> waits for" in second
    assert last == "1"


def test_a_coroutine_awaits_tasks_and_iterates_over_channels() -> None:
    channel: gw.Channel[int] = gw.Channel(1)

    def fill() -> str:
        with channel:
            for number in range(5):
                channel.put(number)
                gw.sleep(0.001)
        return "filled"

    async def main() -> tuple[str, list[int]]:
        task = gw.Task(fill).schedule()
        got = [item async for item in channel]
        return await task, got

    assert asyncio.run(main()) == ("filled", [0, 1, 2, 3, 4])


def test_a_task_waits_for_coroutines_while_other_tasks_run() -> None:
    channel: gw.Channel[int] = gw.Channel()

    async def give(number: int) -> int:
        await asyncio.sleep(0.001)
        channel.put(number)  # suspends the loop of this coroutine only
        return -number

    async def fail() -> None:
        raise KeyError(3)

    future = gw.run_coroutine(give(4))
    assert channel.take() == 4
    assert future.result() == -4
    with pytest.raises(KeyError):
        gw.run_coroutine(fail()).result()
    cancelled: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            cancelled.append("left")

    endless = gw.run_coroutine(forever())
    gw.yield_task()
    assert isinstance(endless, gw.Task)
    endless.cancel()
    with pytest.raises(gw.TaskCancelled):
        endless.result()
    assert cancelled == ["left"]


def test_a_task_waits_for_coroutines_of_the_running_loop() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0.001)
        return 2 * number

    async def fail() -> None:
        raise KeyError(3)

    def in_task() -> int:
        with pytest.raises(KeyError):
            gw.run_coroutine(fail()).result()
        return gw.run_coroutine(double(21)).result()

    async def main() -> int:
        return await gw.Task(in_task).schedule()

    assert asyncio.run(main()) == 42
