"""What a copy returns: futures of its three completions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gondwana.futures import DONE, Future

T = TypeVar("T")


class Following(Future[T]):
    """The future of another operation, with a result of its own. Local.

    Args:
        operation: what must be complete.
        value: returns the result then.
    """

    __slots__ = ("_operation", "_result")

    def __init__(self, operation: Future[None], value: Callable[[], T]) -> None:
        super().__init__()
        self._operation, self._result = operation, value

    def done(self) -> bool:
        """Tell whether the operation is complete. Local; no progress."""
        if not self._done and self._operation.done():
            error = self._operation.exception()
            self._settle(None if error else self._result(), error)
        return self._done

    def wait(self, timeout: float | None = None) -> None:
        """Return when the operation is complete. Blocks; user-level progress. See `Future.wait`."""
        if not self.done():
            self._operation.wait(timeout)
            self.done()

    def add_done_callback(self, call: Callable[[Future[T]], None]) -> None:
        """Have `call(future)` run when the operation is complete: at once, or inside progress. Local."""
        super().add_done_callback(call)
        if not self._done:
            self._operation.add_done_callback(self._follow)

    def _follow(self, _: Future[None]) -> None:
        self.done()


class Transfer(Following[None]):
    """A copy that has started: the future of its operation completion. Local.

    When it is done, the data are where they belong: visible to the owner of the destination and to whoever reads it
    one-sided, and readable here if the destination is this rank's.

    Attributes:
        source: the future of source completion: when it is done, the source may be changed.
        remote: the future of remote completion: when it is done, the signal of `notify` has been raised, or its
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

    @property
    def remote(self) -> Future[None]:
        """The future of remote completion."""
        return self if self._remote is None else self._remote


def _nothing() -> None:
    return None


COMPLETE = Transfer(DONE, DONE)
"""The transfer of every copy that was complete when its call returned and has nobody to tell."""
COMPLETE.wait()
