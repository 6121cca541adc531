"""Arguments of the upper-case operations of a team: contiguous memory behind the buffer protocol, in C's order.

Elements are sent and combined in the order of their indices, the last one fastest, so that ranks need not agree on a
memory order. A whole buffer in another order is replaced by memory in C's order: see `staged`. A buffer on a device is
replaced by host memory, which is sent, received or combined, whether or not MPI takes device memory, so that sums have
the same bits; a room above teams finds such buffers and copies them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from gondwana.runtime import later, progress
from gondwana.teams.device_memory import DeviceBytes
from gondwana.teams.ops import IN_PLACE, InPlace

Buffer: TypeAlias = Any
"""An ndarray, or any object with the buffer protocol (bytearray, array.array, memoryview), contiguous. For collectives
also an array in the memory of a device of this rank."""

VectorBuffer: TypeAlias = tuple[Buffer, Any]
"""A buffer and the number of elements in it for every rank, in rank order and without gaps."""

_MPI_DTYPES = frozenset("?bhilqBHILQfdgFDG")
"""The dtype characters that MPI has types for."""


def as_buffer(buffer: Buffer, what: str, *, writable: bool = False) -> np.ndarray[Any, Any]:
    """Return the memory of ``buffer`` as an array, without copying. Local.

    Args:
        buffer: an ndarray or any object with the buffer protocol.
        what: the name of the argument, for messages.
        writable: whether the operation writes into it.

    Raises:
        TypeError: it has no buffer protocol, or holds Python objects.
        ValueError: it is not contiguous in C's order, or read-only and to be written.
    """
    try:
        array = buffer if isinstance(buffer, np.ndarray) else np.asarray(memoryview(buffer))
    except TypeError:
        raise TypeError(
            f"{what} is a {type(buffer).__name__}: the upper-case operations move arrays and other buffers; "
            "use the lower-case one for Python objects"
        ) from None
    if array.dtype.hasobject:
        raise TypeError(f"{what} holds Python objects (dtype {array.dtype}): use the lower-case operation")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(
            f"{what} is not contiguous (shape {array.shape}, strides {array.strides}): "
            "send numpy.ascontiguousarray(...) of it, or receive into a contiguous array and copy"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{what} is in Fortran's order (shape {array.shape}, strides {array.strides}), and elements travel in C's: "
            f"give its transpose, which has the same memory in C's order, or numpy.ascontiguousarray(...) of it"
        )
    if writable and not array.flags.writeable:
        raise ValueError(f"{what} is read-only, but the operation writes into it: give a writable array or a copy")
    return array


def as_message(buffer: Buffer, what: str, *, writable: bool = False) -> np.ndarray[Any, Any]:
    """Return the memory of ``buffer`` with a dtype that MPI can move: its own, or bytes. Local."""
    if isinstance(buffer, DeviceBytes):
        return cast("np.ndarray[Any, Any]", buffer)  # MPI takes them as they are
    if type(buffer) is np.ndarray and (buffer.flags.carray if writable else buffer.flags.c_contiguous):
        dtype = buffer.dtype
        if dtype.char in _MPI_DTYPES and dtype.isnative:
            return buffer  # most are such, and the checks below take four times as long
    array = as_buffer(buffer, what, writable=writable)
    if array.dtype.isnative and array.dtype.char in _MPI_DTYPES:
        return array
    return array.reshape(-1).view(np.uint8)


def as_operand(buffer: Buffer, what: str, *, writable: bool = False) -> np.ndarray[Any, Any]:
    """Return the memory of ``buffer``, whose elements MPI can combine. Local.

    Raises:
        TypeError: MPI has no type for them, or as for `as_buffer`.
        ValueError: as for `as_buffer`.
    """
    message = as_message(buffer, what, writable=writable)
    if message is not buffer and isinstance(buffer, np.ndarray) and message.dtype != buffer.dtype:
        raise TypeError(f"MPI has no reductions of dtype {buffer.dtype}: convert the array first")
    return message


def is_in_place(buffer: Any) -> bool:
    """Return whether ``buffer`` is the constant IN_PLACE, ours or mpi4py's. Local."""
    return isinstance(buffer, InPlace) or type(buffer).__name__ == "InPlaceType"


def as_contribution(buffer: Buffer | InPlace, what: str, *, writable: bool = False) -> np.ndarray[Any, Any] | InPlace:
    """Return ``as_message`` of a buffer, or ``IN_PLACE``. Local."""
    return IN_PLACE if is_in_place(buffer) else as_message(buffer, what, writable=writable)


class Staging(Protocol):
    """Host memory that takes the place of a buffer.

    Attributes:
        memory: host memory with the shape and dtype of the buffer, contiguous.
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
        array: contiguous memory.
        staging: owner of the memory, if it stands for a buffer on a device.
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
    """Memory that MPI gets in place of a buffer, and views of it."""

    staging: Staging | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.staging = getattr(source, "staging", None)


_ON_HOST = frozenset((np.ndarray, Staged, InPlace, type(None), int, float, bool, bytearray, memoryview))
"""Types of objects that never lie on a device."""

_FIND = "gondwana.arrays.device_buffers:staging_of"
"""The function that returns host memory for a buffer on a device, None for other objects."""


def staged(buffer: Buffer, *, load: bool = True, whole: bool = True) -> Buffer:
    """Return host memory in C's order in place of a buffer that has another, or lies on a device. Local; blocks.

    Other objects are returned unchanged; among them arrays with gaps, which `as_buffer` refuses.

    Args:
        buffer: argument of a collective.
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

    Data that are received in it are copied to the array by `deliver` or `delivering`.
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
    """Copy data that were received in place of a buffer to the buffer. Blocking; user-level progress.

    Args:
        message: the memory that MPI got; None if nothing was received.
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
        self.received = handle
        self._staging = staging
        self._stored: Callable[[], bool] | None = None

    def Test(self) -> bool:  # noqa: N802 - as of MPI's requests
        """Return whether both are complete."""
        if self._stored is None:
            if not self.received.Test():
                return False
            self._stored = self._staging.store()
        progress.advance()
        return self._stored()


def _staging_of(message: Any) -> Staging | None:
    if type(message) is np.ndarray:
        return None
    array = message[0] if isinstance(message, tuple | list) else message
    return array.staging if isinstance(array, Staged) else None
