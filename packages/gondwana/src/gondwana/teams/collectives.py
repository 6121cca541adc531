"""The collective operations of a team on buffers: every rank of the team calls them, in the same order."""

# ruff: noqa: N802 - upper-case names are MPI's, with MPI's meaning

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy import ndarray

from gondwana.runtime import ordering, progress
from gondwana.runtime.races.reporting import each_collective
from gondwana.runtime.tracing import each_method
from gondwana.teams import mpi
from gondwana.teams.blocking import folds
from gondwana.teams.buffers import (
    Buffer,
    VectorBuffer,
    as_buffer,
    as_contribution,
    as_message,
    as_operand,
    deliver,
    delivering,
    is_in_place,
    staged,
    staged_parts,
)
from gondwana.teams.object_collectives import ObjectCollectives
from gondwana.teams.ops import (
    IN_PLACE,
    SUM,
    InPlace,
    Op,
    Operation,
    fold,
    is_defined_by_user,
    is_folded,
    operation_on,
)
from gondwana.teams.request import Request, complete

_GATHERING = {"Reduce": "Igather", "Allreduce": "Iallgather", "Reduce_scatter_block": "Ialltoall"}
"""MPI's collectives that bring the contributions to reductions where they are combined."""

_UNKNOWN = 0
"""Number of bytes if the ranks do not know those of each other, so that all must take the same way."""


