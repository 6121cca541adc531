"""Progress: the work that a rank does for others inside its calls, at one of three levels.

- *none*: queries and arithmetic.
- *internal*: data and answers move, user code does not run. `advance`; what starting an operation does.
- *user*: internal progress, then callbacks and remote procedure calls run. `progress`, and everything that waits:
  futures, signals, barriers, leaving the job.

User code that progress runs (a callback) is restricted: it may start operations but not wait, since it might wait for
the very progress that it holds up. Waiting there raises `ProgressError`.

Where a program has tasks, their scheduler takes over all waiting (`suspend_by`): a wait then suspends the calling task.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, Protocol, TypeVar

from gondwana.errors import GondwanaError
from gondwana.runtime import cores, idle, ordering, tracing
from gondwana.runtime.watching import waits

Poll = Callable[[], bool]
"""Does the available work, and returns whether it found any."""


class Source(Protocol):
    """Calls back when a condition has begun to hold, so that nobody has to poll it."""

    def at_once(self, call: Callable[[Any], None]) -> None:
        """Register a call for that moment, in internal progress too."""

    def forget(self, call: Callable[[Any], None]) -> bool:
        """Remove a registered call; return whether it was still pending."""


class Scheduler(Protocol):
    """Suspends tasks where they would wait."""

    def wait_until(
        self,
        ready: Callable[[], bool],
        what: str,
        timeout: float | None,
        source: Source | None,
        bell: bool,
        why: waits.Why | None,
    ) -> None:
        """Suspend the calling task until a condition holds: as `wait_until` of this module."""

    def run_others(self) -> bool:
        """Run the other tasks of this thread that can run now; return whether there were any."""

    def alive(self) -> bool:
        """Return whether any tasks have not ended."""


class _Tasks:
    scheduler: Scheduler | None = None
    suspends: Poll | None = None


class _Attention:
    serve: Poll | None = None


_tasks = _Tasks()
_attention = _Attention()
_movers: list[Poll] = []
_accounts: list[Callable[[], str | None]] = []
_servers: list[Poll] = []
_queue: deque[Callable[[], object]] = deque()
P = ParamSpec("P")
_Item = TypeVar("_Item")
_moving = threading.Lock()


class Flow:
    """State of progress on one thread.

    Attributes:
        depth: nesting depth of the callbacks that it is running.
        tasks: the scheduler's state of it; None: it has neither tasks nor waited for any.
        calls: the remote calls' state of it; None: it has served none.
    """

    __slots__ = ("calls", "depth", "tasks")

    def __init__(self) -> None:
        self.depth = 0
        self.tasks: Any = None
        self.calls: Any = None


class _Thread(threading.local):
    def __init__(self) -> None:
        self.flow = Flow()


thread = _Thread()
"""`thread.flow` belongs to the calling thread. One look-up finds all, since it costs as much as a call."""


def place() -> tuple[int, int]:
    """Number of callbacks that the calling thread is in, and number of its strand of tasks, 0 for none."""
    flow = thread.flow
    in_program = flow.tasks is None or flow.tasks.current is flow.tasks.program
    return flow.depth, 0 if in_program else id(flow.tasks.current)


if tracing.recorder is not None:
    tracing.recorder.place = place


class ProgressError(GondwanaError, RuntimeError):
    """A blocking call was made where it could never return."""


def register(move: Poll, serve: Poll | None = None, under_way: Poll | None = None, *, own: bool = False) -> None:
    """Register a source of work, polled by every later call with progress. Local.

    Args:
        move: internal progress: moves data and completes futures, and runs no user code.
        serve: user-level progress: runs user code, inside `callback()`.
        under_way: returns whether there is work whose end only polls find, so that this rank must not sleep for long.
        own: whether that work goes on without the other ranks, so that a waiting rank does not stand still meanwhile.
    """
    _movers.append(move)
    if under_way is not None:
        idle.poll_for(under_way)
        if own:
            idle.works_while(under_way)
    if serve is not None:
        _servers.append(serve)


def attend_by(serve: Poll) -> None:
    """Let waits call a function between their first rounds of progress. Local.

    Args:
        serve: waits about a microsecond for messages of other ranks, and serves one as soon as it has come; a round of
            progress of all kinds takes as long to find one. Returns whether it served any.
    """
    _attention.serve = serve


def account_for(unfinished: Callable[[], str | None]) -> None:
    """Register a function, called when all ranks have finished, that describes operations never completed. Local."""
    _accounts.append(unfinished)


def unfinished() -> list[str]:
    """Return descriptions of the operations that this rank has started and not completed. Local."""
    return [text for text in (account() for account in _accounts) if text]


def enqueue(call: Callable[[], object]) -> None:
    """Run `call` as a callback at the next user-level progress. Local."""
    _queue.append(call)
    idle.wake()


def in_callback() -> bool:
    """Return whether this thread runs a callback, where waiting is not allowed. Local; no progress."""
    return thread.flow.depth > 0


def may_poll_alone() -> bool:
    """Return whether this thread may poll for something without other progress for a moment. Local; no progress.

    It may not inside a callback, where waiting is an error, nor where the program has tasks, which run meanwhile, nor
    where the cores are needed for other ranks. A trace shows the progress of a wait.
    """
    return not thread.flow.depth and _tasks.scheduler is None and not cores.crowded() and tracing.recorder is None


class _Callback:
    def __enter__(self) -> None:
        thread.flow.depth += 1

    def __exit__(self, *exception: object) -> None:
        thread.flow.depth -= 1


_callback = _Callback()


def callback() -> _Callback:
    """Return a context manager: what runs inside its `with` statement counts as a callback. Local."""
    return _callback


def advance() -> bool:
    """Make internal progress: move data, run no user code. Local.

    Returns:
        Whether any work was done.
    """
    if not _moving.acquire(False):
        return False  # another thread makes progress
    try:
        done = False
        for move in _movers:
            if move():
                done = True
        return done
    finally:
        _moving.release()


def suspend_by(scheduler: Scheduler, suspends: Poll | None = None) -> None:
    """Let a scheduler of tasks do all waiting from now on. Local.

    Args:
        scheduler: scheduler of the tasks.
        suspends: returns whether it is to do the present wait; None: all of them.
    """
    _tasks.scheduler, _tasks.suspends = scheduler, suspends


def has_tasks() -> bool:
    """Return whether this rank has tasks that have not ended. Local."""
    return _tasks.scheduler is not None and _tasks.scheduler.alive()


def current_task() -> object:
    """Return the task that calls, None in the program itself and on threads without tasks. Local."""
    tasks = thread.flow.tasks
    return None if tasks is None else tasks.current.task


@ordering.counted
def progress() -> bool:
    """Make user-level progress: move data, run the callbacks and calls that have arrived, then other tasks. Local.

    Call it now and then in long computations, so that other ranks and tasks need not wait. Inside a callback it makes
    internal progress only.

    Returns:
        Whether any work was done.

    Example:
        >>> import gondwana as gw
        >>> gw.progress()
        False
    """
    done = serve_others()
    if _tasks.scheduler is not None and not thread.flow.depth:
        done |= _tasks.scheduler.run_others()
    return done


serve_all = progress if ordering.log is None else ordering.plain(progress)
"""The same for loops of the library whose number of rounds is accidental: no step of the program."""


def serve_others() -> bool:
    """Make user-level progress without running other tasks of this rank. Local.

    Returns:
        Whether any work was done.
    """
    done = advance()
    if thread.flow.depth:
        return done
    for serve in _servers:
        if serve():
            done = True
    for call in _due(_queue) if _queue else ():
        done = True
        with callback():
            call()
    return done


def taken(queue: deque[_Item]) -> Iterator[_Item]:
    """Yield the present items of a queue, one by one; other threads, and the consumer, may take some. Local."""
    with contextlib.suppress(IndexError):
        for _ in range(len(queue)):
            yield queue.popleft()


def _in_order(queue: deque[_Item]) -> Iterator[_Item]:
    """Yield the present items of the queue of callbacks as the log of events has them."""
    assert ordering.log is not None
    for item in taken(queue):
        if not ordering.log.is_due(ordering.CALLBACK):
            queue.appendleft(item)
            return
        ordering.log.happens(ordering.CALLBACK)
        yield item


_due = taken if ordering.log is None else _in_order


def catch_up(serve: Poll) -> None:
    """Make progress until the recorded events up to the present step of the program have happened. Local; blocks.

    Args:
        serve: makes progress of all kinds; returns whether any work was done.
    """
    idleness = idle.Idle()
    while not thread.flow.depth and ordering.log is not None and not ordering.log.caught_up():
        if serve():
            idleness.reset()
        else:
            idleness.pause(serve)


if ordering.log is not None and ordering.log.replaying:
    ordering.log.catch_up = lambda: catch_up(serve_others)


def _ends_as_recorded(wait: Callable[P, None]) -> Callable[P, None]:
    """Decorate `wait_until`: in a replay it ends by its time limit if it did so in the recorded run."""
    log = ordering.log
    if log is None or not log.replaying:
        return wait

    def wait_as_recorded(
        ready: Callable[[], bool], what: str, timeout: float | None = None, source: Source | None = None, **how: bool
    ) -> None:
        if timeout is None or log.is_over() or not log.times_out():
            wait(ready, what, timeout, source, **how)  # type: ignore[arg-type]
            return
        wait(lambda: log.next_of(ordering.TIMEOUT) is not None, what, **how)  # type: ignore[arg-type]
        log.happens(ordering.TIMEOUT)
        raise TimeoutError(f"waited {timeout:g} s for {what}: give a longer timeout=, or None")

    return wait_as_recorded  # type: ignore[return-value]


def _kind_of_wait() -> str:
    return "wait" if _tasks.scheduler is None else "suspended"


@_ends_as_recorded
@tracing.traced(_kind_of_wait, lambda ready, what, *_args, **_kwargs: f"wait for {what}")
def wait_until(
    ready: Callable[[], bool],
    what: str,
    timeout: float | None = None,
    source: Source | None = None,
    *,
    bell: bool = False,
    why: waits.Why | None = None,
) -> None:
    """Make user-level progress until a condition holds; other tasks of this rank run meanwhile. Local; blocks.

    Args:
        ready: returns whether the condition holds; cheap, and makes no user-level progress itself.
        what: description of what is waited for, for messages.
        timeout: seconds; None: no limit.
        source: calls back when the condition begins to hold; None: `ready` is polled.
        bell: whether the condition becomes true on this rank or by a ring of its bell, so that the rank may sleep
            meanwhile.
        why: describes the wait if only acts of other ranks make the condition hold; called on another thread, after a
            second. None: something else may, so that this rank never counts as standing still here.

    Raises:
        ProgressError: called inside a callback while the condition does not hold yet.
        TimeoutError: the condition does not hold after `timeout` seconds.
    """
    if ready():
        return
    refuse_in_callback(what)
    end = None if timeout is None or ordering.repeats() else time.monotonic() + timeout
    left = timeout
    idleness = idle.Idle(bell, end, why)

    holds = False  # asked once only: a signal's `ready` consumes what it has found

    def look() -> bool:
        nonlocal holds
        holds = ready()
        return holds or serve_others()

    try:
        while not (holds or ready()):
            if _tasks.scheduler is not None and (_tasks.suspends is None or _tasks.suspends()):
                # Perhaps since a moment ago, when another rank has started a task here.
                _tasks.scheduler.wait_until(ready, what, left, source, bell, why)
                return
            if serve_others() or (idleness.is_brief and _attention.serve is not None and _attention.serve()):
                idleness.reset()
                continue
            idleness.pause(look)
            if end is not None and (left := end - time.monotonic()) < 0.0:
                if holds or ready():
                    return
                if ordering.log is not None:
                    ordering.log.happens(ordering.TIMEOUT)
                raise TimeoutError(f"waited {timeout:g} s for {what}: give a longer timeout=, or None")
    finally:
        idleness.reset()


def wait_for_room(ready: Callable[[], bool], what: str, why: waits.Why | None = None) -> None:
    """Wait for room to send, which is no step of the program: arguments and errors as for `wait_until`. Local; blocks.

    What arrives meanwhile may come later when the recorded order is repeated, as there may be room then.
    """
    if ordering.log is None:
        wait_until(ready, what, why=why)
        return
    ordering.log.words[ordering.LOOSE] = 1
    try:
        wait_until(ready, what, why=why)
    finally:
        ordering.log.words[ordering.LOOSE] = 0


def refuse_in_callback(what: str) -> None:
    """Raise if this thread runs a callback. Local.

    Raises:
        ProgressError: this thread runs a callback.
    """
    if thread.flow.depth:
        raise ProgressError(
            f"waiting for {what} inside a callback or a remote call could never end, since progress stands still "
            "meanwhile: return a future, or continue in future.then(...)"
        )
