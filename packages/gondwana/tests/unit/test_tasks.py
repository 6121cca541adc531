"""Tasks of one rank: turns, waiting, results and errors, cancelling, time, threads, and what is reported at the end."""

from __future__ import annotations

import contextvars
import gc
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.runtime import progress
from support import jobs


def run_all(*functions: Callable[[], Any]) -> list[Any]:
    return [task.result(60) for task in [gw.Task(function).schedule() for function in functions]]


noted: list[int] = []


def note(number: int) -> None:
    noted.append(number)


def test_tasks_take_turns_in_the_order_in_which_they_were_scheduled() -> None:
    seen: list[str] = []

    def say(name: str, times: int) -> str:
        for number in range(times):
            seen.append(f"{name}{number}")
            gw.yield_task()
        return name

    tasks = [gw.Task(say, name, times=2).schedule() for name in "abc"]
    assert seen == []
    assert [task.result() for task in tasks] == ["a", "b", "c"]
    assert seen == ["a0", "b0", "c0", "a1", "b1", "c1"]
    assert gw.current_task() is None
    assert run_all(gw.current_task)[0].done()


def test_a_task_that_has_ended_can_be_asked_again_and_runs_once() -> None:
    ran: list[int] = []
    task = gw.Task(ran.append, 1)
    with pytest.raises(UsageError, match="not scheduled"):
        task.wait()
    task.schedule().wait()
    assert ran == [1]
    assert task.result() is None
    assert task.exception() is None
    with pytest.raises(UsageError, match="scheduled already"):
        task.schedule()
    assert task.then(lambda _: 5).result() == 5


def test_an_error_is_raised_with_the_lines_of_the_task_and_no_lines_of_the_scheduler() -> None:
    def inner() -> None:
        gw.yield_task()
        raise KeyError("missing")

    def outer() -> None:
        inner()

    task = gw.Task(outer).schedule()
    with pytest.raises(KeyError, match="missing") as raised:
        task.result()
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[-2:] == ["outer", "inner"]
    assert "run" not in names
    assert task.exception() is raised.value
    with pytest.raises(KeyError):
        task.then(print).result()


def test_waiting_for_a_future_suspends_the_task_and_not_the_rank() -> None:
    promises = [gw.Promise() for _ in range(100)]
    tasks = [gw.Task(promise.future.result).schedule() for promise in promises]
    polled: list[int] = []
    flag: list[bool] = []
    waiter = gw.Task(progress.wait_until, lambda: bool(flag), "a flag").schedule()

    def settle() -> None:
        for number, promise in enumerate(promises):
            promise.set_result(number)
            gw.yield_task()
            polled.append(sum(task.done() for task in tasks))
        flag.append(True)

    run_all(settle)
    assert [task.result() for task in tasks] == list(range(100))
    assert polled[0] < 10
    assert polled == sorted(polled)
    waiter.wait(60)


def test_what_was_waited_for_is_not_kept() -> None:
    class Round:
        def __init__(self) -> None:
            self.polls = 0

        def is_over(self) -> bool:
            self.polls += 1
            return self.polls > 3

    def wait() -> list[weakref.ref[Any]]:
        polled, promise = Round(), gw.Promise()
        progress.wait_until(polled.is_over, "a round")
        gw.Task(promise.set_result, 1).schedule()
        promise.future.wait()
        return [weakref.ref(polled), weakref.ref(promise.future)]

    gc.disable()
    try:
        left = [*wait(), *gw.Task(wait).schedule().result(60)]
        assert [ref() for ref in left] == [None] * 4
    finally:
        gc.enable()


def test_the_program_waits_on_while_tasks_run_and_remote_calls_are_served() -> None:
    def call() -> int:
        gw.rpc_ff(gw.world.rank, note, 3)
        answer: int = gw.rpc(gw.world.rank, max, 1, 2).result()
        return answer

    assert run_all(call, call) == [2, 2]
    assert noted == [3, 3]


