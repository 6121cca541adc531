"""Access regions: many copies, puts and gets that are waited for together, without a variable for each."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from gondwana.futures import DONE, Future, when_all
from gondwana.runtime import progress

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
        wait: whether the end of the block waits; else `future` does, or `wait()`.

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

    def wait(self) -> None:
        """Wait for all operations that have been started inside so far. Blocks; user-level progress.

        Raises:
            ProgressError: inside a callback, if an operation is not complete; it can be waited for later.
            Exception: the error of the first operation that has one, when all are complete.
        """
        operations = list(self._operations)
        for operation in operations:
            operation.wait()
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
            self._operations = [one for one in self._operations if not one.done() or one.exception() is not None]
            self._limit = max(_FEW, 2 * len(self._operations))


_Place = tuple[int, int, int]
"""A thread, in how many callbacks it is, and which of its tasks runs."""

_open: dict[_Place, list[AccessRegion]] = {}
"""The regions that have been entered, the innermost last."""


def _place() -> _Place:
    return threading.get_ident(), *progress.place()


def started(operation: Future[None]) -> None:
    """Let an operation that has just been started here belong to the innermost region. Local."""
    if _open and not operation.done():
        regions = _open.get(_place())
        if regions:
            regions[-1]._add(operation)
