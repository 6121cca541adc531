"""Machine code that starts collectives of MPI for Python and polls them, as `messages.verbs_native` does.

What is returned says how far it got: `DONE`; the handle of a request that is not complete; `UNFIT`, where nothing was
done; or minus the error class of MPI. Imports Numba.
"""

from __future__ import annotations

from gondwana.compiler.cpython_native import count_of, data_of, dtype_number_of
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.mpi.mpi_overloads import mpi_call
from gondwana.compiler.types.buffers import on_stack
from gondwana.teams.blocking import SHORT
from gondwana.transfer.collectives.on_node import NUMPY
from gondwana.transfer.collectives.on_node_native import fold_as, how_to_combine
from gondwana.transfer.messages.verbs import COMMUNICATOR, DONE, ITEM_SIZES, RANK, SIZE, UNFIT
from gondwana.transfer.messages.verbs_native import datatype_of, poll

_ibarrier, _ibcast, _iallgather = mpi_call("Ibarrier"), mpi_call("Ibcast"), mpi_call("Iallgather")


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
