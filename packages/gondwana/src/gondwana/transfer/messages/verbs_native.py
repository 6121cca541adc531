"""Machine code that sends and receives arrays for Python: one call instead of a request of mpi4py's and its tests.

What is returned says how far it got: `DONE`; the handle of a request that is not complete; `UNFIT`, where nothing was
done; or minus the error class of MPI. Imports Numba.
"""

from __future__ import annotations

import numpy as np

from gondwana.compiler.cpython_native import count_of, data_of, dtype_number_of
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.mpi.mpi_overloads import give_back, mpi_call, mpi_constant
from gondwana.compiler.types.buffers import load_like, on_stack
from gondwana.transfer.messages.verbs import ANY, COMMUNICATOR, DATATYPES, DONE, KINDS, POLLS, SIZE, UNFIT

_isend, _irecv, _test = mpi_call("Isend"), mpi_call("Irecv"), mpi_call("Test")
_status, _any_source = mpi_constant("STATUS"), mpi_constant("ANY_SOURCE")
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


def start(block: int, array: int, rank: int, tag: int) -> int:
    """Start to receive into the array at an address from a rank, or from `ANY`."""
    request = on_stack(0)
    found = _start(block, array, rank, tag, request)
    return found if found < 0 else load_word(request)  # type: ignore[no-any-return]


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