def test_a_call_of_another_rank_starts_a_task_where_the_rank_waits() -> None:
    """The program waits before any scheduler is there: in a process of its own."""
    program = """
import gondwana as gw
def start():
    return gw.Task(lambda: (gw.sleep(0.01), 7)[1]).schedule()
import sys
assert "greenlet" not in sys.modules
print(gw.rpc(0, start).result())
"""
    assert jobs.run_command([sys.executable, "-c", program]).stdout == "7\n"


def test_waiting_in_a_callback_is_refused_in_tasks_too() -> None:
    promise: gw.Promise[None] = gw.Promise()

    def wait(_: object) -> None:
        with pytest.raises(gw.ProgressError):
            gw.yield_task()
        with pytest.raises(gw.ProgressError):
            gw.sleep(0.1)
        with pytest.raises(gw.ProgressError):
            gw.Task(int).schedule().wait()
        refused.append(True)

    refused: list[bool] = []
    promise.future.add_done_callback(wait)
    run_all(lambda: promise.set_result(None), gw.progress)
    assert refused == [True]


def test_time_passes_for_all_sleeping_tasks_together() -> None:
    order: list[float] = []

    def nap(seconds: float) -> None:
        gw.sleep(seconds)
        order.append(seconds)

    start = time.monotonic()
    tasks = [gw.Task(nap, seconds).schedule() for seconds in (0.3, 0.1, 0.2)]
    gw.sleep(0.0)
    assert order == []
    for task in tasks:
        task.wait()
    assert order == [0.1, 0.2, 0.3]
    assert time.monotonic() - start >= 0.3
    with pytest.raises(UsageError, match="0 or more"):
        gw.sleep(-1.0)


def test_a_time_limit_ends_a_wait_and_leaves_the_task() -> None:
    promise: gw.Promise[int] = gw.Promise()
    task = gw.Task(promise.future.result).schedule()
    for _ in range(100):
        with pytest.raises(TimeoutError, match=r"waited 0.001 s for <Task"):
            task.wait(0.001)
    assert not task.done()
    assert not task._hooks
    with pytest.raises(TimeoutError, match="a future"):
        run_all(lambda: promise.future.result(0.001))
    promise.set_result(4)
    assert task.result(60) == 4
    for _ in range(1000):  # time limits that were not reached leave nothing either
        gw.Task(int).schedule().wait(1000)
    assert len(progress.thread.flow.tasks._timers) < 200


def test_cancel_raises_where_the_task_waits() -> None:
    cleaned: list[str] = []

    def forever() -> None:
        try:
            gw.sleep(1000)
        finally:
            cleaned.append("left")

    def stubborn() -> str:
        try:
            gw.Promise().future.wait()
        except gw.TaskCancelled:
            gw.yield_task()
        return "stays"

    tasks = [gw.Task(forever).schedule(), gw.Task(stubborn).schedule(), gw.Task(forever).schedule()]
    assert tasks[2].cancel()  # before it has begun
    gw.yield_task()
    assert cleaned == []
    assert all(task.cancel() for task in tasks[:2])
    assert tasks[1].result() == "stays"
    assert not tasks[1].cancelled()
    assert not tasks[1].cancel()
    for task in (tasks[0], tasks[2]):
        with pytest.raises(gw.TaskCancelled, match="was cancelled"):
            task.result()
        assert task.cancelled()
    assert cleaned == ["left"]


def test_cancel_of_a_task_that_is_ready_is_raised_at_its_next_wait() -> None:
    got: list[int] = []
    promise: gw.Promise[int] = gw.Promise()

    def take() -> None:
        got.append(promise.future.result())
        gw.yield_task()
        got.append(0)

    task = gw.Task(take).schedule()
    gw.yield_task()
    promise.set_result(1)
    task.cancel()
    task.wait()
    assert got == [1]
    assert task.cancelled()
    itself = gw.Task(lambda: gw.current_task().cancel()).schedule()  # type: ignore[union-attr]
    itself.wait()
    assert itself.cancelled()


def test_a_deep_recursion_in_each_of_several_tasks() -> None:
    def deep(levels: int) -> int:
        if levels == 0:
            gw.yield_task()
            return 0
        return 1 + deep(levels - 1)

    levels = sys.getrecursionlimit() * 3 // 4
    assert run_all(*[lambda: deep(levels)] * 4) == [levels] * 4

    def endless() -> None:
        endless()

    with pytest.raises(RecursionError):
        run_all(endless)
    assert run_all(lambda: deep(levels)) == [levels]


