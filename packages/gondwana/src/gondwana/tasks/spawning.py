"""Functions that run in tasks on other ranks: on a given one, on every one, or on the least busy one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from gondwana.calls import endpoints, names
from gondwana.futures import Future
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import CALLS, MAIN
from gondwana.tasks.remote_channel import RemoteChannel
from gondwana.tasks.task import Task
from gondwana.teams import Team, world

T = TypeVar("T")
Ticket = tuple[int, int]

_numbers = itertools.count(1)
_running: dict[Ticket, Task[Any]] = {}
"""Tasks that other ranks, or this one, have spawned here."""


class Spawned(endpoints.Answer[T]):
    """The future of a function that runs in a task on some rank. Local; see `spawn_at`.

    Attributes:
        rank: world rank that runs it.
    """

    __slots__ = ("_ticket", "rank")

    def __init__(self, rank: int, function: Callable[..., T], ticket: Ticket) -> None:
        super().__init__(rank, function)
        self.rank, self._ticket = rank, ticket

    def cancel(self) -> bool:
        """Ask the rank to cancel the task: see `gw.Task.cancel`. Local; does not wait.

        The future then gets the error `gw.TaskCancelled`, or the result if the task ends before.

        Returns:
            False if the future is done, else True.
        """
        if self.done():
            return False
        found = endpoints.request(self.rank, world, _cancel, (self._ticket,), {})
        found.then(lambda found: found or self.cancel())  # between nodes it may arrive before the task
        return True


def spawn_at(rank: int, function: Callable[..., T], *args: Any, team: Team = world, **kwargs: Any) -> Spawned[T]:
    """Run `function(*args, **kwargs)` in a task on a rank, and return the future of its result. Local.

    Unlike the function of `gw.rpc`, it may wait, communicate and spawn others: it suspends its task meanwhile, and the
    rank serves others. It runs when the program of that rank waits or makes progress; the end of the program counts as
    waiting. An error is raised by `result()` and `wait()`, with the traceback of that rank as a note.

    Args:
        rank: rank of `team` that runs it.
        function: as for `gw.rpc`.
        args: any objects that can be pickled.
        team: the team of `rank`.
        kwargs: likewise.

    Raises:
        UsageError: the rank is not in the team.
        TypeError: an argument cannot be pickled.

    Example:
        >>> import gondwana as gw
        >>> def fib(n):
        ...     return n if n < 2 else gw.spawn(fib, n - 1).result() + fib(n - 2)
        >>> gw.spawn_at(0, fib, 6).result()
        8
    """
    return _start(endpoints.world_rank(team, rank), function, args, kwargs)


def _start(rank: int, function: Callable[..., Any], args: Any, kwargs: Any) -> Spawned[Any]:
    ticket = world.rank, next(_numbers)
    spawned: Spawned[Any] = Spawned(rank, function, ticket)
    endpoints.request_for(spawned, rank, _run, (ticket, names.reference(function), args, kwargs), {})
    return spawned


def _run(ticket: Ticket, function: Any, args: Any, kwargs: Any) -> Task[Any]:
    """Begin a task for another rank, which gets the result."""
    if reporter is not None:  # tasks are a part of the program
        reporter.add(Kind.JOIN, CALLS, stream=MAIN)
    task = _running[ticket] = Task(names.referent(function), *args, **kwargs)
    task.at_once(lambda _: _forget(ticket))
    return task.schedule()


def _forget(ticket: Ticket) -> None:
    del _running[ticket]


def _cancel(ticket: Ticket) -> bool:
    """Cancel a task; return whether it is known here."""
    task = _running.get(ticket)
    return task is not None and task.cancel()


# -- on the least busy rank ----------------------------------------------------------------------------------------


class _Places:
    """The load of other ranks as this one knows it: for each the number of its spawned tasks that have not ended."""

    def __init__(self) -> None:
        others = [rank for rank in range(world.size) if rank != world.rank]
        self._idle = list(reversed(others or [world.rank]))
        self._busy = dict.fromkeys(self._idle, 0)

    def choose(self) -> int:
        """Return the idle rank that was busy last, since it is awake; if all are busy, the one with fewest tasks."""
        rank = self._idle.pop() if self._idle else min(self._busy, key=self._busy.__getitem__)
        self._busy[rank] += 1
        return rank

    def finished(self, rank: int) -> None:
        """Take note that a task has ended."""
        self._busy[rank] -= 1
        if self._busy[rank] == 0:
            self._idle.append(rank)


_places: _Places | None = None


def spawn(function: Callable[..., T], *args: Any, **kwargs: Any) -> Spawned[T]:
    """Run a function in a task on the least busy rank, and return the future of its result. Local.

    The rank is one of the others with the fewest tasks spawned by this rank that have not ended; among idle ones it is
    the one that ended a task last, which is still awake. With one rank it is that rank. See `spawn_at` for the rest.

    Args:
        function: as for `gw.rpc`.
        args: any objects that can be pickled.
        kwargs: likewise.

    Raises:
        TypeError: an argument cannot be pickled.

    Example:
        >>> import gondwana as gw
        >>> gw.spawn(pow, 2, 10).result()
        1024
    """
    global _places
    if _places is None:
        _places = _Places()
    places = _places
    rank = places.choose()
    try:
        spawned = _start(rank, function, args, kwargs)
    except BaseException:
        places.finished(rank)
        raise
    spawned.at_once(lambda _: places.finished(rank))
    return spawned


def everywhere(function: Callable[..., T], *args: Any, team: Team = world, **kwargs: Any) -> list[T]:
    """Run a function in a task on every rank of a team and return all results, by rank. Local; blocks.

    Only the calling rank starts it; if all ranks call it, each rank runs it once for each of them.

    Args:
        function: as for `gw.rpc`.
        args: any objects that can be pickled.
        team: the ranks that run it.
        kwargs: likewise.

    Raises:
        Exception: the exception on the lowest rank where the function fails, raised when all have ended.

    Example:
        >>> import gondwana as gw
        >>> gw.everywhere(lambda: gw.world.rank) == list(range(gw.world.size))
        True
    """
    spawned = [spawn_at(rank, function, *args, team=team, **kwargs) for rank in range(team.size)]
    for one in spawned:
        one.exception()
    return [one.result() for one in spawned]


def fetch(value: Any) -> Any:
    """Return the content of a future or a channel, and any other value itself. Blocks; user-level progress.

    Args:
        value: a future (its result), a remote channel (its next item, which stays there), a list or tuple (a list of
            the contents of its items), or anything else.

    Example:
        >>> import gondwana as gw
        >>> gw.fetch([gw.spawn(abs, -1), gw.spawn(abs, -2), 3])
        [1, 2, 3]
    """
    if isinstance(value, Future):
        return value.result()
    if isinstance(value, RemoteChannel):
        return value.peek()
    if isinstance(value, list | tuple):
        return [fetch(item) for item in value]
    return value
