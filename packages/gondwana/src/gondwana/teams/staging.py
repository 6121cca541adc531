"""Buffers in whose place other memory is sent, received or combined.

For buffers on devices host memory is, since MPI is never given device memory; what finds such buffers, and copies,
stands above teams. For arrays in Fortran's order memory in C's is: elements have the order of their
indices on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gondwana.runtime import later, progress
from gondwana.teams.buffers import Buffer, VectorBuffer
from gondwana.teams.ops import InPlace


class Staging(Protocol):
    """Host memory that takes the place of a buffer.

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


class _InOrder:
    """Memory in C's order that takes the place of an array in another.

    Args:
        array: contiguous.
        staging: whose memory the array is, if it stands for a buffer on a device.
    """

    def __init__(self, array: np.ndarray[Any, Any], staging: Staging | None = None) -> None:
        self._array, self._staging = array, staging
        self.memory = np.empty(array.shape, array.dtype)
        self.readonly = not array.flags.writeable if staging is None else staging.readonly

    def load(self) -> None:
        """Copy the elements to the memory. Local."""
        if self._staging is not None:
            self._staging.load()
        np.copyto(self.memory, self._array)

    def store(self) -> Callable[[], bool]:
        """Copy the memory to the elements; return a function that returns whether they are there. Local."""
        np.copyto(self._array, self.memory)
        return _at_once if self._staging is None else self._staging.store()


def _at_once() -> bool:
    return True


class Staged(np.ndarray[Any, Any]):
    """Memory in place of a buffer, and views of it: what MPI is given."""

    staging: Staging | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.staging = getattr(source, "staging", None)


_ON_HOST = frozenset((np.ndarray, Staged, InPlace, type(None), int, float, bool, bytearray, memoryview))
"""Types of which there is no need to ask whether they lie on a device."""

_FIND = "gondwana.arrays.device_buffers:staging_of"
"""The function that returns host memory for a buffer on a device, None for other objects."""


def staged(buffer: Buffer, *, load: bool = True, whole: bool = True) -> Buffer:
    """Return host memory in C's order in place of a buffer that has another, or lies on a device. Local; blocks.

    Other objects are returned unchanged; among them arrays with gaps, which `as_buffer` refuses.

    Args:
        buffer: as a collective is given it.
        load: whether its contents are needed.
        whole: whether the buffer is one thing. One that consists of parts of the ranks keeps its order: along which
            axis they would be parts is not known, so `as_buffer` refuses it.
    """
    if type(buffer) is np.ndarray and buffer.flags.c_contiguous:
        return buffer  # most are such
    staging: Staging | None = None if type(buffer) in _ON_HOST else later.find(_FIND)(buffer)
    if whole:
        staging = _in_order(buffer if staging is None else staging.memory, staging)
    return buffer if staging is None else _standing_in(staging, load)


def in_order(buffer: Buffer) -> Buffer:
    """Return a copy in C's order in place of an array in Fortran's; other objects unchanged. Local.

    What is received in its place comes to the array by `deliver` or `delivering`.
    """
    staging = _in_order(buffer, None)
    return buffer if staging is None else _standing_in(staging, load=True)


def _in_order(array: Any, staging: Staging | None) -> Staging | None:
    if isinstance(array, np.ndarray) and not array.flags.c_contiguous and array.flags.f_contiguous:
        return _InOrder(array, staging)
    return staging


def _standing_in(staging: Staging, load: bool) -> Staged:
    if load:
        staging.load()
    host = staging.memory.view(Staged)
    host.staging = staging
    host.flags.writeable = not staging.readonly
    return host


def staged_parts(given: VectorBuffer | None) -> Any:
    """Return `staged` of the buffer in a pair of a buffer and counts; other objects unchanged. Local; blocks."""
    return (staged(given[0], whole=False), given[1]) if isinstance(given, tuple | list) and len(given) == 2 else given


def deliver(message: Any) -> None:
    """Copy what was received in place of a buffer to that. Blocking; user-level progress.

    Args:
        message: what MPI was given; None if nothing was received.
    """
    staging = _staging_of(message)
    if staging is not None:
        stored = staging.store()
        if not stored():
            progress.wait_until(stored, "a copy to a device")


def delivering(handle: Any, message: Any) -> Any:
    """Return the handle of an operation that is complete when its message has been delivered as well. Local."""
    staging = _staging_of(message)
    return handle if staging is None else _Delivery(handle, staging)


class _Delivery:
    """A request of MPI, and then a copy to the buffer."""

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
