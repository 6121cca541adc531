"""The pool of a program on one rank, without workers: the rank runs each task itself, when it is submitted."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gondwana.runtime import interruptions
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.batches import Task
from gondwana.tasks.pool.errors import PoolClosedError
from gondwana.tasks.pool.packing import Packer


class Alone:
    """Runs tasks where they are submitted. Local.

    Args:
        packer: how functions and values are packed: tasks get copies here, too.

    Attributes:
        condition: of all futures.
        workers: this process.
    """

    workers = 1

    def __init__(self, packer: Packer) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.packer = packer
        self._closed = False

    def submit(self, task: Task) -> None:
        """Run a task. Local; blocks until it has ended.

        Raises:
            PoolClosedError: the pool is shut down.
        """
        if self._closed:
            raise PoolClosedError("the pool is shut down: submit tasks inside its `with` statement")
        assert task.future is not None
        task.future.begin()
        value: object = None
        problem: BaseException | None = None
        try:
            args, kwargs = packing.load(task.arguments, task.buffers)
            value = packing.load_function(task.function)(*args, **kwargs)
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            problem = error
        task.future.settle(value, problem)

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Return whether something holds: nothing here would change that. Local."""
        return ready()

    def close(self, *, wait: bool, cancel: bool, at_once: bool) -> None:
        """Take no more tasks. Local."""
        self._closed = True
