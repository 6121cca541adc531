"""`send`, `recv`, `sendrecv`, `isend`, `irecv`, `wait_all`, `allreduce` and `barrier` in compiled code: MPI by address.

A team without MPI has one rank, where a collective returns at once and there is nobody to exchange messages with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.extending import overload, typeof_impl
from numba.np import numpy_support

from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import load_word, pause, sched_yield
from gondwana.compiler.mpi.calls import checked_call, datatype_of, mpi_constant
from gondwana.compiler.mpi.team_overloads import check_team, communicator, has_mpi
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
from gondwana.errors import UsageError
from gondwana.teams import request as requests
from gondwana.teams.ops import Op, operation_on
from gondwana.transfer import messages

_OPERATION = family_type("operation")
LARGEST = 2**31 - 1
PIECE = 2**30
"""Elements that one operation combines; MPI counts with 32 bits."""
_IDLE_POLLS = 200
"""Failed polls before a waiting rank yields the processor."""

_SEND, _RECV = "gw.send(team, array, dest, tag)", "gw.recv(team, array, source, tag)"
_ALLREDUCE, _BARRIER = "gw.allreduce(team, value, op)", "gw.barrier(team)"
_ISEND, _IRECV = "gw.isend(team, array, dest, tag)", "gw.irecv(team, array, source, tag)"
advise("team", send=_SEND, Send=_SEND, recv=_RECV, Recv=_RECV, allreduce=_ALLREDUCE, Allreduce=_ALLREDUCE)
advise("team", isend=_ISEND, Isend=_ISEND, irecv=_IRECV, Irecv=_IRECV)
advise("team", barrier=_BARRIER, Sendrecv="gw.sendrecv(team, sent, dest, received, source, tag)")

_mpi_send = checked_call("Send")
_mpi_recv = checked_call("Recv")
_mpi_sendrecv = checked_call("Sendrecv")
_mpi_isend = checked_call("Isend")
_mpi_irecv = checked_call("Irecv")
_mpi_wait = checked_call("Wait")
_mpi_allreduce = checked_call("Allreduce")
_mpi_ibarrier = checked_call("Ibarrier")
_mpi_test = checked_call("Test")
_status = mpi_constant("STATUS")
_in_place = mpi_constant("IN_PLACE")


@typeof_impl.register(Op)
def _typeof_operation(value: Op, context: Any) -> Any:
    """Let compiled code name operations by globals such as `gw.MAX`."""
    return _OPERATION(HandleSpec("operation", (value.name,), 0))


@lower_constant(_OPERATION)
def _operation_constant(context: Any, builder: Any, kind: Any, value: Op) -> Any:
    return build(context, builder, kind, [])


@inlined
def _check_partner(team: Any, rank: int) -> None:
    if rank < 0 or rank >= team.size:
        raise ValueError("the rank to exchange a message with is not in the team")


@inlined
def _message_count(buf: Any) -> int:
    count = contiguous_count(buf)
    if count > LARGEST:
        raise ValueError("a message of compiled code has at most 2**31 - 1 elements: send it in parts")
    return count  # type: ignore[no-any-return]


@overload(messages.send, jit_options=INLINED)
def _send(team: Any, buf: Any, dest: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf")
    if not has_mpi(team):
        return _refuse_send

    def with_mpi(team: Any, buf: Any, dest: Any, tag: int = 0) -> None:
        _check_partner(team, dest)
        _mpi_send(address_of(buf), _message_count(buf), datatype_of(buf), dest, tag, communicator(team))

    return with_mpi


def _refuse_send(team: Any, buf: Any, dest: Any, tag: int = 0) -> None:
    raise RuntimeError("send: this program has one rank, so there is nobody to send to in compiled code")


@overload(messages.recv, jit_options=INLINED)
def _recv(team: Any, buf: Any, source: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf", writable=True)
    if not has_mpi(team):
        return _refuse_recv

    def with_mpi(team: Any, buf: Any, source: Any, tag: int = 0) -> None:
        _check_partner(team, source)
        count = _message_count(buf)
        _mpi_recv(address_of(buf), count, datatype_of(buf), source, tag, communicator(team), _status())

    return with_mpi


def _refuse_recv(team: Any, buf: Any, source: Any, tag: int = 0) -> None:
    raise RuntimeError("recv: this program has one rank, so there is nobody to receive from in compiled code")


@overload(messages.sendrecv, jit_options=INLINED)
def _sendrecv(team: Any, sendbuf: Any, dest: Any, recvbuf: Any, source: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(sendbuf, "sendbuf")
    check_array(recvbuf, "recvbuf", writable=True)
    if not has_mpi(team):
        return _refuse_sendrecv

    def with_mpi(team: Any, sendbuf: Any, dest: Any, recvbuf: Any, source: Any, tag: int = 0) -> None:
        _check_partner(team, dest)
        _check_partner(team, source)
        sent, received = _message_count(sendbuf), _message_count(recvbuf)
        _mpi_sendrecv(
            address_of(sendbuf), sent, datatype_of(sendbuf), dest, tag,
            address_of(recvbuf), received, datatype_of(recvbuf), source, tag, communicator(team), _status(),
        )  # fmt: skip

    return with_mpi


def _refuse_sendrecv(team: Any, sendbuf: Any, dest: Any, recvbuf: Any, source: Any, tag: int = 0) -> None:
    raise RuntimeError("sendrecv: this program has one rank, so there is nobody to exchange with in compiled code")


@overload(messages.isend, jit_options=INLINED)
def _isend(team: Any, buf: Any, dest: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf")
    if not has_mpi(team):
        return _refuse_isend

    def with_mpi(team: Any, buf: Any, dest: Any, tag: int = 0) -> int:
        _check_partner(team, dest)
        request, count = on_stack(0), _message_count(buf)
        _mpi_isend(address_of(buf), count, datatype_of(buf), dest, tag, communicator(team), request)
        return load_word(request)  # type: ignore[no-any-return]

    return with_mpi


def _refuse_isend(team: Any, buf: Any, dest: Any, tag: int = 0) -> int:
    if team.size == 1:  # always; but compiled code needs a request to return
        raise RuntimeError("isend: this program has one rank, so there is nobody to send to in compiled code")
    return 0


@overload(messages.irecv, jit_options=INLINED)
def _irecv(team: Any, buf: Any, source: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf", writable=True)
    if not has_mpi(team):
        return _refuse_irecv

    def with_mpi(team: Any, buf: Any, source: Any, tag: int = 0) -> int:
        _check_partner(team, source)
        request, count = on_stack(0), _message_count(buf)
        _mpi_irecv(address_of(buf), count, datatype_of(buf), source, tag, communicator(team), request)
        return load_word(request)  # type: ignore[no-any-return]

    return with_mpi


def _refuse_irecv(team: Any, buf: Any, source: Any, tag: int = 0) -> int:
    if team.size == 1:  # always; but compiled code needs a request to return
        raise RuntimeError("irecv: this program has one rank, so there is nobody to receive from in compiled code")
    return 0


@overload(requests.wait_all, jit_options=INLINED)
def _wait_all(requests: Any) -> Any:
    if types.unliteral(getattr(requests, "dtype", None)) != types.int64:
        raise TypingError(
            "wait_all takes a tuple or an array of requests, the integers that isend and irecv return in compiled "
            f"code, not {requests}"
        )

    def wait(requests: Any) -> None:
        for request in requests:
            _mpi_wait(on_stack(request), _status())

    return wait


@overload(messages.allreduce, jit_options=INLINED, prefer_literal=True)
def _allreduce(team: Any, value: Any, op: Any = "sum") -> Any:
    check_team(team)
    if isinstance(op, types.UnicodeType):
        return None  # Numba asks a second time without the literal
    name = _operation(op, value)
    if not has_mpi(team):
        return _keep_array if is_array(value) else _keep_number
    operation = mpi_constant(name)
    if is_array(value):
        check_array(value, "value", writable=True)

        def array_with_mpi(team: Any, value: Any, op: Any = "sum") -> None:
            item = item_size(value)
            left, address = contiguous_count(value), address_of(value)
            while left > 0:
                count = min(left, PIECE)
                _mpi_allreduce(_in_place(), address, count, datatype_of(value), operation(), communicator(team))
                left, address = left - count, address + count * item

        return array_with_mpi

    def number_with_mpi(team: Any, value: Any, op: Any = "sum") -> Any:
        given, combined = on_stack(value), on_stack(value)
        _mpi_allreduce(given, combined, 1, datatype_of(value), operation(), communicator(team))
        return load_like(combined, value)

    return number_with_mpi


def _operation(op: Any, value: Any) -> str:
    """The name of the operation, which must be known when the function is compiled and fit the dtype."""
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
        return operation_on(dtype, name, "allreduce").name
    except UsageError as error:
        raise TypingError(str(error)) from None


def _keep_number(team: Any, value: Any, op: Any = "sum") -> Any:
    return value


def _keep_array(team: Any, value: Any, op: Any = "sum") -> None:
    contiguous_count(value)


def _nothing_to_wait_for(team: Any) -> None:
    """Stand for the barrier of one rank."""


@overload(messages.barrier, jit_options=INLINED)
def _barrier(team: Any) -> Any:
    check_team(team)
    if not has_mpi(team):
        return _nothing_to_wait_for

    # Python's barrier is MPI's non-blocking one, so that remote calls are served meanwhile; MPI does not let a blocking
    # one match it.
    def with_mpi(team: Any) -> None:
        request, done = on_stack(0), on_stack(0)
        _mpi_ibarrier(communicator(team), request)
        _mpi_test(request, done, _status())
        polls = 0
        while load_word(done) == 0:
            polls += 1
            if polls > _IDLE_POLLS:
                sched_yield()
            else:
                pause()
            _mpi_test(request, done, _status())

    return with_mpi
