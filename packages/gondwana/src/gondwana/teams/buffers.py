"""Arguments of the upper-case operations of a team: contiguous memory behind the buffer protocol, in C's order.

Elements are sent and combined in the order of their indices, the last one fastest, so that ranks need not agree on a
memory order. Where a buffer is one thing, memory in C's order takes the place of another (`staging.staged`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

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


def are_plain(send: Any, recv: Any) -> bool:
    """Return whether two buffers are contiguous arrays of one size and of a dtype that MPI has, the second writable."""
    return (
        type(send) is np.ndarray
        and type(recv) is np.ndarray
        and (dtype := send.dtype) is recv.dtype
        and send.size == recv.size
        and dtype.char in _MPI_DTYPES
        and dtype.isnative
        and send.flags.c_contiguous
        and recv.flags.carray
    )


def is_in_place(buffer: Any) -> bool:
    """Return whether ``buffer`` is the constant IN_PLACE, ours or mpi4py's. Local."""
    return isinstance(buffer, InPlace) or type(buffer).__name__ == "InPlaceType"


def as_contribution(buffer: Buffer | InPlace, what: str, *, writable: bool = False) -> np.ndarray[Any, Any] | InPlace:
    """Return ``as_message`` of a buffer, or ``IN_PLACE``. Local."""
    return IN_PLACE if is_in_place(buffer) else as_message(buffer, what, writable=writable)
