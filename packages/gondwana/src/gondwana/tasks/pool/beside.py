"""The process in which a rank runs tasks with a time limit: a rank ends only with its job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from gondwana.runtime import progress
from gondwana.tasks.pool.dispatcher import Dispatcher
from gondwana.tasks.pool.packing import Function, OtherProgram, Packer
from gondwana.tasks.pool.processes import Processes
from gondwana.tasks.pool.task import PoolBrokenError, PoolTask, TaskFuture, unstartable

Initializer: TypeAlias = Callable[[Packer], tuple[Function | None, bytes, tuple[Any, ...]]]
"""Returns the initializer of a pool for a packer, as the first message to a worker has it."""


class Beside:
    """Calls functions with a time limit in a process that it starts for the first of them. Local.

    Args:
        key: name of the pool.
        initializer: returns the initializer of its workers for a packer.
    """

    def __init__(self, key: str, initializer: Initializer) -> None:
        self._first = key, initializer
        self._pool: Dispatcher | None = None

    def __call__(self, seconds: float, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function. Blocks, with user-level progress.

        Raises:
            TimeLimitError: the call has not ended in time.
            PoolBrokenError: the process cannot be started.
        """
        pool = self._pool = self._pool or Dispatcher(start(1, *self._first), OtherProgram())
        future = TaskFuture(pool)
        pool.submit(PoolTask(pool.packer.function(call), *pool.packer.value((args, kwargs)), future, limit=seconds))
        progress.wait_until(future.done, "a task with a time limit")
        return future.result()

    def close(self, *, at_once: bool = False) -> None:
        """End the process. Local; blocks until it has ended.

        Args:
            at_once: whether to end it during a task.
        """
        if self._pool is not None:
            self._pool.close(wait=True, cancel=True, at_once=at_once)
            self._pool = None


def start(workers: int, key: str, initializer: Initializer) -> Processes:
    """Start the processes of a pool. Local.

    Raises:
        PoolBrokenError: no process can be started.
    """
    try:
        return Processes(workers, (sys.path, key, *initializer(OtherProgram())))
    except OSError as error:
        raise PoolBrokenError(f"WorkerPool({workers}): no worker can be started: {unstartable(error)}") from error


def packed(
    function: Callable[..., Any] | None, arguments: tuple[Any, ...], packer: Packer
) -> tuple[Function | None, bytes, tuple[Any, ...]]:
    """Return the initializer with its arguments, packed. Local."""
    return None if function is None else packer.function(function), *packer.value(arguments)
