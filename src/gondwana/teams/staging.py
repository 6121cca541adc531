"""Buffers of collectives that lie on devices: host memory takes their place, since MPI is never given device memory.

What finds such buffers, and copies, stands above teams and registers here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gondwana.runtime import progress
from gondwana.teams.buffers import Buffer, VectorBuffer
from gondwana.teams.ops import InPlace


class Staging(Protocol):
    """Host memory that takes the place of a buffer on a device.

    Attributes:
        memory: of the shape and dtype of the buffer, contiguous.
        readonly: whether the buffer must not be written.
    """

    memory: np.ndarray[Any, Any]
    readonly: bool

    def load(self) -> None:
        """Copy the buffer to the host. Local; blocks."""

    def store(self) -> Callable[[], bool]:
        """Start to copy the host memory to the buffer; return a function that returns whether that is done. Local."""


class Staged(np.ndarray[Any, Any]):
    """Host memory in place of a buffer on a device, and views of it: what MPI is given."""

    staging: Staging | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.staging = getattr(source, "staging", None)


_ON_HOST = frozenset((np.ndarray, Staged, InPlace, type(None), int, float, bool, bytearray, memoryview))
"""Types of which there is no need to ask."""

_find: list[Callable[[Buffer], Staging | None]] = []


def stage_by(find: Callable[[Buffer], Staging | None]) -> None:
    """Register a function that returns host memory for a buffer on a device, None for other objects. Local."""
    _find.append(find)


def staged(buffer: Buffer, *, load: bool = True) -> Buffer:
    """Return host memory in place of a buffer on a device; other objects unchanged. Local; blocks to load.

    Args:
        buffer: as a collective is given it.
        load: whether its contents are needed.
    """
    staging = None if type(buffer) in _ON_HOST or not _find else _find[0](buffer)
    if staging is None:
        return buffer
    if load:
        staging.load()
    host = staging.memory.view(Staged)
    host.staging = staging
    host.flags.writeable = not staging.readonly
    return host


def staged_parts(given: VectorBuffer | None) -> Any:
    """Return `staged` of the buffer in a pair of a buffer and counts; other objects unchanged. Local; blocks."""
    return (staged(given[0]), given[1]) if isinstance(given, tuple | list) and len(given) == 2 else given


def deliver(message: Any) -> None:
    """Copy what was received in place of a buffer on a device to the device. Blocking; user-level progress.

    Args:
        message: what MPI was given; None if nothing was received.
    """
    staging = _staging_of(message)
    if staging is not None:
        progress.wait_until(staging.store(), "a copy to a device")


def delivering(handle: Any, message: Any) -> Any:
    """Return the handle of an operation that is complete when its message has been delivered as well. Local."""
    staging = _staging_of(message)
    return handle if staging is None else _Delivery(handle, staging)


class _Delivery:
    """A request of MPI, and then a copy to a device."""

    def __init__(self, handle: Any, staging: Staging) -> None:
        self._handle = handle
        self._staging = staging
        self._stored: Callable[[], bool] | None = None

    def Test(self) -> bool:  # noqa: N802 - as of MPI's requests
        """Return whether both are complete."""
        if self._stored is None:
            if not self._handle.Test():
                return False
            self._stored = self._staging.store()
        progress.advance()
        return self._stored()


def _staging_of(message: Any) -> Staging | None:
    if type(message) is np.ndarray:
        return None
    array = message[0] if isinstance(message, tuple | list) else message
    return array.staging if isinstance(array, Staged) else None