@each_collective
@ordering.each_counted
@each_method("collective")
class Collectives(ObjectCollectives):
    """Collective operations under mpi4py's names: lower case for Python objects, upper case for buffers.

    Objects travel by pickling; arrays are refused there. Buffers are contiguous arrays, or anything with the buffer
    protocol; both sides must have the same dtype and sizes that fit, which is checked before anything is sent. They may
    share memory: the result is the same as for buffers that do not.

    Reductions combine integers and real numbers, and add complex ones, in the order of the ranks, so that all spellings
    of a sum give the same bits in every run: of up to 64 KiB a rank and 384 KiB in all, on one node and from up to 16
    ranks of several. MPI combines more, and all else, in an order of its own.

    Elements are sent and combined in the order of their indices, the last one fastest (C's), whatever the memory order:
    ranks need not agree on one. An array in Fortran's order is copied before or after. One that consists of parts for
    or from the ranks is refused in that order: its transpose has the same memory in C's.

    A buffer may also be an array in the memory of a device of this rank: a `gw.DeviceArray`, a view by `gw.array_at`,
    or an array of another library on a GPU (DLPack, ``__cuda_array_interface__``). Host memory of the same size takes
    its place, since MPI never gets device memory; so results have the same bits as those of arrays on the host. All
    kernels that this rank has launched before have their effect on the data sent. The copy to the device is part of the
    operation. Non-blocking operations wait until the data to send are on the host.

    Blocking operations make user-level progress while they wait, so that ranks which are late can still call remote
    procedures here; in callbacks they raise ProgressError. They wait for what they need and no longer: as in MPI, only
    those in which each rank gets something from all others (and `barrier`) say that all ranks have come.
    """

    # -- buffers, blocking ---------------------------------------------------------------------------------------

    def Bcast(self, buf: Buffer, root: int = 0) -> None:
        """Broadcast ``buf`` of ``root`` to every rank. Collective over team. Blocking."""
        on_node, direct = self.on_node, self.on_node or self.between_nodes
        if direct is not None and type(buf) is ndarray and direct.fill(buf, root):
            return
        buffer = as_message(staged(buf, load=self.rank == root), "buf", writable=self.rank != root)
        self._check_root(root)
        if on_node is not None and buffer.nbytes <= on_node.largest:
            on_node.bcast(buffer, root)
        else:
            self._perform("Bcast", buffer.nbytes, mpi.message(self.comm, buffer), root)
        if self.rank != root:
            deliver(buffer)

    def Reduce(self, sendbuf: Buffer | InPlace, recvbuf: Buffer | None, op: Operation = SUM, root: int = 0) -> None:
        """Combine all ``sendbuf`` element by element in ``recvbuf`` of ``root``. Collective over team. Blocking.

        Args:
            sendbuf: this rank's contribution; on ``root`` it may be ``IN_PLACE``.
            recvbuf: on ``root``, room for as many elements; ignored on the others.
            op: the operation: ``gw.MAX``, ``"max"`` or mpi4py's ``MPI.MAX``.
            root: the rank that gets the result.
        """
        self._check_root(root)
        send, recv, operation = self._reduction("Reduce", op, sendbuf, recvbuf if self.rank == root else None)
        self._combine("Reduce", send, recv, operation, root)

    def Allreduce(self, sendbuf: Buffer | InPlace, recvbuf: Buffer, op: Operation = SUM) -> None:
        """Combine all ``sendbuf`` element by element in every ``recvbuf``. Collective over team. Blocking.

        Args:
            sendbuf: this rank's contribution; ``IN_PLACE``: that in ``recvbuf``.
            recvbuf: room for as many elements.
            op: the operation: ``gw.MAX``, ``"max"`` or mpi4py's ``MPI.MAX``.
        """
        direct = self.on_node or self.between_nodes
        if direct is not None and type(op) is Op:  # a short cut: what follows takes as long as all of it
            given = recvbuf if sendbuf is IN_PLACE else sendbuf
            if type(recvbuf) is type(given) is ndarray and direct.combine(given, recvbuf, op):
                return
        send, recv, operation = self._reduction("Allreduce", op, sendbuf, recvbuf)
        self._combine("Allreduce", send, recv, operation)

    def Reduce_scatter_block(self, sendbuf: Buffer | InPlace, recvbuf: Buffer, op: Operation = SUM) -> None:
        """Combine all ``sendbuf`` element by element, and leave part r of the result on rank r. Collective over team.

        Blocking.

        Args:
            sendbuf: this rank's contribution, one equal part for every rank; ``IN_PLACE``: that in ``recvbuf``.
            recvbuf: room for one part; with ``IN_PLACE`` the whole contribution, whose first part becomes the result.
            op: the operation: ``gw.MAX``, ``"max"`` or mpi4py's ``MPI.MAX``.

        Example:
            >>> import gondwana as gw, numpy as np
            >>> part = np.empty(2)
            >>> gw.world.Reduce_scatter_block(np.ones(2 * gw.world.size), part)
            >>> bool((part == gw.world.size).all())
            True
        """
        in_place = is_in_place(sendbuf)
        send, recv, operation = self._reduction("Reduce_scatter_block", op, sendbuf, recvbuf, divided=True)
        whole = recv if in_place else send
        if whole.size % self.size:
            raise ValueError(f"a buffer of {whole.size} elements has no equal parts for {self.size} ranks")
        part = recv.reshape(-1)[: whole.size // self.size]
        if self.on_node is not None and whole.nbytes <= self.on_node.largest and self._is_folded(part, operation):
            total = np.empty((self.size, part.size), part.dtype)
            self.on_node.fold(whole, total, operation)
            part[...] = total[self.rank]
        elif self._is_folded(part, operation):
            self._complete_folding("Reduce_scatter_block", whole, part, operation)
        elif whole.size <= mpi.largest_count(self.comm):
            given = self._native(send), recv, mpi.reduction(self.comm, part.dtype, operation)
            self._perform("Reduce_scatter_block", whole.nbytes, *given)
        else:
            self._reduce_parts(whole, recv, op, in_place=in_place)
        deliver(recv)

    def _combine(self, collective: str, send: Any, recv: Any, op: Any, *root: int) -> None:
        """Combine buffers: through memory, gathered or by MPI, which is the same on all ranks."""
        given = recv if send is IN_PLACE else send
        if not self._is_folded(given, op):
            native = mpi.reduction(self.comm, given.dtype, op)
            for piece in self._pieces(given):
                sent, received = (self._native(_cut(part, piece)) for part in (send, recv))
                self._perform(collective, given.nbytes, sent, received, native, *root)
        elif self.on_node is not None and (not root or given.nbytes <= self.on_node.largest):
            self.on_node.fold(given, recv, op)
        else:
            self._complete_folding(collective, given, recv, op, *root)
        deliver(recv)

    def _is_folded(self, part: np.ndarray[Any, Any], op: Any) -> bool:
        return folds(self.size, part.nbytes, self.on_node is not None) and is_folded(part.dtype, op)

    def _complete_folding(self, *arguments: Any) -> None:
        progress.refuse_in_callback("a collective")
        complete(self._gather_and_fold(*arguments), self._meeting(arguments[0], arguments[1].nbytes))

    def _gather_and_fold(self, collective: str, given: Any, recv: Any, op: Op, *root: int) -> Any:
        """Start to gather contributions where they are combined; return a handle of MPI's form."""
        parts = None if recv is None else np.empty((self.size, recv.size), recv.dtype)
        handle = getattr(self.comm, _GATHERING[collective])(given, parts, *root)
        return handle if parts is None else _Folding(handle, parts, recv, op)

    def _reduce_parts(
        self, whole: np.ndarray[Any, Any], recv: np.ndarray[Any, Any], op: Operation, *, in_place: bool
    ) -> None:
        """Combine more elements than one operation of this MPI takes: one part after the other."""
        parts = np.split(whole.reshape(-1), self.size)
        for root, part in enumerate(parts):
            here = self.rank == root
            target = (part if in_place else recv) if here else None
            self.Reduce(IN_PLACE if here and in_place else part, target, op, root)
        if in_place:
            parts[0][...] = parts[self.rank]

    def Gather(self, sendbuf: Buffer | InPlace, recvbuf: Buffer | None = None, root: int = 0) -> None:
        """Gather all ranks' equally long ``sendbuf`` in ``recvbuf`` of ``root``. Collective over team. Blocking."""
        self._check_root(root)
        send, recv = self._gathering(sendbuf, recvbuf, root)
        self._perform("Gather", self._contribution(send, recv), send, recv, root)
        deliver(recv)

    def Allgather(self, sendbuf: Buffer | InPlace, recvbuf: Buffer) -> None:
        """Gather all ranks' equally long ``sendbuf`` in every rank's ``recvbuf``. Collective over team. Blocking."""
        send, recv = self._gathering(sendbuf, recvbuf, self.rank)
        self._perform("Allgather", self._contribution(send, recv), send, recv)
        deliver(recv)

    def Scatter(self, sendbuf: Buffer | None, recvbuf: Buffer | InPlace, root: int = 0) -> None:
        """Scatter ``sendbuf`` of ``root`` in equal parts to all ranks' ``recvbuf``. Collective over team. Blocking."""
        self._check_root(root)
        send, recv = self._scattering(sendbuf, recvbuf, root)
        self._perform("Scatter", self._contribution(recv, send), send, recv, root)
        deliver(recv)

    def Alltoall(self, sendbuf: Buffer | InPlace, recvbuf: Buffer) -> None:
        """Send part r of ``sendbuf`` to rank r; receive part s from rank s. Collective over team. Blocking."""
        send, recv = self._exchanging(sendbuf, recvbuf)
        self._perform("Alltoall", self._contribution(recv, None), send, recv)
        deliver(recv)

    def Gatherv(self, sendbuf: Buffer, recvbuf: VectorBuffer | None = None, root: int = 0) -> None:
        """Gather all ranks' ``sendbuf``, of any length, on ``root``. Collective over team. Blocking.

        Args:
            sendbuf: this rank's contribution.
            recvbuf: on ``root``, a buffer and the number of elements from every rank; ignored on the others.
            root: the rank that gathers.
        """
        self._check_root(root)
        send = as_buffer(staged(sendbuf), "sendbuf")
        recv = self._vector(staged_parts(recvbuf), "recvbuf", send) if self.rank == root else None
        received = None if recv is None else mpi.flat(self.comm, *recv)
        send = send if recv is None else _apart(send, recv[0])
        self._perform("Gatherv", _UNKNOWN, mpi.flat(self.comm, send), received, root)
        deliver(recv)

    def Allgatherv(self, sendbuf: Buffer, recvbuf: VectorBuffer) -> None:
        """Gather all ranks' ``sendbuf``, of any length, on every rank. Collective over team. Blocking.

        Args:
            sendbuf: this rank's contribution.
            recvbuf: a buffer and the number of elements from every rank.
        """
        send = as_buffer(staged(sendbuf), "sendbuf")
        recv = self._vector(staged_parts(recvbuf), "recvbuf", send)
        nbytes = send.itemsize * sum(recv[1]) // self.size
        self._perform("Allgatherv", nbytes, mpi.flat(self.comm, _apart(send, recv[0])), mpi.flat(self.comm, *recv))
        deliver(recv)

    def Scatterv(self, sendbuf: VectorBuffer | None, recvbuf: Buffer, root: int = 0) -> None:
        """Scatter a buffer of ``root`` in parts of any length. Collective over team. Blocking.

        Args:
            sendbuf: on ``root``, a buffer and the number of elements for every rank; ignored on the others.
            recvbuf: room for this rank's part.
            root: the rank whose data are scattered.
        """
        self._check_root(root)
        recv = as_buffer(staged(recvbuf), "recvbuf", writable=True)
        send = self._vector(staged_parts(sendbuf), "sendbuf", recv) if self.rank == root else None
        sent = None if send is None else mpi.flat(self.comm, _apart(send[0], recv), send[1])
        self._perform("Scatterv", _UNKNOWN, sent, mpi.flat(self.comm, recv), root)
        deliver(recv)

    def Alltoallv(self, sendbuf: VectorBuffer, recvbuf: VectorBuffer) -> None:
        """Send parts of any length to every rank, and receive such. Collective over team. Blocking.

        Args:
            sendbuf: a buffer and the number of elements for every rank.
            recvbuf: a buffer and the number of elements from every rank.
        """
        sendbuf, recvbuf = staged_parts(sendbuf), staged_parts(recvbuf)
        recv = as_buffer(recvbuf[0], "recvbuf", writable=True)
        send, received = self._vector(sendbuf, "sendbuf", recv), self._vector(recvbuf, "recvbuf", recv)
        sent = mpi.flat(self.comm, _apart(send[0], recv), send[1])
        self._perform("Alltoallv", _UNKNOWN, sent, mpi.flat(self.comm, *received))
        deliver(received)

    # -- buffers, non-blocking -----------------------------------------------------------------------------------

    def Ibarrier(self) -> Request:
        """Start a barrier: complete when every rank has started it. Collective over team. Non-blocking."""
        return Request(self.comm.Ibarrier())

    def Ibcast(self, buf: Buffer, root: int = 0) -> Request:
        """Start ``Bcast``. Collective over team. Non-blocking; the request's result is ``buf``."""
        message = as_message(staged(buf, load=self.rank == root), "buf", writable=self.rank != root)
        handle = self.comm.Ibcast(mpi.message(self.comm, message), root)
        return Request(handle if self.rank == root else delivering(handle, message), buf, (message,))

    def Ireduce(self, sendbuf: Buffer | InPlace, recvbuf: Buffer | None, op: Operation = SUM, root: int = 0) -> Request:
        """Start ``Reduce``. Collective over team. Non-blocking; the request's result is ``recvbuf``."""
        self._check_root(root)
        result = recvbuf if self.rank == root else None
        return self._start_combining("Reduce", self._reduction("Ireduce", op, sendbuf, result), result, root)

    def Iallreduce(self, sendbuf: Buffer | InPlace, recvbuf: Buffer, op: Operation = SUM) -> Request:
        """Start ``Allreduce``. Collective over team. Non-blocking; the request's result is ``recvbuf``."""
        return self._start_combining("Allreduce", self._reduction("Iallreduce", op, sendbuf, recvbuf), recvbuf)

    def _start_combining(self, collective: str, reduction: tuple[Any, Any, Any], result: Any, *root: int) -> Request:
        send, recv, op = reduction
        given = recv if send is IN_PLACE else send
        if self._is_folded(given, op):
            handle = self._gather_and_fold(collective, given, recv, op, *root)
        else:
            self._refuse_large(given)
            start = getattr(self.comm, "I" + collective.lower())
            handle = start(self._native(send), recv, mpi.reduction(self.comm, given.dtype, op), *root)
        return Request(delivering(handle, recv), result, (send, recv))

    def Igather(self, sendbuf: Buffer | InPlace, recvbuf: Buffer | None = None, root: int = 0) -> Request:
        """Start ``Gather``. Collective over team. Non-blocking; the request's result is ``recvbuf``."""
        send, recv = self._gathering(sendbuf, recvbuf, root)
        handle = delivering(self.comm.Igather(send, recv, root), recv)
        return Request(handle, recvbuf if self.rank == root else None, (send, recv))

    def Iallgather(self, sendbuf: Buffer | InPlace, recvbuf: Buffer) -> Request:
        """Start ``Allgather``. Collective over team. Non-blocking; the request's result is ``recvbuf``."""
        send, recv = self._gathering(sendbuf, recvbuf, self.rank)
        return Request(delivering(self.comm.Iallgather(send, recv), recv), recvbuf, (send, recv))

    def Iscatter(self, sendbuf: Buffer | None, recvbuf: Buffer | InPlace, root: int = 0) -> Request:
        """Start ``Scatter``. Collective over team. Non-blocking; the request's result is ``recvbuf``."""
        send, recv = self._scattering(sendbuf, recvbuf, root)
        return Request(delivering(self.comm.Iscatter(send, recv, root), recv), recvbuf, (send, recv))

    def Ialltoall(self, sendbuf: Buffer | InPlace, recvbuf: Buffer) -> Request:
        """Start ``Alltoall``. Collective over team. Non-blocking; the request's result is ``recvbuf``."""
        send, recv = self._exchanging(sendbuf, recvbuf)
        return Request(delivering(self.comm.Ialltoall(send, recv), recv), recvbuf, (send, recv))

    # -- checks, all before anything is sent ---------------------------------------------------------------------

    def _contribution(self, part: Any, whole: Any) -> int:
        """Return the bytes of one rank; the same on all, although one of the two may be in place or not be known."""
        if isinstance(part, np.ndarray):
            return part.nbytes
        return whole.nbytes // self.size if isinstance(whole, np.ndarray) else sys.maxsize  # too many for one count

    def _native(self, buffer: Any) -> Any:
        if isinstance(buffer, np.ndarray):
            return mpi.message(self.comm, buffer)
        return mpi.in_place(self.comm) if buffer is IN_PLACE else buffer

    def _reduction(
        self, call: str, op: Operation, sendbuf: Any, recvbuf: Any, *, divided: bool = False
    ) -> tuple[Any, Any, Any]:
        """Both buffers, of which the first may consist of a part for every rank, and the operation."""
        in_place = is_in_place(sendbuf)
        sendbuf = staged(sendbuf, whole=not divided)
        recvbuf = staged(recvbuf, load=in_place, whole=not (divided and in_place))
        send = IN_PLACE if in_place else as_operand(sendbuf, "sendbuf")
        recv = None if recvbuf is None else as_operand(recvbuf, "recvbuf", writable=True)
        send = _apart(send, recv)
        _check_pair(recv, send, self.size if divided else 1)
        if is_defined_by_user(op):
            return send, recv, op
        elements = send if isinstance(send, np.ndarray) else recv
        if elements is None:
            raise ValueError("sendbuf is IN_PLACE, which only the root may give: the others send an array of their own")
        return send, recv, operation_on(elements.dtype, op, call)

    def _refuse_large(self, buffer: np.ndarray[Any, Any]) -> None:
        largest = mpi.largest_count(self.comm)
        if buffer.size > largest:
            raise ValueError(f"{buffer.size} elements: a non-blocking reduction takes at most {largest}; split it")

    def _pieces(self, buffer: np.ndarray[Any, Any]) -> list[slice | None]:
        if buffer.size <= mpi.largest_count(self.comm):
            return [None]
        return [slice(begin, begin + mpi.LARGE_BLOCK) for begin in range(0, buffer.size, mpi.LARGE_BLOCK)]

    def _gathering(self, sendbuf: Any, recvbuf: Any, root: int) -> tuple[Any, Any]:
        send = as_contribution(staged(sendbuf), "sendbuf")
        if self.rank != root:
            return self._native(send), None
        recv = as_message(staged(recvbuf, load=send is IN_PLACE, whole=False), "recvbuf", writable=True)
        _check_pair(send, recv, self.size)
        return self._native(_apart(send, recv)), mpi.message(self.comm, recv, self.size)

    def _scattering(self, sendbuf: Any, recvbuf: Any, root: int) -> tuple[Any, Any]:
        recv = as_contribution(staged(recvbuf, load=False), "recvbuf", writable=True)
        if self.rank != root:
            return None, self._native(recv)
        send = as_message(staged(sendbuf, whole=False), "sendbuf")
        _check_pair(recv, send, self.size)
        return mpi.message(self.comm, _apart(send, recv), self.size), self._native(recv)

    def _exchanging(self, sendbuf: Any, recvbuf: Any) -> tuple[Any, Any]:
        send = as_contribution(staged(sendbuf, whole=False), "sendbuf")
        recv = as_message(staged(recvbuf, load=send is IN_PLACE, whole=False), "recvbuf", writable=True)
        _check_pair(send, recv, 1)
        if recv.size % self.size:
            raise ValueError(
                f"a buffer of {recv.size} elements has no equal parts for {self.size} ranks: "
                f"give a multiple of {self.size} elements, or use Alltoallv"
            )
        send = _apart(send, recv)
        whole = mpi.message(self.comm, send, self.size) if isinstance(send, np.ndarray) else self._native(send)
        return whole, mpi.message(self.comm, recv, self.size)

    def _vector(self, given: VectorBuffer | None, what: str, other: np.ndarray[Any, Any]) -> tuple[Any, list[int]]:
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TypeError(f"{what} must be a buffer and the number of elements of every rank: (buffer, counts)")
        buffer = as_buffer(given[0], what, writable=what == "recvbuf").reshape(-1)
        try:
            counts = [int(count) for count in given[1]]
        except (TypeError, ValueError):
            raise TypeError(f"{what} has the counts {given[1]!r}: give a whole number for each rank") from None
        if len(counts) != self.size or min(counts) < 0 or sum(counts) > buffer.size:
            raise ValueError(
                f"{what} has {buffer.size} elements and counts {counts}: give one count for each of the {self.size} "
                "ranks, none negative, in all not more than the buffer has"
            )
        if sum(counts) > mpi.largest_count(self.comm):
            raise ValueError(
                f"{what} has {sum(counts)} elements: this MPI moves at most {mpi.largest_count(self.comm)} in parts of "
                "any length; use equal parts, or several calls"
            )
        if buffer.dtype != other.dtype:
            raise TypeError(f"one side has dtype {buffer.dtype}, the other {other.dtype}: they must be equal")
        return buffer, counts


def _apart(send: Any, recv: Any) -> Any:
    """Return the send buffer, or a copy of it if it shares memory with the receive buffer."""
    if isinstance(send, np.ndarray) and isinstance(recv, np.ndarray) and np.may_share_memory(send, recv):
        return send.copy()
    return send


def _check_pair(part: Any, whole: Any, parts: int) -> None:
    """Check that ``whole`` has the dtype of ``part`` and room for ``parts`` of it."""
    if not isinstance(part, np.ndarray) or not isinstance(whole, np.ndarray):
        return
    if part.dtype != whole.dtype:
        raise TypeError(f"one side has dtype {part.dtype}, the other {whole.dtype}: they must be equal")
    if part.size * parts != whole.size:
        raise ValueError(
            f"{parts} parts of {part.size} elements on one side, {whole.size} elements on the other: they must agree; "
            "for parts of different lengths use the operation whose name ends in v"
        )


class _Folding:
    """A request of MPI that gathers contributions, which are combined in the order of the ranks when it is complete."""

    def __init__(self, handle: Any, parts: np.ndarray[Any, Any], total: np.ndarray[Any, Any], op: Op) -> None:
        self._handle = handle
        self._parts = list(parts)
        self._total, self._op = total.reshape(-1), op

    def Test(self) -> bool:
        """Return whether the result is there."""
        if self._parts and self._handle.Test():
            fold(self._parts, self._total, self._op)
            self._parts = []
        return not self._parts


def _cut(part: Any, piece: slice | None) -> Any:
    return part if piece is None or not isinstance(part, np.ndarray) else part.reshape(-1)[piece]
