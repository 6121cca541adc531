"""The assignment of tasks to workers: the heart of a pool.

Idle workers are a stack, so a task goes to the worker that was busy last, whose caches are warm and which may still
poll; the number of other idle workers does not matter. A worker gets further tasks ahead of time, in one message, as
long as tasks of that function are short; a task that may take long is never sent after another one.

The work of the pool (receiving results, sending the next tasks) is done by the threads that wait for a future. If none
waits, a thread of the pool takes over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gondwana.runtime import cores, exits, interruptions, progress
from gondwana.tasks.pool import messages, packing
from gondwana.tasks.pool.packing import Function, Packer
from gondwana.tasks.pool.task import (
    PoolBrokenError,
    PoolClosedError,
    PoolTask,
    TaskFuture,
    TimeLimitError,
    WorkerLostError,
    unstartable,
)
from gondwana.tasks.scheduler import has_tasks

AHEAD = 2e-3
"""Seconds of work that a worker has at most beside its running task."""
SHORT = 0.02
"""Seconds of the longest task after which another one is sent."""
MOST_AHEAD = 256
"""The most tasks of a worker."""
_FORGET = 0.8
"""How fast a shorter duration replaces the expected one; a longer one replaces it at once."""
_MOST_FUNCTIONS = 1024
_POLL_EVERY = 16
"""Number of submitted tasks between two looks for results."""

TICK, LONGEST_TICK = 1e-3, 4e-3
"""Seconds without work of others before its thread does the pool's work; longer while threads wait for futures."""
_QUIET_TICKS = 100
"""Ticks without a task after which that thread sleeps until there is one."""
_NAP = 0.1
"""Seconds that a wait lasts before its condition is checked again, if nothing arrives."""
_FOLLOW = 0.01
"""Seconds that a thread waits for another that leads before it tries to lead itself."""
_FAILED_STARTS = 3
"""The most workers in a row that may end before they are ready."""


@dataclass(slots=True)
class _Slot:
    """A worker: its tasks, in the order in which they were sent, and the number of those that wait for others."""

    number: int
    tasks: dict[int, PoolTask] = field(default_factory=dict)
    waiting: int = 0

    @property
    def load(self) -> int:
        """Number of its tasks that do not wait for others."""
        return len(self.tasks) - self.waiting


Outcome = tuple[PoolTask, bool, Any, tuple[Any, ...], int]
"""A task that has ended: whether it succeeded, its result or error as bytes (or an exception), and its worker."""


