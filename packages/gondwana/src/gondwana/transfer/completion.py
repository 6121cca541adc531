"""Completion of copies: their futures, the notification of the owner of the destination, and access regions.

In an access region many copies, puts and gets are waited for together, without a variable for each.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self, TypeAlias

from gondwana.calls.remote_calls import rpc
from gondwana.errors import UsageError
from gondwana.futures import DONE, Following as Following, Future, Promise, when_all
from gondwana.runtime import interruptions, ordering, progress
from gondwana.runtime.races import reporter
from gondwana.sync.signals import Signal, SignalAt
from gondwana.teams import Team, world
from gondwana.transfer.box import StridedBox

_FEW = 64
"""Operations that a region keeps before it looks for the first time which of them are complete."""


class AccessRegion:
    """A block of a program whose copies, puts and gets are waited for together. Local.

    What the block starts by `gw.copy`, `gw.put`, `gw.get`, `gw.copy_indexed` and the methods of arrays that stand on
    them belongs to the region. Its end waits for operation completion of all that (blocks; user-level progress): then
    the data are where they belong. Operations that were complete when their calls returned, as most on a node, cost
    nothing. This is an access region of GASNet for its implicit operations.

    Only the operations of the thread or task that runs the block belong to it, not those of others meanwhile, nor those
    of callbacks and remote calls that run while the block makes progress. Remote calls and the deliveries of
    notifications (`.remote`) are waited for by their own futures, or by `gw.quiesce`. Regions may be nested: what an
    inner one has not waited for belongs to the outer one too.

    An exception that leaves the block is raised at once, without waiting; the operations continue, and `wait()` and
    `future` of the region still stand for them.

    Args:
        wait: Whether the end of the block waits; else `future` does, or `wait()`.

    Raises:
        ProgressError: inside a callback, if an operation is not complete at the end.

    Example:
        >>> import gondwana as gw
        >>> import numpy as np
        >>> right = (gw.world.rank + 1) % gw.world.size
        >>> there = gw.Segment(gw.world, 800).pointer(right, float)
        >>> with gw.AccessRegion():
        ...     for row in range(10):
        ...         _ = gw.put(np.full(10, float(row)), there + 10 * row)
        >>> gw.get(there + 99).result()
        9.0
    """

    __slots__ = ("_entered", "_limit", "_operations", "_wait")

    def __init__(self, *, wait: bool = True) -> None:
        self._wait = wait
        self._operations: list[Future[None]] = []
        self._limit = _FEW
        self._entered = False

    @property
    def future(self) -> Future[None]:
        """The future of all operations that have been started inside so far. Local; does not wait."""
        return when_all(*self._operations).then(lambda _: None) if self._operations else DONE

    @ordering.counted
    def wait(self) -> None:
        """Wait for all operations that have been started inside so far. Blocks; user-level progress.

        Raises:
            ProgressError: inside a callback, if an operation is not complete; it can be waited for later.
            Exception: the error of the first operation that has one, when all are complete.
        """
        operations = list(self._operations)
        for operation in operations:
            operation.exception()
        waited = set(map(id, operations))
        self._operations = [one for one in self._operations if id(one) not in waited]
        for operation in operations:
            operation.result()

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError("an access region is entered for the second time: make another one by gw.AccessRegion()")
        self._entered = True
        _open.setdefault(_place(), []).append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        place = _place()
        outer = _open[place]
        outer.pop()
        if not outer:
            del _open[place]
        try:
            if kind is None and self._wait:
                self.wait()
        finally:
            if outer:
                outer[-1]._operations += self._operations

    def _add(self, operation: Future[None]) -> None:
        self._operations.append(operation)
        if len(self._operations) > self._limit:
            # Nobody else may keep those that are complete; errors are raised at the end.
            self._operations = [one for one in self._operations if not one.done() or one._error is not None]
            self._limit = max(_FEW, 2 * len(self._operations))


_Place = tuple[int, int, int]
"""A thread, in how many callbacks it is, and which of its tasks runs."""

_open: dict[_Place, list[AccessRegion]] = {}
"""The regions that have been entered, the innermost last."""


def _place() -> _Place:
    return threading.get_ident(), *progress.place()


def started(operation: Future[None]) -> None:
    """Let an operation that has just been started here belong to the innermost region. Local."""
    if _open and (reporter is not None or not operation.done()):  # the race detector hears of each look at it
        regions = _open.get(_place())
        if regions:
            regions[-1]._add(operation)


class Transfer(Following[None]):
    """A copy that has started: the future of its operation completion. Local.

    When it is done, the data are where they belong: visible to the owner of the destination and to whoever reads it
    one-sided, and readable here if the destination is this rank's.

    Attributes:
        source: The future of source completion: when it is done, the source may be changed.
        remote: The future of remote completion: when it is done, the signal of `notify` has been raised, or its
            function has run at the owner of the destination. Without `notify`, the transfer itself.

    Example:
        >>> import gondwana as gw
        >>> import numpy as np
        >>> there = gw.Segment(gw.world, 32).pointer(dtype=float)
        >>> here = np.ones(4)
        >>> transfer = gw.copy(here, there)
        >>> transfer.source.wait()
        >>> here[:] = 0.0
        >>> transfer.wait()
        >>> there.local(4).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    __slots__ = ("_remote", "source")

    def __init__(self, operation: Future[None], source: Future[None], remote: Future[None] | None = None) -> None:
        super().__init__(operation, _nothing)
        self.source = source
        self._remote = remote
        started(self)

    @property
    def remote(self) -> Future[None]:
        """The future of remote completion."""
        return self if self._remote is None else self._remote


