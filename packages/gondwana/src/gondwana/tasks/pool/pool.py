"""`gw.WorkerPool`: an executor over ranks, in a job and from a plain Python process.

The pool of a program on one rank has no workers: the rank runs each task itself, when it is submitted.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias

from gondwana.errors import UsageError
from gondwana.runtime import interruptions, launcher
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.dispatcher import Dispatcher
from gondwana.tasks.pool.maps import Submitter
from gondwana.tasks.pool.packing import Function, OtherProgram, Packer, SameProgram
from gondwana.tasks.pool.processes import Processes
from gondwana.tasks.pool.ranks import Ranks, WorkerLine
from gondwana.tasks.pool.task import PoolBrokenError, PoolClosedError, PoolTask, TaskFuture, unstartable
from gondwana.tasks.pool.worker import Worker
from gondwana.teams import world

_numbers = itertools.count(1)

Role: TypeAlias = "Alone | Dispatcher | Worker"


class _LeftPool(BaseException):
    """Ends the body of the `with` statement on a rank that was a worker in it."""


class WorkerPool(Submitter):
    """An executor of `concurrent.futures` whose workers are ranks of the job, or processes that it starts itself.

    *In a job of several ranks* (`gondwana run -n 4`, `mpirun`, `srun`): collective over the world, without a number.
    Rank 0 submits, the others work: at the first use of the pool in the `with` statement they run tasks until rank 0
    leaves the statement, and skip the rest of its body. After it all ranks continue.

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
        self._initializer = initializer, initargs
        self._role = self._start(max_workers) if max_workers else self._join() if world.size > 1 else self._alone()
        weakref.finalize(self, _end, os.getpid(), self._role)

    def _start(self, workers: int) -> Dispatcher:
        packer = OtherProgram()
        try:
            self._processes = Processes(workers, (sys.path, self._key, *self._packed_initializer(packer)))
        except OSError as error:
            raise PoolBrokenError(f"WorkerPool({workers}): no worker can be started: {unstartable(error)}") from error
        return Dispatcher(self._processes, packer)

    def _join(self) -> Role:
        packer = SameProgram()
        if world.rank == 0:
            return Dispatcher(Ranks(self._key), packer)
        return Worker(WorkerLine(self._key), packer)

    def _alone(self) -> Alone:
        function, arguments = self._initializer
        if function is not None:
            function(*arguments)
        return Alone(SameProgram())

    def _packed_initializer(self, packer: Packer) -> tuple[Function | None, bytes, tuple[Any, ...]]:
        function, arguments = self._initializer
        return None if function is None else packer.function(function), *packer.value(arguments)

    # -- tasks -------------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Number of workers, including those that are starting. Local."""
        return self._shared.workers

    @property
    def _shared(self) -> Role:
        role = self._role
        if isinstance(role, Worker):
            if not role.serving:
                self._serve(role)
        elif self._processes is None and world.size > 1:
            self._check_inside()
        return role

    def _submit(self, function: Function, arguments: bytes, buffers: tuple[Any, ...]) -> TaskFuture:
        role = self._role
        if isinstance(role, Worker):
            return role.submit(function, arguments, buffers)
        future = TaskFuture(role)
        role.submit(PoolTask(function, arguments, buffers, future))
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
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        try:
            if isinstance(self._role, Worker):
                if kind is None:
                    self._serve(self._role)
                return kind is _LeftPool
            at_once = self._processes is not None and kind is not None and not issubclass(kind, Exception)
            self._role.close(wait=True, cancel=kind is not None, at_once=at_once)
        except _LeftPool:
            pass
        finally:
            self._inside = False
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

    def _serve(self, worker: Worker) -> None:
        """Run tasks until rank 0 has left the `with` statement, then leave it here, too."""
        self._check_inside()
        if not self._served:
            self._served = True
            worker.serve(*self._packed_initializer(worker.packer))
        raise _LeftPool

    def _check_inside(self) -> None:
        if not self._inside:
            raise UsageError(
                "in a job of several ranks a pool is used inside its `with` statement, where the other ranks run "
                "tasks: with gw.WorkerPool() as pool: ..."
            )


def _end(process: int, role: Role) -> None:
    """End a pool that nobody can use any more, unless this is a forked copy of its process."""
    if process == os.getpid() and not isinstance(role, Worker):
        role.close(wait=True, cancel=False, at_once=False)


class Alone:
    """Runs tasks where they are submitted. Local.

    Args:
        packer: packer of functions and values: tasks get copies here, too.

    Attributes:
        condition: condition of all futures.
        workers: number of workers: this process.
    """

    workers = 1

    def __init__(self, packer: Packer) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.packer = packer
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
            value = packing.load_function(task.function)(*args, **kwargs)
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