class Dispatcher:
    """Sends the tasks of a pool to its workers and completes their futures. Local; threads may share it.

    Args:
        lines: connections to the workers.
        packer: packer of functions and values for them.

    Attributes:
        condition: condition of all futures; its lock protects the state.
        outstanding: number of tasks that have not ended.
    """

    def __init__(self, lines: messages.Lines, packer: Packer) -> None:
        self.packer = packer
        self._state = threading.RLock()
        self.condition = threading.Condition(self._state)
        self.outstanding = 0
        self._lines = lines
        self._cores = cores.count()
        self._slots: dict[int, _Slot] = {}
        self._idle: list[_Slot] = []
        self._waiting: list[_Slot] = []
        self._queue: deque[PoolTask] = deque()
        self._nested: list[PoolTask] = []
        self._seconds: dict[Function, float] = {}
        self._number = self._submitted = self._failed_starts = 0
        self._broken = ""
        self._cause: BaseException | None = None
        self._closed = self._at_once = self._missed = False
        self._leading = threading.Lock()
        self._led = self._followers = 0
        self._work = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def workers(self) -> int:
        """Number of workers, including those that are starting."""
        return self._lines.workers

    # -- tasks come --------------------------------------------------------------------------------------------------

    def submit(self, task: PoolTask) -> None:
        """Queue a task, or send it to an idle worker. Local; does not wait.

        Raises:
            PoolClosedError: the pool is shut down.
            PoolBrokenError: the pool has no workers any more.
        """
        with self._state:
            if self._closed:
                raise PoolClosedError("the pool is shut down: submit tasks inside its `with` statement")
            if self._broken:
                raise PoolBrokenError(self._broken) from self._cause
            if self._thread is None:
                self._start_thread()
            self._enqueue(task)
            self._submitted += 1
        if not self._work.is_set():
            self._work.set()
        if self._submitted % _POLL_EVERY == 0:
            self.poll()

    def _enqueue(self, task: PoolTask) -> None:
        self.outstanding += 1
        if task.future is None:
            self._nested.append(task)
        else:
            self._queue.append(task)
        self._assign()

    def _assign(self) -> None:
        """Give tasks to idle workers."""
        while self._nested and (self._waiting or self._idle):
            self._feed((self._waiting or self._idle).pop())
        while self._queue and self._idle:
            self._feed(self._idle.pop())

    def _feed(self, slot: _Slot) -> None:
        """Send as many tasks as it should have to a worker that is on no list, or put it on one."""
        nested = bool(self._nested) and slot.load <= 0
        tasks = [self._nested.pop()] if nested else [] if slot.waiting else self._take(self._room(slot))
        if tasks:
            first = self._number + 1
            self._number += len(tasks)
            slot.tasks.update(enumerate(tasks, first))
            sent = [
                (number, task.function, task.arguments, packing.as_parts(task.buffers), task.limit)
                for number, task in enumerate(tasks, first)
            ]
            self._lines.send(slot.number, (messages.RUN, sent, nested))
        elif slot.load <= 0:
            (self._waiting if slot.waiting else self._idle).append(slot)

    def _take(self, most: int) -> list[PoolTask]:
        """Take the next tasks from the queue that are not cancelled, all of one function."""
        tasks: list[PoolTask] = []
        while self._queue and len(tasks) < most:
            if tasks and self._queue[0].function != tasks[0].function:
                break
            task = self._queue.popleft()
            assert task.future is not None
            if task.future.begin():
                tasks.append(task)
            else:
                self.outstanding -= 1
        return tasks

    def _room(self, slot: _Slot) -> int:
        """Return the number of tasks like the next one that a worker should get."""
        if not self._queue or (slot.tasks and next(reversed(slot.tasks.values())).function != self._queue[0].function):
            return 0
        seconds = self._seconds.get(self._queue[0].function, SHORT)
        if seconds >= SHORT:
            return 1 - slot.load
        share = len(self._queue) // (2 * len(self._slots))  # the other half will balance the load
        return 1 + min(int(max(1, AHEAD / max(seconds, 1e-7))), MOST_AHEAD, share) - slot.load

    # -- messages arrive ---------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Do the pool's pending work, unless another thread does it. Local; does not block."""
        if self._leading.acquire(False):
            try:
                self._led += 1
                self._work_off()
            finally:
                self._leading.release()

    def _work_off(self) -> bool:
        """Handle the messages that have arrived; return whether there were any. The caller leads."""
        arrived = self._lines.receive()
        if not arrived:
            return False
        ended: list[Outcome] = []
        with self._state:
            for worker, message in arrived:
                self._handle(worker, message, ended)
        for outcome in ended:
            self._settle(*outcome)
        return True

    def _handle(self, worker: int, message: messages.Message, ended: list[Outcome]) -> None:
        verb, *content = message
        slot = self._slots.get(worker)
        if verb == messages.DONE and slot is not None:
            for number, succeeded, data, buffers, seconds in content[0]:
                task = slot.tasks.pop(number)
                self._expect(task.function, seconds)
                ended.append((task, succeeded, data, buffers, worker))
            self._feed(slot)
        elif verb == messages.SUBMIT:
            number, function, arguments, buffers = content
            self._enqueue(PoolTask(function, arguments, buffers, None, (worker, number)))
        elif verb == messages.WAITS and slot is not None:
            self._unlist(slot)
            slot.waiting += content[0]
            self._feed(slot)
        elif verb == messages.BACK and slot is not None:
            self._unlist(slot)
            self._take_back(slot, content[0])
            self._feed(slot)
            self._assign()
        elif verb == messages.READY:
            self._failed_starts = 0
            slot = self._slots[worker] = _Slot(worker)
            self._feed(slot)
        elif verb == messages.FAILED:
            error = packing.load_error(content[0], self._lines.name(worker))
            self._break(error, f"the initializer of {self._lines.name(worker)} failed: {error!r}", ended)
        elif verb == messages.LOST:
            self._lose(worker, content[0], content[1], content[2], ended)
        elif verb == messages.MISSING:
            self._miss(worker, content[0], ended)

    def _unlist(self, slot: _Slot) -> None:
        """Take a worker from the lists of idle ones."""
        for slots in (self._idle, self._waiting):
            if slot in slots:
                slots.remove(slot)

    def _take_back(self, slot: _Slot, numbers: Iterable[int]) -> None:
        """Queue tasks again that a worker has not begun, before all others."""
        for number in sorted(numbers, reverse=True):
            task = slot.tasks.pop(number)
            if task.future is None:
                self._nested.append(task)
            else:
                task.future.again()
                self._queue.appendleft(task)

    def _expect(self, function: Function, seconds: float) -> None:
        """Update the expected duration of a function's tasks."""
        before = self._seconds.get(function, 0.0)
        if not before and len(self._seconds) >= _MOST_FUNCTIONS:
            self._seconds.clear()
        self._seconds[function] = max(seconds, _FORGET * before + (1 - _FORGET) * seconds)

    def _settle(self, task: PoolTask, succeeded: bool, data: Any, buffers: tuple[Any, ...], worker: int) -> None:
        """Complete a future with the outcome from a worker."""
        with self._state:
            self.outstanding -= 1
            if task.future is None:
                self._pass_on(task, succeeded, data, buffers)
                return
        value: Any = None
        error: BaseException | None = None
        if isinstance(data, BaseException):
            error = data
        elif succeeded:
            try:
                value = packing.load(data, buffers)
            except BaseException as problem:
                interruptions.let_delivered_pass(problem)
                error = problem
        else:
            error = packing.load_error(data, self._lines.name(worker))
        task.future.settle(value, error)

    def _pass_on(self, task: PoolTask, succeeded: bool, data: Any, buffers: tuple[Any, ...]) -> None:
        """Send the outcome of a nested task to the worker of its parent, if that is still there."""
        worker, number = task.origin
        if worker in self._slots:
            if isinstance(data, BaseException):
                data, buffers = packing.pack_error(data)
            outcome = (number, succeeded, data, packing.as_parts(buffers))
            self._lines.send(worker, (messages.RESULTS, [outcome]))

    # -- workers are lost --------------------------------------------------------------------------------------------

    def _lose(self, worker: int, how: str, begun: int, stack: str, ended: list[Outcome]) -> None:
        """Fail the tasks that a lost worker had begun, queue the others again, and start another worker."""
        slot = self._slots.pop(worker, None)
        name = self._lines.name(worker)
        if slot is None:
            self._failed_starts += 1
        else:
            self._unlist(slot)
            self._take_back(slot, [number for number in slot.tasks if number > begun])
            for number, task in slot.tasks.items():
                what = "while it ran" if number == begun else "before it had sent the result of"
                error: Exception = WorkerLostError(f"{name} {how} {what} {task.describe()}")
                if stack and number == begun:
                    error = TimeLimitError(f"{task.describe()} ran longer than its time limit of {task.limit:g} s")
                    error.add_note(f"It was ended with {name}:\n{stack}")
                ended.append((task, False, error, (), worker))
        if self._closed and not self._queue and not self._nested:
            return
        if self._failed_starts >= _FAILED_STARTS or not self._lines.replace():
            if self._failed_starts >= _FAILED_STARTS or not self._slots:
                self._break(None, f"the last {self._failed_starts or 1} workers were lost: {name} {how}", ended)
            return
        self._assign()

    def _miss(self, worker: int, error: OSError, ended: list[Outcome]) -> None:
        """Continue without a worker that the system has not started, as long as there are others."""
        reason = f"{self._lines.name(worker)} could not be started: {unstartable(error)}"
        if not self._lines.workers:
            self._break(error, reason, ended)
        elif not self._missed:
            exits.write_error(f"gondwana: {reason}; the pool goes on with {self._lines.workers}\n")
        self._missed = True

    def _break(self, cause: BaseException | None, reason: str, ended: list[Outcome]) -> None:
        """Fail all tasks, since no worker is left."""
        self._broken, self._cause = f"{reason}; the pool takes no more tasks", cause
        left = [*self._queue, *self._nested, *(task for slot in self._slots.values() for task in slot.tasks.values())]
        for emptied in (self._queue, self._nested, self._slots, self._idle, self._waiting):
            emptied.clear()
        for task in left:
            if task.future is not None and task.future.cancelled():
                self.outstanding -= 1
                continue
            error = PoolBrokenError(self._broken)
            error.__cause__ = cause
            ended.append((task, False, error, (), 0))

    # -- waiting -----------------------------------------------------------------------------------------------------

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Do the pool's work until a condition holds; return whether it does. Blocks.

        Args:
            ready: returns whether it holds.
            timeout: seconds; None: no limit.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not ready():
            if has_tasks():
                return self._suspend(ready, None if end is None else end - time.monotonic())
            left = _NAP if end is None else min(_NAP, end - time.monotonic())
            if left <= 0:
                return False
            if not self._lead(ready, left):
                with self._state:
                    self._followers += 1
                    if not ready():
                        self.condition.wait(min(left, _FOLLOW))
                    self._followers -= 1
        return True

    def _suspend(self, ready: Callable[[], bool], seconds: float | None) -> bool:
        """Let other tasks of this thread run meanwhile; any of them that finds work of the pool does it."""

        def polled() -> bool:
            with progress.callback():  # the scheduler makes progress itself
                self.poll()
            return ready()

        with contextlib.suppress(TimeoutError):
            progress.wait_until(polled, "a task of a pool", seconds)
        return ready()

    def _lead(self, ready: Callable[[], bool], seconds: float) -> bool:
        """Wait for work, unless a condition holds, and do it; return False if another thread leads."""
        if not self._leading.acquire(False):
            return False
        try:
            self._led += 1
            if not ready():
                self._lines.sleep(seconds, spin=len(self._slots) - len(self._idle) < self._cores)
                self._work_off()
        finally:
            self._leading.release()
            if self._followers:
                with self._state:
                    self.condition.notify_all()  # another waiting thread can lead
        return True

    def _start_thread(self) -> None:
        """Start the thread of the pool.

        Raises:
            PoolBrokenError: this process cannot start a thread.
        """
        thread = threading.Thread(target=self._lead_alone, name="gondwana-pool", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            limit = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            raise PoolBrokenError(f"the thread of a pool cannot be started: {unstartable(limit)}") from None
        self._thread = thread

    def _lead_alone(self) -> None:
        """Do the pool's work while nobody waits, until the pool has ended."""
        led, quiet, tick = -1, 0, TICK
        while not (self._closed and self.outstanding == 0):
            if quiet > _QUIET_TICKS:
                self._work.clear()
                if not (self.outstanding or self._closed):  # after that, since both change before the event is set
                    self._work.wait()
                quiet = 0
            time.sleep(tick)
            quiet = 0 if self.outstanding else quiet + 1
            tick = min(2 * tick, LONGEST_TICK) if self._led != led or self._leading.locked() else TICK
            if tick > TICK or (self.outstanding and self._lead(lambda: False, _NAP)):
                led = self._led
        with self._leading:
            self._lines.stop(at_once=self._at_once)

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, *, wait: bool, cancel: bool, at_once: bool) -> None:
        """Take no more tasks, and let the workers end when they have run the present ones. Local.

        Args:
            wait: whether to block until then.
            cancel: whether to cancel the tasks that no worker has.
            at_once: whether to end the workers during a task.
        """
        ended: list[Outcome] = []
        with self._state:
            self._closed, first = True, not self._closed
            self._at_once = self._at_once or at_once
            dropped = self._drop() if cancel or at_once else []
            if at_once:
                self._break(None, "the pool was ended while tasks ran", ended)
        for future in dropped:
            if future.cancel():
                future.set_running_or_notify_cancel()
        for outcome in ended:
            self._settle(*outcome)
        if first and self._thread is None:  # there was no task
            with self._leading:
                self._lines.stop(at_once=self._at_once)
        elif first:
            self._work.set()
            self._lines.wake()
        if wait and self._thread not in (None, threading.current_thread()):
            self.wait(lambda: self.outstanding == 0, None)
            self._work.set()
            assert self._thread is not None
            self._thread.join()

    def _drop(self) -> list[TaskFuture]:
        """Empty the queue; return the futures of its tasks."""
        dropped = list(self._queue)
        self._queue.clear()
        self.outstanding -= len(dropped)
        return [task.future for task in dropped if task.future is not None]
