"""`put`, `get` and `copy` in compiled code: loads, stores and memcpy on a node, MPI's one-sided operations between.

All of them block until the operation is complete: what was put is in the memory of the target, what was got is here.
Only a put with `notify=` to another node returns before: data and signal leave in one message (see `sync.delivery`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload
from numba.np import numpy_support

from gondwana.compiler import timing_overloads as recording
from gondwana.compiler.inlining import INLINED, called, inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.mpi.mpi_overloads import completed_call, mpi_constant
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.buffers import ROOM, address_of, check_array, contiguous_count, is_array, room_on_stack
from gondwana.compiler.types.handle_types import handle_word
from gondwana.memory.pointer_overloads import (
    check_bytes,
    element,
    element_size,
    element_slot,
    is_pointer,
    near,
    read_element,
    record_address,
    write_element,
    write_record,
)
from gondwana.sync import signals
from gondwana.sync.delivery_overloads import counter_of, is_notice, send_nothing, send_put, spans_nodes
from gondwana.transfer import verbs

_WORD = 8
_PIECE = 2**30
"""Bytes that one operation moves; MPI counts with 32 bits."""

_mpi_put = completed_call("Put")
_mpi_get = completed_call("Get")
_byte = mpi_constant("uint8")


@inlined
def _window(table: int) -> int:
    """The handle of the MPI window of a segment."""
    window = load_word(table + _WORD)
    if window == 0:
        raise ValueError("put, get or copy: compiled code does not reach this memory, which is on a device or closed")
    return window  # type: ignore[no-any-return]


def _far(move: Any) -> Any:
    """A compiled function that moves bytes to or from another node by `move`, and waits until they are there."""

    @called  # not worth being inlined
    def run(table: int, rank: int, offset: int, address: int, nbytes: int) -> None:
        window = _window(table)
        done = 0
        while done < nbytes:
            count = min(nbytes - done, _PIECE)
            move(address + done, count, _byte(), rank, offset + done, count, _byte(), window)
            done += count

    return run


_put_far, _get_far = _far(_mpi_put), _far(_mpi_get)


@inlined
def _ranks(ptr: Any) -> int:
    """The address of the ranks in the world of the team of a pointer."""
    return load_word(handle_word(ptr, 0) + 3 * _WORD)  # type: ignore[no-any-return]


@inlined
def _wrote(ptr: Any, nbytes: int) -> None:
    """Record that bytes are written to where a pointer points."""
    recording.sent(_ranks(ptr), handle_word(ptr, 1), nbytes)
    reports.report(reports.WRITE, handle_word(ptr, 0), handle_word(ptr, 1), handle_word(ptr, 2), nbytes)


@inlined
def _has_read(ptr: Any, nbytes: int) -> None:
    """Record that bytes are read from where a pointer points."""
    recording.fetched(_ranks(ptr), handle_word(ptr, 1), nbytes)
    reports.report(reports.READ, handle_word(ptr, 0), handle_word(ptr, 1), handle_word(ptr, 2), nbytes)


@inlined
def put_bytes(ptr: Any, address: int, nbytes: int) -> None:
    """Copy bytes from here to where a pointer points."""
    check_bytes(ptr, nbytes)
    target = near(ptr)
    _wrote(ptr, nbytes)
    if target != 0:
        _move(target, address, nbytes)
    else:
        _put_far(handle_word(ptr, 0), handle_word(ptr, 1), handle_word(ptr, 2), address, nbytes)


@inlined
def get_bytes(ptr: Any, address: int, nbytes: int) -> None:
    """Copy bytes from where a pointer points to here."""
    check_bytes(ptr, nbytes)
    source = near(ptr)
    _has_read(ptr, nbytes)
    if source != 0:
        _move(address, source, nbytes)
    else:
        _get_far(handle_word(ptr, 0), handle_word(ptr, 1), handle_word(ptr, 2), address, nbytes)


@called  # not worth being inlined
def _relay(src: Any, dst: Any, nbytes: int) -> None:
    """Copy from another node to another node, through the stack."""
    room = room_on_stack()
    _has_read(src, nbytes)
    _wrote(dst, nbytes)
    done = 0
    while done < nbytes:
        count = min(nbytes - done, ROOM)
        _get_far(handle_word(src, 0), handle_word(src, 1), handle_word(src, 2) + done, room, count)
        _put_far(handle_word(dst, 0), handle_word(dst, 1), handle_word(dst, 2) + done, room, count)
        done += count


@overload(verbs.put, jit_options=INLINED)
def _put(value: Any, ptr: Any, notify: Any = None) -> Any:
    _check_pointer(ptr, "ptr")
    if not _is_none(notify) and not is_notice(notify):
        raise TypingError(f"put with notify={notify}: in compiled code give a signal, or signal.at(rank, channel)")
    if is_array(value):
        _check_alike(value, ptr, "value")
        return _put_array if _is_none(notify) else _put_array_with_signal(notify)
    kind = types.unliteral(value)
    if isinstance(element(ptr), types.Record):
        if isinstance(kind, types.BaseTuple):
            return _put_tuple if _is_none(notify) else _put_one_with_signal(notify, write_record)
        return _put_record if _is_none(notify) else _put_record_with_signal(notify)
    if not isinstance(kind, types.Number | types.Boolean) or not np.can_cast(
        numpy_support.as_dtype(kind), numpy_support.as_dtype(element(ptr)), "same_kind"
    ):
        raise TypingError(f"put of {kind} as {element(ptr)}: give a number of that kind, or an array of that dtype")
    return _put_number if _is_none(notify) else _put_one_with_signal(notify, write_element)


def _put_array(value: Any, ptr: Any, notify: Any = None) -> None:
    put_bytes(ptr, address_of(value), contiguous_count(value) * element_size(ptr))


def _put_record(value: Any, ptr: Any, notify: Any = None) -> None:
    put_bytes(ptr, record_address(ptr, value), element_size(ptr))


def _put_tuple(value: Any, ptr: Any, notify: Any = None) -> None:
    slot = element_slot(ptr)
    write_record(ptr, slot, value)
    put_bytes(ptr, slot, element_size(ptr))


def _put_number(value: Any, ptr: Any, notify: Any = None) -> None:
    check_bytes(ptr, element_size(ptr))
    target = near(ptr)
    _wrote(ptr, element_size(ptr))
    if target != 0:
        write_element(ptr, target, value)
    else:
        slot = element_slot(ptr)
        write_element(ptr, slot, value)
        _put_far(handle_word(ptr, 0), handle_word(ptr, 1), handle_word(ptr, 2), slot, element_size(ptr))


def _put_array_with_signal(kind: Any) -> Any:
    put = _putter_with_signal(kind)

    def run(value: Any, ptr: Any, notify: Any = None) -> None:
        put(ptr, address_of(value), contiguous_count(value) * element_size(ptr), notify)

    return run


def _put_one_with_signal(kind: Any, write: Any) -> Any:
    """Put a number or a tuple, which `write` makes an element of."""
    put = _putter_with_signal(kind)

    def run(value: Any, ptr: Any, notify: Any = None) -> None:
        slot = element_slot(ptr)
        write(ptr, slot, value)
        put(ptr, slot, element_size(ptr), notify)

    return run


def _put_record_with_signal(kind: Any) -> Any:
    put = _putter_with_signal(kind)

    def run(value: Any, ptr: Any, notify: Any = None) -> None:
        put(ptr, record_address(ptr, value), element_size(ptr), notify)

    return run


def _putter_with_signal(kind: Any) -> Any:
    send = send_put if spans_nodes(kind) else send_nothing

    @inlined
    def put(ptr: Any, address: int, nbytes: int, notify: Any) -> None:
        """Copy bytes from here to where a pointer points, then raise a signal: by one message to another node."""
        signal, rank, channel = counter_of(ptr, notify)
        check_bytes(ptr, nbytes)
        far = near(ptr) == 0
        if far and send(ptr, address, nbytes, signal, rank, channel):
            _wrote(ptr, nbytes)
            reports.report(reports.ADD, handle_word(signal, 0), rank, channel, 1)
            return
        put_bytes(ptr, address, nbytes)
        if far and send(ptr, address, 0, signal, rank, channel):  # behind the puts that went before it
            reports.report(reports.ADD, handle_word(signal, 0), rank, channel, 1)
            recording.sent(_ranks(ptr), handle_word(ptr, 1), 0)
        else:
            signals.signal(signal, rank, 1, channel)

    return put


@overload(verbs.get, jit_options=INLINED)
def _get(ptr: Any, n: Any = None, out: Any = None) -> Any:
    _check_pointer(ptr, "ptr")
    if _is_none(out):
        if not _is_none(n):
            raise TypingError("get of several elements in compiled code: give the array that they go to, out=array")
        if isinstance(element(ptr), types.Record):
            raise TypingError("get of a record in compiled code: give the array that it goes to, out=array")
        return _get_number
    _check_alike(out, ptr, "out", writable=True)
    return _get_all if _is_none(n) else _get_some


def _get_number(ptr: Any, n: Any = None, out: Any = None) -> Any:
    check_bytes(ptr, element_size(ptr))
    source = near(ptr)
    _has_read(ptr, element_size(ptr))
    if source != 0:
        return read_element(ptr, source)
    slot = element_slot(ptr)
    _get_far(handle_word(ptr, 0), handle_word(ptr, 1), handle_word(ptr, 2), slot, element_size(ptr))
    return read_element(ptr, slot)


def _get_all(ptr: Any, n: Any = None, out: Any = None) -> None:
    get_bytes(ptr, address_of(out), contiguous_count(out) * element_size(ptr))


def _get_some(ptr: Any, n: Any = None, out: Any = None) -> None:
    _check_count(n, contiguous_count(out))
    get_bytes(ptr, address_of(out), n * element_size(ptr))


@overload(verbs.copy, jit_options=INLINED)
def _copy(src: Any, dst: Any, n: Any = None) -> Any:
    if is_pointer(src) and is_pointer(dst):
        if src.parameters != dst.parameters:
            raise TypingError(f"copy from elements of {element(src)} to elements of {element(dst)}")
        if _is_none(n):
            raise TypingError("copy between two pointers: give the number of elements")
        return _copy_between
    if is_pointer(dst):
        _check_alike(src, dst, "src")
        return _copy_there if _is_none(n) else _copy_some_there
    _check_pointer(src, "src")
    _check_alike(dst, src, "dst", writable=True)
    return _copy_here if _is_none(n) else _copy_some_here


def _copy_between(src: Any, dst: Any, n: Any = None) -> None:
    _check_count(n, n)
    source, target, nbytes = near(src), near(dst), n * element_size(src)
    check_bytes(src, nbytes)
    check_bytes(dst, nbytes)
    if source != 0:
        _has_read(src, nbytes)
        put_bytes(dst, source, nbytes)
    elif target != 0:
        _wrote(dst, nbytes)
        get_bytes(src, target, nbytes)
    else:
        _relay(src, dst, nbytes)


def _copy_there(src: Any, dst: Any, n: Any = None) -> None:
    put_bytes(dst, address_of(src), contiguous_count(src) * element_size(dst))


def _copy_some_there(src: Any, dst: Any, n: Any = None) -> None:
    _check_count(n, contiguous_count(src))
    put_bytes(dst, address_of(src), n * element_size(dst))


def _copy_here(src: Any, dst: Any, n: Any = None) -> None:
    get_bytes(src, address_of(dst), contiguous_count(dst) * element_size(src))


def _copy_some_here(src: Any, dst: Any, n: Any = None) -> None:
    _check_count(n, contiguous_count(dst))
    get_bytes(src, address_of(dst), n * element_size(src))


@inlined
def _check_count(n: int, available: int) -> None:
    if n < 0 or n > available:
        raise ValueError("n is negative, or more than the array has elements")


def _check_pointer(kind: Any, what: str) -> None:
    if not is_pointer(kind):
        raise TypingError(f"{what} is {kind}: give a global pointer")


def _check_alike(array: Any, ptr: Any, what: str, *, writable: bool = False) -> None:
    check_array(array, what, writable=writable)
    if array.dtype != element(ptr):
        raise TypingError(f"{what} has elements of {array.dtype}, the pointer points to {element(ptr)}")


def _is_none(kind: Any) -> bool:
    return kind is None or isinstance(kind, types.NoneType) or getattr(kind, "value", 0) is None


@intrinsic
def _move(typingctx: Any, target: Any, source: Any, nbytes: Any) -> Any:
    """Copy bytes between two addresses."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers = [builder.inttoptr(address, cgutils.voidptr_t) for address in args[:2]]
        cgutils.raw_memcpy(builder, *pointers, args[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen
