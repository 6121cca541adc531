"""Machine code that has MPI do messages and collectives for Python: one call instead of a request of mpi4py's.

What is returned says how far it got: `DONE`; the handle of a request that is not complete; `UNFIT`, where nothing was
done; or minus the error class of MPI. Imports Numba.
"""

from __future__ import annotations

import numpy as np

from gondwana.compiler.cpython_native import (
    count_of,
    data_of,
    decref,
    dtype_number_of,
    incref,
    integer_object,
    new_bytes,
)
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.mpi.mpi_overloads import give_back, mpi_call, mpi_constant
from gondwana.compiler.native import BYTES_AT, LARGEST, LENGTH_AT
from gondwana.compiler.types.buffers import load_like, on_stack, room_on_stack, set_element
from gondwana.teams.blocking import SHORT
from gondwana.teams.messages import ANY, DONE, NOT_YET, UNFIT
from gondwana.transfer.collectives.on_node import KINDS, NUMPY
from gondwana.transfer.collectives.on_node_native import fold_as, how_to_combine
from gondwana.transfer.messages.direct import COMMUNICATOR, DATATYPES, ITEM_SIZES, POLLS, RANK, SIZE

_isend, _irecv, _test = mpi_call("Isend"), mpi_call("Irecv"), mpi_call("Test")
_iprobe, _improbe, _mrecv, _get_count = (mpi_call(name) for name in ("Iprobe", "Improbe", "Mrecv", "Get_count"))
_ibarrier, _ibcast, _iallgather = mpi_call("Ibarrier"), mpi_call("Ibcast"), mpi_call("Iallgather")
_status, _any_source, _byte = mpi_constant("STATUS"), mpi_constant("ANY_SOURCE"), mpi_constant("uint8")
_INT = np.int32(0)


def send(block: int, array: int, rank: int, tag: int) -> int:
    """Start to send the array at an address to a rank, and poll."""
    count, datatype = count_of(array, False), datatype_of(block, array)
    if rank < 0 or rank >= load_word(block + SIZE) or count < 0 or datatype == 0:
        return UNFIT
    request = on_stack(0)
    error = _isend(data_of(array), count, datatype, rank, tag, load_word(block + COMMUNICATOR), request)
    return -error if error != 0 else poll(request)  # type: ignore[no-any-return]


def receive(block: int, array: int, rank: int, tag: int) -> int:
    """Start to receive into the array at an address from a rank, or from `ANY`, and poll."""
    request = on_stack(0)
    found = _start(block, array, rank, tag, request)
    return found if found < 0 else poll(request)  # type: ignore[no-any-return]


def sendrecv(
    block: int, sent: int, dest: int, send_tag: int, received: int, source: int, receive_tag: int, found: int
) -> int:
    """Start to send an array to a rank and to receive another one from a rank, or from `ANY`, and poll.

    Returns:
        `DONE`; or `NOT_YET`, and in the bytes object at the address `found` how far the receive and the send got.
    """
    count, datatype = count_of(sent, False), datatype_of(block, sent)
    if dest < 0 or dest >= load_word(block + SIZE) or count < 0 or datatype == 0:
        return UNFIT
    receive_request, send_request = on_stack(0), on_stack(0)
    error = _start(block, received, source, receive_tag, receive_request)
    if error < 0:
        return error  # type: ignore[no-any-return]
    error = _isend(data_of(sent), count, datatype, dest, send_tag, load_word(block + COMMUNICATOR), send_request)
    got = poll(receive_request)
    put = poll(send_request) if error == 0 else -error
    set_element(found + BYTES_AT, 0, got, got)
    set_element(found + BYTES_AT, 1, put, put)
    return DONE if got == DONE and put == DONE else NOT_YET


@inlined
def _start(block: int, array: int, rank: int, tag: int, request: int) -> int:
    """Start to receive; return a negative number if that is not possible."""
    count, datatype = count_of(array, True), datatype_of(block, array)
    if rank == ANY:
        rank = _any_source()
    elif rank < 0 or rank >= load_word(block + SIZE):
        return UNFIT
    if count < 0 or datatype == 0:
        return UNFIT
    return -_irecv(data_of(array), count, datatype, rank, tag, load_word(block + COMMUNICATOR), request)  # type: ignore[no-any-return]


def send_object(block: int, rank: int, tag: int, data: int) -> int:
    """Start to send the bytes object at an address to a rank, and poll."""
    nbytes = load_word(data + LENGTH_AT)
    if rank < 0 or rank >= load_word(block + SIZE) or nbytes > LARGEST:
        return UNFIT
    request, communicator = on_stack(0), load_word(block + COMMUNICATOR)
    error = _isend(data + BYTES_AT, nbytes, _byte(), rank, tag, communicator, request)
    return -error if error != 0 else poll(request)  # type: ignore[no-any-return]


def receive_object(block: int, rank: int, tag: int, none: int) -> int:
    """Receive bytes of any length from a rank, or from `ANY`, if a message is there after some polls.

    Returns:
        A bytes object; None, the object at the address `none`, if mpi4py must; or an integer object: `NOT_YET`, or
        minus the error class of MPI.
    """
    communicator, found, status = load_word(block + COMMUNICATOR), on_stack(0), room_on_stack()
    if rank == ANY:
        rank = _any_source()
    elif rank < 0 or rank >= load_word(block + SIZE):
        incref(none)
        return none
    for _ in range(POLLS):
        # At first a probe that takes nothing: mpi4py receives what has more bytes than 32 bits count.
        error = _iprobe(rank, tag, communicator, found, status)
        if error != 0:
            return integer_object(-error)  # type: ignore[no-any-return]
        if load_like(found, _INT) != 0:
            if _length(status) < 0:
                incref(none)
                return none
            return _received(communicator, rank, tag, status)  # type: ignore[no-any-return]
    return integer_object(NOT_YET)  # type: ignore[no-any-return]


