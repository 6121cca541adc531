"""Progress: whatever a rank does for others happens inside calls, at one of three levels.

- *none*: queries and arithmetic.
- *internal*: data and answers move, user code does not run. `advance`; what starting an operation does.
- *user*: internal progress, then callbacks and remote procedure calls run. `progress`, and everything that waits:
  futures, signals, barriers, leaving the job.

User code that progress runs (a callback) is restricted: it may start operations but not wait, since what it waits for
may need the very progress that it holds up. Waiting there raises `ProgressError`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable

from gondwana.errors import GondwanaError
from gondwana.runtime import cores

Poll = Callable[[], bool]
"""Does whatever work there is, and returns whether there was any."""

_IDLE_POLLS = 50
"""Failed polls before a waiting rank yields the processor; it yields at once if ranks outnumber the cores."""

_YIELDS = 200
"""Yields after which a waiting rank sleeps between two polls if ranks outnumber the cores."""
_NAP = 2e-5
"""How long it sleeps [s]; waking up takes at least as long again."""

_movers: list[Poll] = []
_accounts: list[Callable[[], str | None]] = []
_servers: list[Poll] = []
_queue: deque[Callable[[], object]] = deque()
_moving = threading.Lock()


class _Thread(threading.local):
    depth = 0


_thread = _Thread()


class ProgressError(GondwanaError, RuntimeError):
    """A blocking call was made where it could never return."""


def register(move: Poll, serve: Poll | None = None) -> None:
    """Register a source of work that every later call with progress polls. Local.

    Args:
        move: internal progress: it moves data and completes futures, and runs no user code.
        serve: user-level progress: it runs user code, inside `callback()`.
    """
    _movers.append(move)
    if serve is not None:
        _servers.append(serve)


def account_for(unfinished: Callable[[], str | None]) -> None:
    """Register a function that describes what was never completed, called when all ranks have finished. Local."""
    _accounts.append(unfinished)


def unfinished() -> list[str]:
    """Return descriptions of what this rank has started and not completed. Local."""
    return [text for text in (account() for account in _accounts) if text]


def enqueue(call: Callable[[], object]) -> None:
    """Run `call` as a callback at the next user-level progress. Local."""
    _queue.append(call)


def in_callback() -> bool:
    """Return whether this thread runs a callback, where waiting is not allowed. Local; no progress."""
    return _thread.depth > 0


class _Callback:
    def __enter__(self) -> None:
        _thread.depth += 1

    def __exit__(self, *exception: object) -> None:
        _thread.depth -= 1


_callback = _Callback()


def callback() -> _Callback:
    """Return a context manager: what runs inside its `with` statement counts as a callback. Local."""
    return _callback


def advance() -> bool:
    """Make internal progress: move data, run no user code. Local.

    Returns:
        Whether anything was done.
    """
    if not _moving.acquire(False):
        return False  # another thread makes progress
    try:
        done = False
        for move in _movers:
            done |= move()
        return done
    finally:
        _moving.release()


def progress() -> bool:
    """Make user-level progress: move data, then run the callbacks and calls that have arrived. Local.

    Call it now and then in long computations, so that other ranks need not wait. Inside a callback it makes internal
    progress only.

    Returns:
        Whether anything was done.

    Example:
        >>> import gondwana as gw
        >>> gw.progress()
        False
    """
    done = advance()
    if _thread.depth:
        return done
    for serve in _servers:
        done |= serve()
    for _ in range(len(_queue)):
        done = True
        call = _queue.popleft()
        with callback():
            call()
    return done


def wait_until(ready: Callable[[], bool], what: str, timeout: float | None = None) -> None:
    """Make user-level progress until a condition holds. Local; blocks.

    Args:
        ready: returns whether it holds; cheap, and makes no user-level progress itself.
        what: what is waited for, for messages.
        timeout: seconds; None: no limit.

    Raises:
        ProgressError: called inside a callback when the condition does not hold yet.
        TimeoutError: it does not hold after `timeout` seconds.
    """
    if ready():
        return
    refuse_in_callback(what)
    end = None if timeout is None else time.monotonic() + timeout
    idle, crowded = 0, cores.crowded()
    while not ready():
        if progress():
            idle = 0
            continue
        idle += 1
        if crowded and idle > _YIELDS:
            time.sleep(_NAP)  # the rank that is waited for, or any other, gets the core for longer than a poll takes
        elif crowded or idle > _IDLE_POLLS:
            os.sched_yield()
        if end is not None and time.monotonic() > end:
            raise TimeoutError(f"waited {timeout:g} s for {what}: give a longer timeout=, or None")


def refuse_in_callback(what: str) -> None:
    """Raise if this thread runs a callback. Local.

    Raises:
        ProgressError: this thread runs a callback.
    """
    if _thread.depth:
        raise ProgressError(
            f"waiting for {what} inside a callback or a remote call could never end, since progress stands still "
            "meanwhile: return a future, or continue in future.then(...)"
        )
