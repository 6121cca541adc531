"""Operations that have started and complete later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gondwana.runtime import ordering, progress
from gondwana.runtime.races.reporting import begins, finishes
from gondwana.runtime.tracing import Route, counted
from gondwana.runtime.watching import waits
from gondwana.teams.serial import SerialRequest

_POLLS = 20
"""Polls in a row: some MPIs look at the network in every eighth only, and progress takes longer than all of them."""
_abandoned: list[Any] = []
"""Requests whose wait an exception has ended, such as KeyboardInterrupt: they keep the buffers that MPI still uses."""


def size_of(buffers: Iterable[Any]) -> int:
    """Return the bytes of the arrays among buffers. Local."""
    return sum(getattr(buffer, "nbytes", 0) for buffer in buffers)


def complete(handle: Any, why: waits.Why) -> None:
    """Wait until an operation of MPI has completed whose handle only the caller has. Blocking; user-level progress.

    Args:
        handle: mpi4py's request.
        why: describes what is waited for.
    """
    try:
        _wait(handle, why)
    except BaseException:
        _abandoned.append(handle)
        raise


def _wait(handle: Any, why: waits.Why) -> None:
    if isinstance(handle, SerialRequest):
        handle.Wait()
        return
    test = handle.Test

    def done() -> bool:
        for _ in range(_POLLS):  # noqa: SIM110 - `any` takes twice as long
            if test():
                return True
        return False

    progress.wait_until(done, "an operation of MPI", why=why)


class Request:
    """An operation that has started. Local.

    Until it has completed, the buffers that it was given belong to it: do not write to a send buffer, nor read a
    receive buffer. The request keeps them alive.

    Example:
        >>> import numpy as np
        >>> import gondwana as gw
        >>> total = np.empty(1)
        >>> request = gw.world.Iallreduce(np.ones(1), total)
        >>> float(request.result()[0]) == gw.world.size
        True
    """

    __slots__ = ("_buffers", "_done", "_message", "_value", "handle")

    def __init__(
        self, handle: Any, value: Any = None, buffers: tuple[Any, ...] = (), message: waits.Message | None = None
    ) -> None:
        self.handle = handle
        self._message = message
        self._value = value
        self._buffers = buffers
        self._done = False

    def test(self) -> bool:
        """Return whether the operation has completed, without waiting. Local; makes MPI's progress.

        With a buffer on a device it makes internal progress, too; call `gw.progress()` between one test and the next.
        """
        if not self._done and self.handle.Test():
            self._finish()
        return self._done

    @ordering.counted
    def wait(self) -> None:
        """Wait until the operation has completed. Blocking; user-level progress.

        Raises:
            ProgressError: called inside a callback before it has completed.
        """
        if not self._done:
            _wait(self.handle, self._why)
            self._finish()

    def result(self) -> Any:
        """Wait, then return what was received: the receive buffer, or None where nothing is received. Blocking."""
        self.wait()
        return self._value

    @finishes
    def _finish(self) -> None:
        self._done = True
        self._buffers = ()

    def _why(self) -> waits.Wait:
        nbytes = size_of(self._buffers)
        if self._message is None:
            return waits.Wait("for an operation of MPI", waits.COLLECTIVE, nbytes=nbytes)
        return waits.of_message(*self._message, nbytes)


class PersistentRequest(Request):
    """A send or receive that is prepared once and started many times. Local.

    Call ``start``, then ``wait``, and ``start`` again: MPI sets up the transfer only once. Call ``free`` when it is no
    longer needed.
    """

    __slots__ = ("_begun", "route")

    def __init__(
        self,
        handle: Any,
        value: Any = None,
        buffers: tuple[Any, ...] = (),
        message: waits.Message | None = None,
        route: Route | None = None,
    ) -> None:
        super().__init__(handle, value, buffers, message)
        self.route = route
        self._done = True

    @begins
    @counted("message", lambda _, self: self.route, "start a request")
    def start(self) -> None:
        """Start the operation. Local."""
        if not self._done:
            raise RuntimeError("this request is still under way: wait for it before starting it again")
        self._done = False
        self.handle.Start()

    def free(self) -> None:
        """Give the request back to MPI, after waiting for it. Local."""
        self.wait()
        self.handle.Free()

    @finishes
    def _finish(self) -> None:
        self._done = True


def start_all(requests: Iterable[PersistentRequest]) -> None:
    """Start every one of ``requests``. Local."""
    for request in requests:
        request.start()


def wait_all(requests: Iterable[Request]) -> None:
    """Wait until every one of ``requests`` has completed. Blocking."""
    for request in requests:
        request.wait()