def _nothing() -> None:
    return None


class CompleteTransfer(Transfer):
    """A copy that was complete when its call returned. Local."""

    __slots__ = ()

    def done(self) -> bool:
        """Return True. Local; no progress."""
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Return: the copy is complete. Local; no progress."""


COMPLETE = CompleteTransfer(DONE, DONE)
"""The transfer of every copy that was complete when its call returned and notifies nobody, or has done so."""
COMPLETE._done = True


Notify: TypeAlias = Signal | SignalAt | tuple[Any, ...]
"""A signal, or one counter of it, or a function with its arguments as one tuple: `(function, *arguments)`."""


def check_notify(notify: Notify, target: StridedBox) -> None:
    """Raise if nobody can be notified so. Local.

    Raises:
        UsageError: it is neither a signal nor a function with arguments, or the owner is not in the signal's team.
    """
    if isinstance(notify, Signal):
        if target.pointer is None or notify.team is not target.pointer.segment.team:
            rank_in(notify.team, owner(target))
    elif not isinstance(notify, SignalAt) and not (isinstance(notify, tuple) and notify and callable(notify[0])):
        raise UsageError(f"notify={notify!r}: give a gw.Signal, signal.at(...), or a tuple (function, *arguments)")


def notify_after(operation: Future[None], notify: Notify, target: StridedBox) -> Future[None]:
    """Notify the owner when a copy is complete: a signal is raised the moment that this rank knows it. Local.

    Returns:
        The future of the signal having been raised, or of the function having run.
    """
    if isinstance(notify, tuple):
        return operation.then(lambda _: rpc(owner(target), run, *notify))
    return signal_after(operation, counter_of(notify, target).add)


def counter_of(notify: Signal | SignalAt, target: StridedBox) -> SignalAt:
    """Return the counter that is raised when a copy has arrived: of the owner, unless it is named. Local.

    Raises:
        UsageError: the owner is not in the signal's team.
    """
    return notify if isinstance(notify, SignalAt) else notify.at(rank_in(notify.team, owner(target)))


def signal_after(operation: Future[None], add: Callable[[], None]) -> Future[None]:
    """Raise a signal the moment that this rank knows a copy to be complete; return the future of that. Local.

    Args:
        operation: Future of the copy.
        add: Function that raises the signal.
    """
    promise: Promise[None] = Promise()

    def raise_signal(done: Future[None]) -> None:
        problem = done.exception()
        if problem is None:
            try:
                add()
            except Exception as error:
                interruptions.let_pass(error)
                problem = error
        if problem is None:
            promise.set_result(None)
        else:
            promise.set_exception(problem)

    operation.at_once(raise_signal)
    return promise.future


def run(function: Callable[..., Any], *arguments: Any) -> None:
    """Call the function of a notification, at the target; what it returns is of no interest. Local.

    As in `rpc_ff`, an exception is raised here, out of what makes progress: the starter of the copy may never ask.
    """
    try:
        function(*arguments)
    except Exception as error:
        progress.enqueue(functools.partial(_fail, error))


def _fail(error: Exception) -> NoReturn:
    raise error


def owner(target: StridedBox) -> int:
    """Rank in the world of the owner of a destination: this one for private memory."""
    return world.rank if target.owner is None else target.owner


def rank_in(team: Team, world_rank: int) -> int:
    """Rank in a team of a rank of the world. Local.

    Raises:
        UsageError: it is not in the team.
    """
    rank = team.rank_of_world(world_rank)
    if rank is None:
        raise UsageError(
            f"the signal of notify= belongs to {team!r}, which rank {world_rank} of the world, the owner of the "
            "destination, is not in"
        )
    return rank
