"""A worker: it runs the tasks that come, and returns their outcomes in groups."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from gondwana.errors import UsageError
from gondwana.runtime import interruptions
from gondwana.tasks.pool import messages, packing
from gondwana.tasks.pool.maps import Submitter
from gondwana.tasks.pool.packing import Function, Packed, Packer
from gondwana.tasks.pool.task import RUN_BATCH, TaskFuture, sendable

Within: TypeAlias = Callable[[float, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Calls a function with its arguments, for so many seconds at most."""

HOLD = 2e-4
"""Seconds that a worker keeps outcomes back at most while it has further, shorter tasks."""

_clock = time.perf_counter


class Worker:
    """A worker of a pool. Local.

    Args:
        line: connection to the pool.
        packer: packer of results and nested tasks.
        within: calls the functions of tasks that have a time limit.
        begin: called with the number of each task before it begins.

    Attributes:
        condition: condition of the futures of nested tasks.
    """

    workers = 1
    """A task does not know the number of its pool's workers; it keeps enough tasks under way for one."""

    def __init__(
        self, line: messages.Line, packer: Packer, within: Within, begin: Callable[[int], object] = lambda number: None
    ) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.packer = packer
        self._line = line
        self._within, self._begin = within, begin
        self._tasks: deque[tuple[int, Function, bytes, Any, float | None]] = deque()
        self._outcomes: list[tuple[Any, ...]] = []
        self._held_since = 0.0
        self._nested: dict[int, TaskFuture] = {}
        self._submitted = self._waiting = 0
        self._stopped = self._is_limited = False

    def serve(self, initializer: Function | None, data: bytes, buffers: tuple[Any, ...] = ()) -> None:
        """Run the initializer, then tasks until the pool says that no more will come. Blocks.

        Args:
            initializer: function to call first; None for none.
            data: pickle of its arguments.
            buffers: buffers of the pickle.

        Raises:
            OSError: the pool has ended.
            EOFError: likewise.
        """
        try:
            if initializer is not None:
                packing.load_function(initializer)(*packing.load(data, buffers))
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            self._line.send((messages.FAILED, packing.pack_error(error)[0]))
        else:
            self._line.send((messages.READY,))
        while not self._stopped:
            self._step()

    def _step(self, end: float | None = None) -> None:
        """Run a task, or wait for messages, until a time at most."""
        if not self._tasks:
            self._send_outcomes()
            self._receive(None if end is None else max(0.0, end - time.monotonic()))
            return
        number, function, data, buffers, limit = self._tasks.popleft()
        self._is_limited = limit is not None
        if self._is_limited:  # the worker may end with the task
            self._send_outcomes()
        self._begin(number)
        start = _clock()
        try:
            args, kwargs = packing.load(data, buffers)
            call = packing.load_function(function)
            found = call(*args, **kwargs) if limit is None else self._within(limit, call, args, kwargs)
            value, rest = self._pack(function, found)
            succeeded = True
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            value, rest = packing.pack_error(error)
            succeeded = False
        end = _clock()
        self._outcomes.append((number, succeeded, value, packing.as_parts(rest), end - start))
        if self._tasks and end - self._held_since > HOLD:
            self._send_outcomes()
            self._held_since = end

    def _pack(self, function: Function, value: Any) -> packing.Packed:
        """Pack a result; in a batch, a result that cannot be packed becomes the error of its item alone."""
        try:
            return self.packer.value(value)
        except BaseException as error:
            if function != RUN_BATCH or interruptions.is_delivered(error):
                raise
            return self.packer.value(sendable(value, self.packer))

    def _send_outcomes(self) -> None:
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, []
            self._line.send((messages.DONE, outcomes))

    def _receive(self, timeout: float | None) -> None:
        for verb, *content in self._line.receive(timeout):
            if verb == messages.RUN:
                tasks, nested = content
                if self._waiting and not nested:
                    self._give_back(tasks)
                else:
                    self._tasks += tasks
                self._held_since = _clock()
            elif verb == messages.RESULTS:
                for outcome in content[0]:
                    self._settle(*outcome)
            else:
                self._stopped = True

    # -- nested tasks ------------------------------------------------------------------------------------------------

    def submit(self, function: Function, packed: Packed, limit: float | None) -> TaskFuture:
        """Submit a task to the pool of this worker, from a task. Local; does not wait.

        Raises:
            UsageError: a time limit is given, or the task that submits has one.
        """
        if limit is not None or self._is_limited:
            # A worker runs other tasks while its task waits: they would end with one that reaches its limit.
            raise UsageError(
                "a task submits none with a time limit, and none at all if it has one: submit from outside"
            )
        future = TaskFuture(self)
        future.begin()
        self._submitted += 1
        self._nested[self._submitted] = future
        self._line.send((messages.SUBMIT, self._submitted, function, packed[0], packing.as_parts(packed[1])))
        return future

    def _settle(self, number: int, succeeded: bool, data: bytes, buffers: Any) -> None:
        future = self._nested.pop(number)
        value: Any = None
        error: BaseException | None = None
        try:
            if succeeded:
                value = packing.load(data, buffers)
            else:
                error = packing.load_error(data, "another worker")
        except BaseException as problem:
            interruptions.let_delivered_pass(problem)
            error = problem
        future.settle(value, error)

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Run nested tasks until a condition holds; return whether it does. Blocks.

        Other tasks could wait in turn, on the same stack, so they are given back.

        Args:
            ready: returns whether it holds.
            timeout: seconds; None: no limit. A task that is running then is not interrupted.
        """
        if ready():
            return True
        end = None if timeout is None else time.monotonic() + timeout
        self._waiting += 1
        self._line.send((messages.WAITS, 1))
        if self._tasks:
            self._give_back(self._tasks)
            self._tasks.clear()
        while not ready() and (end is None or time.monotonic() < end):
            self._step(end)
        self._waiting -= 1
        self._line.send((messages.WAITS, -1))
        return ready()

    def _give_back(self, tasks: Iterable[tuple[Any, ...]]) -> None:
        self._line.send((messages.BACK, [task[0] for task in tasks]))


class NestedPool(Submitter):
    """The pool of a worker as its tasks see it. Local.

    Args:
        key: name of the pool.
        worker: this worker.
    """

    def __init__(self, key: str, worker: Worker) -> None:
        super().__init__(key)
        self._worker = worker

    @property
    def _shared(self) -> Worker:
        return self._worker

    def _submit(self, function: Function, packed: Packed, limit: float | None = None) -> TaskFuture:
        return self._worker.submit(function, packed, limit)