def test_tasks_have_the_context_variables_of_who_made_them_and_keep_theirs() -> None:
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)

    def change(value: int) -> list[int]:
        before = number.get()
        number.set(value)
        gw.yield_task()
        return [before, number.get()]

    number.set(5)
    tasks = [gw.Task(change, value).schedule() for value in (1, 2)]
    number.set(6)
    assert [task.result() for task in tasks] == [[5, 1], [5, 2]]
    assert number.get() == 6
    assert run_all(number.get) == [6]


def test_an_exception_that_is_handled_while_others_run_stays_the_tasks_own() -> None:
    def handle(kind: type[Exception]) -> type[BaseException] | None:
        try:
            raise kind
        except kind:
            gw.yield_task()
            return sys.exc_info()[0]

    assert run_all(lambda: handle(KeyError), lambda: handle(ValueError)) == [KeyError, ValueError]


def test_each_thread_has_its_own_tasks_and_may_wait_for_those_of_others() -> None:
    promise: gw.Promise[int] = gw.Promise()
    here = gw.Task(promise.future.result).schedule()
    results: list[Any] = []

    def other() -> None:
        there = gw.Task(threading.get_ident).schedule()
        results.append(there.result() == threading.get_ident())
        results.append(here.result(60))

    thread = threading.Thread(target=other)
    thread.start()
    promise.set_result(3)
    assert here.result(60) == 3
    thread.join()
    assert results == [True, 3]


def test_a_progress_thread_runs_the_tasks_that_calls_start_on_it() -> None:
    def start() -> gw.Future[int]:
        return gw.Task(lambda: (gw.sleep(0.001), threading.get_ident())[1]).schedule()

    with gw.progress_thread():
        answer = gw.rpc(gw.world.rank, start)
        end = time.monotonic() + 60
        while not answer.done() and time.monotonic() < end:
            time.sleep(0.001)
        assert answer.done()
    assert isinstance(answer.result(), int)


def test_many_tasks_wait_at_once() -> None:
    promise: gw.Promise[int] = gw.Promise()
    tasks = [gw.Task(promise.future.result).schedule() for _ in range(2000)]
    gw.yield_task()
    promise.set_result(1)
    assert sum(task.result() for task in tasks) == 2000
    home = progress.thread.flow.tasks
    assert len(home.strands) < 200
    assert not set(tasks) & set(home.tasks())


REPORTED = {
    "print('fine')": [],
    "gw.Task(gw.sleep, 9e9).schedule(); gw.yield_task()": ["1 task that has not ended (<Task sleep, under way>)"],
    "[gw.Task(int, 'x').schedule() for _ in range(2)]; gw.yield_task()": ["2 tasks that failed", "ValueError: invalid"],
    "t = gw.Task(int, 'x').schedule(); gw.yield_task(); t.exception()": [],
    "t = gw.Task(gw.sleep, 1).schedule(); gw.yield_task(); t.cancel(); t.wait()": [],
}


@pytest.mark.parametrize("line", REPORTED)
def test_what_is_reported_when_a_program_ends(line: str) -> None:
    outcome = jobs.run_command([sys.executable, "-c", f"import gondwana as gw; {line}"])
    assert all(part in outcome.stderr for part in REPORTED[line]), outcome.stderr
    assert bool(outcome.stderr) == bool(REPORTED[line])


def test_exits_and_interruptions_in_a_task_end_the_program() -> None:
    for line, status in (("sys.exit(3)", 3), ("raise KeyboardInterrupt", -2), ("os.kill(os.getpid(), 2)", -2)):
        source = (
            "import gondwana as gw, os, signal, sys\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"def end():\n    gw.yield_task()\n    {line}\n    gw.sleep(100)\n"
            "gw.Task(gw.sleep, 100).schedule()\n"
            "gw.Task(end).schedule()\n"
            "gw.Promise().future.wait()\n"
        )
        ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode in (status, 130 if status < 0 else status), (line, ended)