@inlined
def _received(communicator: int, rank: int, tag: int, status: int) -> int:
    """Return the bytes object that a message is; or an integer object, as `receive_object`: another thread took it."""
    found, message = on_stack(0), on_stack(0)
    error = _improbe(rank, tag, communicator, found, message, status)
    if error != 0 or load_like(found, _INT) == 0:
        return integer_object(-error if error != 0 else NOT_YET)  # type: ignore[no-any-return]
    nbytes = _length(status)
    data = new_bytes(0, nbytes)
    if data == 0:
        return 0  # there is an exception
    error = _mrecv(data + BYTES_AT, nbytes, _byte(), message, status)
    if error != 0:
        decref(data)
        return integer_object(-error)  # type: ignore[no-any-return]
    return data  # type: ignore[no-any-return]


@inlined
def _length(status: int) -> int:
    count = on_stack(0)
    _get_count(status, _byte(), count)
    return load_like(count, _INT)  # type: ignore[no-any-return]


def go_on(handle: int) -> int:
    """Poll a request."""
    return poll(on_stack(handle))  # type: ignore[no-any-return]


def finish(request: int) -> int:
    """Poll a request of compiled code, and release what it keeps when it is complete."""
    found = poll(request)
    if found == DONE:
        give_back(request)
    return found  # type: ignore[no-any-return]


@inlined
def poll(request: int) -> int:
    """Poll the request whose handle is at an address; return how far it got."""
    handle = load_word(request)
    for _ in range(POLLS):
        done = on_stack(0)
        error = _test(request, done, _status())
        if error != 0:
            return -error  # type: ignore[no-any-return]
        if load_like(done, _INT) != 0:
            return DONE
    return handle  # type: ignore[no-any-return]


@inlined
def datatype_of(block: int, array: int) -> int:
    """Return the handle of the datatype of the elements of an array, 0 if MPI has none."""
    number = dtype_number_of(array)
    if number < 0 or number >= KINDS:
        return 0
    return load_word(block + DATATYPES + 8 * number)  # type: ignore[no-any-return]


def barrier(block: int) -> int:
    """Start a barrier, and poll."""
    request = on_stack(0)
    error = _ibarrier(load_word(block + COMMUNICATOR), request)
    return -error if error != 0 else poll(request)  # type: ignore[no-any-return]


def fill(block: int, array: int, root: int) -> int:
    """Start to fill the array at an address with that of a root, and poll."""
    if root < 0 or root >= load_word(block + SIZE):
        return UNFIT
    count, datatype = count_of(array, root != load_word(block + RANK)), datatype_of(block, array)
    if count < 0 or datatype == 0 or count * _item_size(block, array) > SHORT:
        return UNFIT
    request = on_stack(0)
    error = _ibcast(data_of(array), count, datatype, root, load_word(block + COMMUNICATOR), request)
    return -error if error != 0 else poll(request)  # type: ignore[no-any-return]


def gather(block: int, part: int, whole: int) -> int:
    """Start to gather the arrays at an address from all ranks, and poll."""
    count, datatype = count_of(part, False), datatype_of(block, part)
    is_short = count >= 0 and datatype != 0 and count * _item_size(block, part) <= SHORT
    fits = count_of(whole, True) == count * load_word(block + SIZE) and dtype_number_of(whole) == dtype_number_of(part)
    if not (is_short and fits):
        return UNFIT
    return _gather(block, data_of(part), data_of(whole), count, datatype)  # type: ignore[no-any-return]


def combine(block: int, operation: int, send: int, recv: int, parts: int) -> int:
    """Start to combine the arrays at an address, poll, and finish if all are in `parts`, which has room for them."""
    how, nbytes = how_to_combine(operation, send, recv)
    if how == NUMPY:
        return UNFIT
    count = count_of(send, False)
    found = _gather(block, data_of(send), data_of(parts), count, datatype_of(block, send))
    if found == DONE:
        fold_as(how, data_of(parts), nbytes, load_word(block + SIZE), data_of(recv), nbytes)
    return found  # type: ignore[no-any-return]


def fold_gathered(block: int, operation: int, send: int, recv: int, parts: int) -> int:
    """Finish what `combine` has left, now that the arrays of all ranks are there."""
    how, nbytes = how_to_combine(operation, send, recv)
    fold_as(how, data_of(parts), nbytes, load_word(block + SIZE), data_of(recv), nbytes)
    return DONE


@inlined
def _gather(block: int, part: int, whole: int, count: int, datatype: int) -> int:
    request, communicator = on_stack(0), load_word(block + COMMUNICATOR)
    error = _iallgather(part, count, datatype, whole, count, datatype, communicator, request)
    return -error if error != 0 else poll(request)  # type: ignore[no-any-return]


@inlined
def _item_size(block: int, array: int) -> int:
    return load_word(block + ITEM_SIZES + 8 * dtype_number_of(array))  # type: ignore[no-any-return]
