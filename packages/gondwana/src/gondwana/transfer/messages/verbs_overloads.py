"""`send`, `recv`, `sendrecv`, `isend`, `irecv` and `wait_all` in compiled code: MPI by address.

In jobs with several nodes, what blocks here applies the signalled puts that arrive meanwhile: another rank may wait for
that before it does what this one waits for. On one node MPI's own blocking calls are used.

A team without MPI has one rank, where there is nobody to exchange messages with.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.errors import TypingError
from numba.extending import overload

from gondwana.compiler import timing_overloads as recording
from gondwana.compiler.inlining import INLINED, called, inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.mpi.mpi_overloads import (
    check_team,
    checked_call,
    communicator,
    datatype_of,
    describe,
    give_back,
    has_mpi,
    lend,
    mpi_constant,
    new_request,
    ranks_in_world,
)
from gondwana.compiler.mpi.objects import MESSAGE_AT
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.buffers import (
    address_of,
    check_array,
    contiguous_count,
    item_size,
    on_stack,
)
from gondwana.compiler.types.handle_types import advise
from gondwana.compiler.waits_overloads import enter, leave
from gondwana.runtime.tracing import part
from gondwana.runtime.watching.waits import KINDS, RECEIVE, SEND
from gondwana.sync.delivery_overloads import completer, has_other_nodes
from gondwana.transfer.messages import verbs

LARGEST = 2**31 - 1

_SEND, _RECV = "gw.send(team, array, dest, tag)", "gw.recv(team, array, source, tag)"
_ISEND, _IRECV = "gw.isend(team, array, dest, tag)", "gw.irecv(team, array, source, tag)"
advise("team", send=_SEND, Send=_SEND, recv=_RECV, Recv=_RECV)
advise("team", Sendrecv="gw.sendrecv(team, sent, dest, received, source, tag)")
advise("team", isend=_ISEND, Isend=_ISEND, irecv=_IRECV, Irecv=_IRECV)

_RECEIVE_KIND, _SEND_KIND = map(KINDS.index, (RECEIVE, SEND))

_mpi_send = checked_call("Send")
_mpi_recv = checked_call("Recv")
_mpi_sendrecv = checked_call("Sendrecv")
_mpi_isend = checked_call("Isend")
_mpi_irecv = checked_call("Irecv")
_mpi_wait = checked_call("Wait")
_complete_send, _complete_recv, _complete_any = completer("Send"), completer("Recv"), completer("Wait")
_status = mpi_constant("STATUS")


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


@called
def _send_and_serve(address: int, count: int, datatype: int, dest: int, tag: int, comm: int) -> None:
    request = on_stack(0)
    _mpi_isend(address, count, datatype, dest, tag, comm, request)
    _complete_send(request)


@called
def _receive_and_serve(address: int, count: int, datatype: int, source: int, tag: int, comm: int) -> None:
    request = on_stack(0)
    _mpi_irecv(address, count, datatype, source, tag, comm, request)
    _complete_recv(request)


@overload(verbs.send, jit_options=INLINED)
def _send(team: Any, buf: Any, dest: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf")
    if not has_mpi(team):
        return _refuse_send

    def with_mpi(team: Any, buf: Any, dest: Any, tag: int = 0) -> None:
        _check_partner(team, dest)
        begin, count = recording.begin(), _message_count(buf)
        reports.report(reports.SEND, communicator(team), dest, tag, 0)
        enter(_SEND_KIND, ranks_in_world(team), dest, tag, count * item_size(buf))
        if has_other_nodes():
            _send_and_serve(address_of(buf), count, datatype_of(buf), dest, tag, communicator(team))
        else:
            _mpi_send(address_of(buf), count, datatype_of(buf), dest, tag, communicator(team))
        leave()
        recording.sent(ranks_in_world(team), dest, count * item_size(buf))
        recording.end(begin, part.SEND, count * item_size(buf))

    return with_mpi


def _refuse_send(team: Any, buf: Any, dest: Any, tag: int = 0) -> None:
    raise RuntimeError("send: this program has one rank, so there is nobody to send to in compiled code")


@overload(verbs.recv, jit_options=INLINED)
def _recv(team: Any, buf: Any, source: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf", writable=True)
    if not has_mpi(team):
        return _refuse_recv

    def with_mpi(team: Any, buf: Any, source: Any, tag: int = 0) -> None:
        _check_partner(team, source)
        begin, count = recording.begin(), _message_count(buf)
        reports.report(reports.EXPECT, communicator(team), source, tag, 0)
        enter(_RECEIVE_KIND, ranks_in_world(team), source, tag, count * item_size(buf))
        if has_other_nodes():
            _receive_and_serve(address_of(buf), count, datatype_of(buf), source, tag, communicator(team))
        else:
            _mpi_recv(address_of(buf), count, datatype_of(buf), source, tag, communicator(team), _status())
        reports.report(reports.RECEIVE, 0, 0, 0, 0)
        leave()
        recording.end(begin, part.RECV, -1)

    return with_mpi


def _refuse_recv(team: Any, buf: Any, source: Any, tag: int = 0) -> None:
    raise RuntimeError("recv: this program has one rank, so there is nobody to receive from in compiled code")


@overload(verbs.sendrecv, jit_options=INLINED)
def _sendrecv(team: Any, sendbuf: Any, dest: Any, recvbuf: Any, source: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(sendbuf, "sendbuf")
    check_array(recvbuf, "recvbuf", writable=True)
    if not has_mpi(team):
        return _refuse_sendrecv

    def with_mpi(team: Any, sendbuf: Any, dest: Any, recvbuf: Any, source: Any, tag: int = 0) -> None:
        _check_partner(team, dest)
        _check_partner(team, source)
        begin, sent, received = recording.begin(), _message_count(sendbuf), _message_count(recvbuf)
        reports.report(reports.SEND, communicator(team), dest, tag, 0)
        reports.report(reports.EXPECT, communicator(team), source, tag, 0)
        enter(
            _RECEIVE_KIND,
            ranks_in_world(team),
            source,
            tag,
            max(sent * item_size(sendbuf), received * item_size(recvbuf)),
        )
        if has_other_nodes():
            arrival = on_stack(0)
            _mpi_irecv(address_of(recvbuf), received, datatype_of(recvbuf), source, tag, communicator(team), arrival)
            _send_and_serve(address_of(sendbuf), sent, datatype_of(sendbuf), dest, tag, communicator(team))
            _complete_recv(arrival)
        else:
            _mpi_sendrecv(
                address_of(sendbuf), sent, datatype_of(sendbuf), dest, tag,
                address_of(recvbuf), received, datatype_of(recvbuf), source, tag, communicator(team), _status(),
            )  # fmt: skip
        leave()
        recording.sent(ranks_in_world(team), dest, sent * item_size(sendbuf))
        reports.report(reports.RECEIVE, 0, 0, 0, 0)
        recording.end(begin, part.SENDRECV, sent * item_size(sendbuf))

    return with_mpi


def _refuse_sendrecv(team: Any, sendbuf: Any, dest: Any, recvbuf: Any, source: Any, tag: int = 0) -> None:
    raise RuntimeError("sendrecv: this program has one rank, so there is nobody to exchange with in compiled code")


@overload(verbs.isend, jit_options=INLINED)
def _isend(team: Any, buf: Any, dest: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf")
    if not has_mpi(team):
        return _refuse_isend

    def with_mpi(team: Any, buf: Any, dest: Any, tag: int = 0) -> int:
        _check_partner(team, dest)
        count, request = _message_count(buf), new_request()
        reports.report(reports.SEND, communicator(team), dest, tag, 0)
        _mpi_isend(address_of(buf), count, datatype_of(buf), dest, tag, communicator(team), request)
        recording.sent(ranks_in_world(team), dest, count * item_size(buf))
        describe(request, _SEND_KIND, ranks_in_world(team), dest, tag, count * item_size(buf))
        return lend(request, buf)  # type: ignore[no-any-return]

    return with_mpi


def _refuse_isend(team: Any, buf: Any, dest: Any, tag: int = 0) -> int:
    if team.size == 1:  # always; but compiled code needs a request to return
        raise RuntimeError("isend: this program has one rank, so there is nobody to send to in compiled code")
    return 0


@overload(verbs.irecv, jit_options=INLINED)
def _irecv(team: Any, buf: Any, source: Any, tag: int = 0) -> Any:
    check_team(team)
    check_array(buf, "buf", writable=True)
    if not has_mpi(team):
        return _refuse_irecv

    def with_mpi(team: Any, buf: Any, source: Any, tag: int = 0) -> int:
        _check_partner(team, source)
        count, request = _message_count(buf), new_request()
        reports.report(reports.EXPECT, communicator(team), source, tag, request)
        _mpi_irecv(address_of(buf), count, datatype_of(buf), source, tag, communicator(team), request)
        describe(request, _RECEIVE_KIND, ranks_in_world(team), source, tag, count * item_size(buf))
        return lend(request, buf)  # type: ignore[no-any-return]

    return with_mpi


def _refuse_irecv(team: Any, buf: Any, source: Any, tag: int = 0) -> int:
    if team.size == 1:  # always; but compiled code needs a request to return
        raise RuntimeError("irecv: this program has one rank, so there is nobody to receive from in compiled code")
    return 0


@inlined
def _message(request: int) -> tuple[int, int, int, int, int]:
    """Return what a request is for."""
    at = request + MESSAGE_AT
    return load_word(at), load_word(at + 8), load_word(at + 16), load_word(at + 24), load_word(at + 32)


@overload(verbs.wait_all, jit_options=INLINED)
def _wait_all(requests: Any) -> Any:
    if types.unliteral(getattr(requests, "dtype", None)) != types.int64:
        raise TypingError(
            "wait_all takes a tuple or an array of requests, the integers that isend and irecv return in compiled "
            f"code, not {requests}"
        )

    def wait(requests: Any) -> None:
        begin = recording.begin()
        for request in requests:
            if request != 0:
                kind, ranks, rank, tag, nbytes = _message(request)
                enter(kind, ranks, rank, tag, nbytes)
                if has_other_nodes():
                    _complete_any(request)
                else:
                    _mpi_wait(request, _status())
                reports.report(reports.RECEIVE, request, 0, 0, 0)
                give_back(request)
        leave()
        recording.end(begin, part.WAIT_ALL, -1)

    return wait
