"""`gw.WorkerPool`: an executor over ranks, in a job and from a plain Python process.

The pool of a program on one rank has no workers: the rank runs each task itself, when it is submitted.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeAlias

from gondwana.errors import UsageError
from gondwana.runtime import interruptions, launcher, progress
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.dispatcher import Dispatcher
from gondwana.tasks.pool.maps import Submitter
from gondwana.tasks.pool.packing import Function, OtherProgram, Packed, Packer, SameProgram
from gondwana.tasks.pool.processes import Processes
from gondwana.tasks.pool.ranks import Ranks, WorkerLine
from gondwana.tasks.pool.task import PoolBrokenError, PoolClosedError, PoolTask, TaskFuture, unstartable
from gondwana.tasks.pool.worker import Worker
from gondwana.teams import world

_numbers = itertools.count(1)

Role: TypeAlias = "Alone | Dispatcher | Worker"


class _LeftPool(BaseException):
    """Skips the body of the `with` statement on a rank that was a worker; its argument is the trace function before."""


class WorkerPool(Submitter):
    """An executor of `concurrent.futures` whose workers are ranks of the job, or processes that it starts itself.

    *In a job of several ranks* (`gondwana run -n 4`, `mpirun`, `srun`): collective over the world, without a number.
    Rank 0 alone runs the body of the `with` statement, and submits; the others run tasks until rank 0 leaves it. After
    it all ranks continue.

    *From a plain Python process or a notebook*, with a number: starts that many processes, each of which is a rank of
    its own job, and ends them with the pool, however this process ends. A worker that is lost (killed, crashed) fails
    its running task, and another one takes its place.

    *Without a number on one rank*: runs each task when it is submitted.

    Args:
        max_workers: number of workers to start; None: the other ranks of the job.
        initializer: called on each worker before its first task; if it fails, the pool is broken.
        initargs: arguments of the initializer.

    Raises:
        UsageError: the number is not positive, or is given in a job of several ranks.
        PoolBrokenError: this system starts no worker.

    Example:
        >>> import gondwana as gw
        >>> with gw.WorkerPool() as pool:
        ...     print(pool.submit(pow, 2, 10).result(), list(pool.map(abs, [-1, -2])))
        1024 [1, 2]
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., Any] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        launch = launcher.detect()
        job = launch is not None and launch.size != 1
        if max_workers is not None and max_workers < 1:
            raise UsageError(f"WorkerPool({max_workers}): give 1 or more")
        if max_workers is not None and job:
            raise UsageError(
                f"WorkerPool({max_workers}) in a job of several ranks, whose workers are its ranks: give no number "
                "here, and as many ranks as you want to the launcher"
            )
        super().__init__(f"{'job' if job else os.getpid()}.{next(_numbers)}")
        self._inside = self._served = False
        self._processes: Processes | None = None
        self._packed_initializer = functools.partial(_packed, initializer, initargs)
        self._beside = Beside(self._key, self._packed_initializer)
        if max_workers:
            self._processes = _start(max_workers, self._key, self._packed_initializer)
            self._role: Role = Dispatcher(self._processes, OtherProgram())
        elif world.size > 1:
            self._role = self._join()
        else:
            if initializer is not None:
                initializer(*initargs)
            self._role = Alone(SameProgram(), self._beside)
        weakref.finalize(self, _end, os.getpid(), self._role)

    def _join(self) -> Role:
        packer = SameProgram()
        if world.rank == 0:
            return Dispatcher(Ranks(self._key), packer)
        return Worker(WorkerLine(self._key), packer, self._beside)

    # -- tasks -------------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Number of workers, including those that are starting. Local."""
        return self._shared.workers

    @property
    def _shared(self) -> Role:
        if self._processes is None and world.size > 1 and not self._inside:
            raise UsageError(
                "in a job of several ranks a pool is used inside its `with` statement, where the other ranks run "
                "tasks: with gw.WorkerPool() as pool: ..."
            )
        return self._role

    def _submit(self, function: Function, packed: Packed, limit: float | None = None) -> TaskFuture:
        role = self._role
        if isinstance(role, Worker):
            return role.submit(function, packed, limit)
        future = TaskFuture(role)
        role.submit(PoolTask(function, *packed, future, limit=limit))
        return future

    def add(self, workers: int) -> None:
        """Start further workers, which take tasks as soon as they are ready. Local; does not wait for them.

        Args:
            workers: number of workers.

        Raises:
            UsageError: the number is not positive, or the workers of this pool are the ranks of its job.
            PoolBrokenError: the pool cannot start workers any more.
        """
        if workers < 1:
            raise UsageError(f"add({workers}): give 1 or more")
        if self._processes is None:
            raise UsageError(
                "add: the workers of this pool are the ranks of its job: start the job with more ranks, or the pool "
                "with a number of workers"
            )
        for _ in range(workers):
            if not self._processes.replace():
                obstacle = self._processes.obstacle
                raise PoolBrokenError(
                    "the process that keeps the workers has ended: make another pool"
                    if obstacle is None
                    else f"add({workers}): no worker can be started: {unstartable(obstacle)}"
                ) from obstacle

    # -- the `with` statement ----------------------------------------------------------------------------------------

    def __enter__(self) -> WorkerPool:
        self._inside = True
        if isinstance(self._role, Worker):
            if not self._served:
                self._served = True
                self._role.serve(*self._packed_initializer(self._role.packer))
                self._beside.close()
            _skip_body(sys._getframe(1))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        self._inside = False
        if isinstance(error, _LeftPool):
            sys.settrace(error.args[0])
            return True
        if not isinstance(self._role, Worker):
            starts = self._processes is not None or isinstance(self._role, Alone)
            at_once = starts and kind is not None and not issubclass(kind, Exception)
            self._role.close(wait=True, cancel=kind is not None, at_once=at_once)
        return False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; end the workers when they have run the present ones. Local.

        Args:
            wait: whether to block until then.
            cancel_futures: whether to cancel the tasks that no worker has.
        """
        role = self._shared
        assert not isinstance(role, Worker)
        role.close(wait=wait, cancel=cancel_futures, at_once=False)


def _skip_body(frame: FrameType) -> None:
    """Leave the `with` statement that calls `__enter__`, perhaps of a manager around the pool, before its body begins.

    Only an exception leaves it. This one is raised before the first instruction of the body, so that no `except` or
    `finally` there can see it.

    Args:
        frame: frame that has called `__enter__` of the pool.
    """
    before = sys.gettrace()

    def leave(at: FrameType, event: str, argument: object) -> None:
        if at is frame:
            at.f_trace_opcodes = False
            raise _LeftPool(before)

    while frame.f_back is not None and (
        frame.f_code.co_name in ("__enter__", "enter_context")  # of another manager, or of `contextlib.ExitStack`
        or (frame.f_code.co_flags & inspect.CO_GENERATOR and frame.f_back.f_code.co_name == "__enter__")
    ):
        frame = frame.f_back
    frame.f_trace, frame.f_trace_opcodes = leave, True
    sys.settrace(leave)


def _end(process: int, role: Role) -> None:
    """End a pool that nobody can use any more, unless this is a forked copy of its process."""
    if process == os.getpid() and not isinstance(role, Worker):
        role.close(wait=True, cancel=False, at_once=False)


_Initializer: TypeAlias = Callable[[Packer], tuple[Function | None, bytes, tuple[Any, ...]]]
"""Returns the initializer of a pool for a packer, as the first message to a worker has it."""


def _packed(
    function: Callable[..., Any] | None, arguments: tuple[Any, ...], packer: Packer
) -> tuple[Function | None, bytes, tuple[Any, ...]]:
    """Return an initializer as the first message to a worker has it."""
    return None if function is None else packer.function(function), *packer.value(arguments)


def _start(workers: int, key: str, initializer: _Initializer) -> Processes:
    try:
        return Processes(workers, (sys.path, key, *initializer(OtherProgram())))
    except OSError as error:
        raise PoolBrokenError(f"WorkerPool({workers}): no worker can be started: {unstartable(error)}") from error


class Beside:
    """Calls functions with a time limit in a process that this rank starts: a rank ends only with its job. Local.

    Args:
        key: name of the pool.
        initializer: returns the initializer of its workers for a packer.
    """

    def __init__(self, key: str, initializer: _Initializer) -> None:
        self._first = key, initializer
        self._pool: Dispatcher | None = None

    def __call__(self, seconds: float, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function. Blocks, with user-level progress.

        Raises:
            TimeLimitError: the call has not ended in time.
            PoolBrokenError: the process cannot be started.
        """
        pool = self._pool = self._pool or Dispatcher(_start(1, *self._first), OtherProgram())
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


class Alone:
    """Runs tasks where they are submitted. Local.

    Args:
        packer: packer of functions and values: tasks get copies here, too.
        beside: calls the functions of tasks that have a time limit.

    Attributes:
        condition: condition of all futures.
        workers: number of workers: this process.
    """

    workers = 1

    def __init__(self, packer: Packer, beside: Beside) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.packer = packer
        self._beside = beside
        self._closed = False

    def submit(self, task: PoolTask) -> None:
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
            call, limit = packing.load_function(task.function), task.limit
            value = call(*args, **kwargs) if limit is None else self._beside(limit, call, args, kwargs)
        except BaseException as error:
            interruptions.let_delivered_pass(error)
            problem = error
        task.future.settle(value, problem)

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Return whether a condition holds: waiting here would not change it. Local."""
        return ready()

    def close(self, *, wait: bool, cancel: bool, at_once: bool) -> None:
        """Take no more tasks. Local."""
        self._closed = True
        self._beside.close(at_once=at_once)
