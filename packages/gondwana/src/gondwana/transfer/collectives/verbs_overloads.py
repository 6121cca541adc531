"""`barrier`, `bcast` and `allreduce` in compiled code: through shared memory, or MPI by address.

They take the way that `Team` takes in Python, call by call (`teams.blocking`), so that ranks may meet from both. In
jobs with several nodes, what blocks here applies the signalled puts that arrive meanwhile, as messages do (see
`messages.verbs_overloads`): nothing blocks inside of MPI before all ranks have come.

A team without MPI has one rank, where a collective returns at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.extending import overload, typeof_impl
from numba.np import numpy_support

from gondwana.compiler import timing_overloads as recording
from gondwana.compiler.cpython_native import allocate, release
from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import move_bytes
from gondwana.compiler.mpi.mpi_overloads import (
    check_team,
    checked_call,
    communicator,
    datatype_of,
    has_mpi,
    memory_on_node,
    mpi_constant,
)
from gondwana.compiler.mpi.table import OF_REALS
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.arguments import HandleSpec
from gondwana.compiler.types.buffers import (
    address_of,
    check_array,
    contiguous_count,
    is_array,
    item_size,
    load_like,
    on_stack,
)
from gondwana.compiler.types.handle_types import advise, build, family_type, is_handle
from gondwana.compiler.waits_overloads import enter as enter_wait, leave, note, over
from gondwana.errors import UsageError
from gondwana.runtime.tracing import part
from gondwana.runtime.watching.waits import COLLECTIVE, KINDS
from gondwana.sync.delivery_overloads import apply_what_arrives, completer, has_other_nodes
from gondwana.teams.blocking import SHORT
from gondwana.teams.ops import Op, is_folded, operation_on
from gondwana.transfer.collectives import on_node, verbs
from gondwana.transfer.collectives.on_node_native import (
    FUNCTIONS,
    enter,
    first_part,
    fold,
    folds,
    has_entered,
    is_the_same,
    next_collective,
    relax,
    slot,
)

_OPERATION = family_type("operation")
PIECE = 2**30
"""Elements that one operation combines; MPI counts with 32 bits."""
_POLLS_BETWEEN_PROBES = 64
_COLLECTIVE = KINDS.index(COLLECTIVE)

_BARRIER_OF_ALL = on_node.meaning(on_node.BARRIER, 0)

_ALLREDUCE, _BCAST, _BARRIER = "gw.allreduce(team, value, op)", "gw.bcast(team, array, root)", "gw.barrier(team)"
advise("team", allreduce=_ALLREDUCE, Allreduce=_ALLREDUCE, bcast=_BCAST, Bcast=_BCAST, barrier=_BARRIER)

_mpi_allreduce, _mpi_bcast = checked_call("Allreduce"), checked_call("Bcast")
_mpi_iallgather, _mpi_iallreduce = checked_call("Iallgather"), checked_call("Iallreduce")
_mpi_ibarrier, _mpi_ibcast = checked_call("Ibarrier"), checked_call("Ibcast")
_mpi_wait, _mpi_iprobe = checked_call("Wait"), checked_call("Iprobe")
_status, _in_place = mpi_constant("STATUS"), mpi_constant("IN_PLACE")
_any_source, _unused_tag = mpi_constant("ANY_SOURCE"), mpi_constant("UNUSED_TAG")


@typeof_impl.register(Op)
def _typeof_operation(value: Op, context: Any) -> Any:
    """Let compiled code name operations by globals such as `gw.MAX`."""
    return _OPERATION(HandleSpec("operation", (value.name,), 0))


@lower_constant(_OPERATION)
def _operation_constant(context: Any, builder: Any, kind: Any, value: Op) -> Any:
    return build(context, builder, kind, [])


# -- through shared memory -------------------------------------------------------------------------------------------


@inlined
def _wait_for(team: Any, rank: int, n: int) -> None:
    """Wait until a rank has entered collective n. It may need this one for a message of MPI."""
    area, polls = memory_on_node(team), 0
    while not has_entered(area, rank, n):
        polls += 1
        relax(area, polls)
        if polls % _POLLS_BETWEEN_PROBES == 0:
            _mpi_iprobe(_any_source(), _unused_tag(), communicator(team), on_stack(0), _status())
            apply_what_arrives()
            note(polls, _COLLECTIVE, area, 0)
    over(polls)


@inlined
def _enter(team: Any, what: int, source: int) -> int:
    """Enter the next collective and return its number."""
    area = memory_on_node(team)
    n = next_collective(area, team.rank)
    for rank in range(team.size):
        _wait_for(team, rank, n - 1)
    enter(area, team.rank, n, what, source, what & on_node.NBYTES)
    return n  # type: ignore[no-any-return]


@inlined
def _meet(team: Any, first: int, end: int, n: int, what: int) -> None:
    """Wait until some of the ranks have entered collective n, which must be the same one."""
    for rank in range(first, end):
        _wait_for(team, rank, n)
        if not is_the_same(memory_on_node(team), rank, n, what):
            raise RuntimeError("the ranks of the team call different collectives, or with buffers of different sizes")


# -- by MPI ----------------------------------------------------------------------------------------------------------


def _completer(name: str) -> Any:
    complete = completer(name)

    @inlined
    def wait(request: int) -> None:
        enter_wait(_COLLECTIVE, 0, 0, 0, SHORT)
        if has_other_nodes():
            complete(request)
        else:
            _mpi_wait(request, _status())
        leave()

    return wait


_complete_allreduce, _complete_barrier, _complete_bcast = map(_completer, ("Allreduce", "Barrier", "Bcast"))


@inlined
def _arrive(team: Any) -> None:
    """Wait until all ranks have come: nobody waits for this rank to apply anything after that."""
    if memory_on_node(team) != 0:
        _meet(team, 0, team.size, _enter(team, _BARRIER_OF_ALL, 0), _BARRIER_OF_ALL)
    else:
        request = on_stack(0)
        _mpi_ibarrier(communicator(team), request)
        _complete_barrier(request)


# -- the functions ---------------------------------------------------------------------------------------------------


def _nothing_to_wait_for(team: Any) -> None:
    """Stand for the barrier of one rank."""


@overload(verbs.barrier, jit_options=INLINED)
def _barrier(team: Any) -> Any:
    check_team(team)
    if not has_mpi(team):
        return _nothing_to_wait_for

    def with_mpi(team: Any) -> None:
        begin = recording.begin()
        reports.report(reports.ENTER, communicator(team), reports.ALL, 0, 0)
        _arrive(team)
        reports.report(reports.LEAVE, communicator(team), 0, 0, 0)
        recording.end(begin, part.BARRIER, -1)

    return with_mpi


@overload(verbs.bcast, jit_options=INLINED)
def _bcast(team: Any, buf: Any, root: Any = 0) -> Any:
    check_team(team)
    check_array(buf, "buf", writable=True)
    if not has_mpi(team):
        return _keep_root
    start = on_node.meaning(on_node.BCAST, 0)

    def with_mpi(team: Any, buf: Any, root: Any = 0) -> None:
        if root < 0 or root >= team.size:
            raise ValueError("bcast: the root is not in the team")
        begin, left, address, item = recording.begin(), contiguous_count(buf), address_of(buf), item_size(buf)
        nbytes = left * item
        reports.report(reports.ENTER, communicator(team), reports.FROM, root, 0)
        if memory_on_node(team) != 0 and nbytes <= on_node.LIMIT:
            what = start + nbytes
            if team.rank == root:
                _enter(team, what, address)
            else:
                n = _enter(team, what, 0)
                _meet(team, root, root + 1, n, what)
                move_bytes(address, slot(memory_on_node(team), root, n) + on_node.WORD, nbytes)
        elif memory_on_node(team) == 0 and nbytes <= SHORT:
            request = on_stack(0)
            _mpi_ibcast(address, left, datatype_of(buf), root, communicator(team), request)
            _complete_bcast(request)
        else:
            _arrive(team)
            while left > 0:
                count = min(left, PIECE)
                _mpi_bcast(address, count, datatype_of(buf), root, communicator(team))
                left, address = left - count, address + count * item
        reports.report(reports.LEAVE, communicator(team), 0, 0, 0)
        recording.end(begin, part.BCAST, -1)

    return with_mpi


def _keep_root(team: Any, buf: Any, root: Any = 0) -> None:
    contiguous_count(buf)
    if root != 0:
        raise ValueError("bcast: the root is not in the team")


@overload(verbs.allreduce, jit_options=INLINED, prefer_literal=True)
def _allreduce(team: Any, value: Any, op: Any = "sum") -> Any:
    check_team(team)
    if isinstance(op, types.UnicodeType):
        return None  # Numba asks a second time without the literal
    dtype, meant = _operation(op, value)
    if not has_mpi(team):
        return _keep_array if is_array(value) else _keep_number
    if is_array(value):
        check_array(value, "value", writable=True)
    by_mpi = _by_mpi(OF_REALS.get(meant.name, meant.name) if dtype.kind == "f" else meant.name)
    combine = _folding(meant, dtype, by_mpi) if is_folded(dtype, meant) else by_mpi

    def array_with_mpi(team: Any, value: Any, op: Any = "sum") -> None:
        begin = recording.begin()
        reports.report(reports.ENTER, communicator(team), reports.ALL, 0, 0)
        combine(team, address_of(value), contiguous_count(value), value)
        reports.report(reports.LEAVE, communicator(team), 0, 0, 0)
        recording.end(begin, part.ALLREDUCE, -1)

    def number_with_mpi(team: Any, value: Any, op: Any = "sum") -> Any:
        begin, combined = recording.begin(), on_stack(value)
        reports.report(reports.ENTER, communicator(team), reports.ALL, 0, 0)
        combine(team, combined, 1, value)
        reports.report(reports.LEAVE, communicator(team), 0, 0, 0)
        recording.end(begin, part.ALLREDUCE, -1)
        return load_like(combined, value)

    return array_with_mpi if is_array(value) else number_with_mpi


def _by_mpi(name: str) -> Any:
    """Return the function that has MPI combine."""
    operation = mpi_constant(name)

    @inlined
    def combine(team: Any, address: int, count: int, like: Any) -> None:
        item = item_size(like)
        if memory_on_node(team) == 0 and count * item <= SHORT:
            request = on_stack(0)
            _mpi_iallreduce(_in_place(), address, count, datatype_of(like), operation(), communicator(team), request)
            _complete_allreduce(request)
            return
        _arrive(team)
        while count > 0:
            piece = min(count, PIECE)
            _mpi_allreduce(_in_place(), address, piece, datatype_of(like), operation(), communicator(team))
            count, address = count - piece, address + piece * item

    return combine


def _folding(op: Op, dtype: np.dtype[Any], by_mpi: Any) -> Any:
    """Return the function that combines few contributions in the order of the ranks, and has MPI combine others."""
    function, start = FUNCTIONS[op], on_node.meaning(on_node.kind_of(op, dtype), 0)

    @inlined
    def combine(team: Any, address: int, count: int, like: Any) -> None:
        item, area = item_size(like), memory_on_node(team)
        if not folds(team.size, count * item, area != 0):
            by_mpi(team, address, count, like)
        elif area == 0:
            _gather_and_fold(team, address, count, like, function)
        else:
            most, more = on_node.LIMIT // item, True
            while more:
                piece = min(count, most)
                what = start + piece * item
                n = _enter(team, what, address)
                _meet(team, 0, team.size, n, what)
                fold(first_part(area, n), 2 * on_node.SLOT, team.size, address, piece, like, function)
                count, address = count - piece, address + piece * item
                more = count > 0

    return combine


@inlined
def _gather_and_fold(team: Any, address: int, count: int, like: Any, function: Any) -> None:
    nbytes, request, kind = count * item_size(like), on_stack(0), datatype_of(like)
    parts = allocate(team.size * nbytes)
    _mpi_iallgather(address, count, kind, parts, count, kind, communicator(team), request)
    _complete_allreduce(request)
    fold(parts, nbytes, team.size, address, count, like, function)
    release(parts)


def _operation(op: Any, value: Any) -> tuple[np.dtype[Any], Op]:
    """The dtype and the operation, which must be known when the function is compiled and fit each other."""
    name = op if isinstance(op, str) else getattr(op, "value", getattr(op, "literal_value", None))
    if is_handle(op, "operation"):
        name = Op[op.parameters[0]]
    if name is None:
        raise TypingError(
            'the operation of allreduce is a name that is known when the function is compiled, such as "max", or gw.MAX'
        )
    kind = types.unliteral(getattr(value, "dtype", value))
    if not isinstance(kind, types.Number | types.Boolean):
        raise TypingError(f"allreduce combines numbers and arrays, not {value}")
    dtype = np.dtype(numpy_support.as_dtype(kind))
    try:
        return dtype, operation_on(dtype, name, "allreduce")
    except UsageError as error:
        raise TypingError(str(error)) from None


def _keep_number(team: Any, value: Any, op: Any = "sum") -> Any:
    return value


def _keep_array(team: Any, value: Any, op: Any = "sum") -> None:
    contiguous_count(value)
