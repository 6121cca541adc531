"""The collective operations of a team on buffers: every rank of the team calls them, in the same order."""

# ruff: noqa: N802 - upper-case names are MPI's, with MPI's meaning

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy import ndarray

from gondwana.runtime.tracing import each_method
from gondwana.teams import mpi
from gondwana.teams.blocking import MOST_GATHERED, MOST_GATHERING
from gondwana.teams.buffers import (
    Buffer,
    VectorBuffer,
    are_plain,
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
    UFUNCS,
    InPlace,
    Op,
    Operation,
    fold,
    is_defined_by_user,
    operation_on,
)
from gondwana.teams.request import Request

_UNKNOWN = 0
"""Stands for the bytes of a rank where the ranks do not know each other's, so that all must take the same way."""


@each_method("collective")
class Collectives(ObjectCollectives):
    """Collective operations under mpi4py's names: lower case for Python objects, upper case for buffers.

    Objects travel by pickling; arrays are refused there. Buffers are contiguous arrays, or anything with the buffer
    protocol; both sides must have the same dtype and sizes that fit, which is checked before anything is sent.

    Elements are sent and combined in the order of their indices, the last one fastest (C's), whatever the memory order:
    ranks need not agree on one. An array in Fortran's order is copied before or after. One that consists of parts for
    or from the ranks is refused in that order: its transpose has the same memory in C's.

    A buffer may also be an array in the memory of a device of this rank: a `gw.DeviceArray`, what `gw.array_at` gives,
    or an array of another library on a GPU (DLPack, ``__cuda_array_interface__``). Host memory of the same size takes
    its place, since MPI is never given device memory; so results have the same bits as those of arrays on the host.
    What is sent is what the kernels leave that this rank has launched before. The copy to the device is part of the
    operation. Non-blocking operations wait until what they send is on the host.

    Blocking operations make user-level progress while they wait, so that ranks which are late can still call remote
    procedures here; in callbacks they raise ProgressError. They wait for what they need and no longer: as in MPI, only
    those in which each rank gets something from all others (and `barrier`) say that all ranks have come.
    """

    # -- buffers, blocking ---------------------------------------------------------------------------------------

    def Bcast(self, buf: Buffer, root: int = 0) -> None:
        """Fill ``buf`` on every rank with that of ``root``. Collective over team. Blocking."""
        on_node = self.on_node
        direct = on_node or self.between_nodes
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
        native = self._combining(operation, send, recv)
        for piece in self._pieces(send, recv):
            sent, received = (self._native(_cut(part, piece)) for part in (send, recv))
            self._perform("Reduce", _nbytes(send, recv), sent, received, native, root)
        deliver(recv)

    def Allreduce(self, sendbuf: Buffer | InPlace, recvbuf: Buffer, op: Operation = SUM) -> None:
        """Combine all ``sendbuf`` element by element in every ``recvbuf``. Collective over team. Blocking.

        Args:
            sendbuf: this rank's contribution, or ``IN_PLACE``: it lies in ``recvbuf``.
            recvbuf: room for as many elements.
            op: the operation: ``gw.MAX``, ``"max"`` or mpi4py's ``MPI.MAX``.
        """
        on_node, given = self.on_node, recvbuf if sendbuf is IN_PLACE else sendbuf
        direct = on_node or self.between_nodes  # short cuts: what follows each of them takes as long as all of it
        if direct is not None and type(op) is Op and type(recvbuf) is type(given) is ndarray:
            if direct.combine(given, recvbuf, op):
                return
            if on_node is not None and are_plain(given, recvbuf):
                if on_node.allreduce(given, recvbuf, op):
                    return
                if recvbuf.size < mpi.LARGE_BLOCK:
                    native = mpi.operation(recvbuf.dtype.char, op)
                    on_node.barrier()
                    self.comm.Allreduce(mpi.module().IN_PLACE if sendbuf is IN_PLACE else sendbuf, recvbuf, native)
                    return
        send, recv, operation = self._reduction("Allreduce", op, sendbuf, recvbuf)
        contribution = recv if send is IN_PLACE else send
        if on_node is None or not on_node.allreduce(contribution, recv, operation):
            if self._is_gathered(recv, operation):
                self._combine_gathered(contribution, recv, operation)
            else:
                self._combine_by_mpi(send, recv, operation)
        deliver(recv)

    def _combine_by_mpi(self, send: Any, recv: np.ndarray[Any, Any], op: Any) -> None:
        for piece in self._pieces(send, recv):
            sent, received = (self._native(_cut(part, piece)) for part in (send, recv))
            self._perform("Allreduce", recv.nbytes, sent, received, self._combining(op, recv))

    def _is_gathered(self, recv: np.ndarray[Any, Any], op: Any) -> bool:
        few = self.size * recv.nbytes <= MOST_GATHERED and 1 < self.size <= MOST_GATHERING
        return few and self.on_node is None and type(op) is Op and op in UFUNCS

    def _combine_gathered(self, send: np.ndarray[Any, Any], recv: np.ndarray[Any, Any], op: Op) -> None:
        """Gather few contributions on all ranks, in one step of the network, and combine them in their order."""
        parts = np.empty((self.size, send.size), send.dtype)
        self._perform("Allgather", send.nbytes, send, parts)
        fold(list(parts), recv.reshape(-1), op)

    def Reduce_scatter_block(self, sendbuf: Buffer | InPlace, recvbuf: Buffer, op: Operation = SUM) -> None:
        """Combine all ``sendbuf`` element by element, and leave part r of the result on rank r. Collective over team.

        Blocking.

        Args:
            sendbuf: this rank's contribution, one equal part for every rank; or ``IN_PLACE``: it lies in ``recvbuf``.
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
        if whole.size <= mpi.largest_count(self.comm):
            given = self._native(send), recv, self._combining(operation, send, recv)
            self._perform("Reduce_scatter_block", whole.nbytes, *given)
        else:
            self._reduce_parts(whole, recv, op, in_place=in_place)
        deliver(recv)

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
        self._perform("Allgatherv", nbytes, mpi.flat(self.comm, send), mpi.flat(self.comm, *recv))
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
        sent = None if send is None else mpi.flat(self.comm, *send)
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
        self._perform("Alltoallv", _UNKNOWN, mpi.flat(self.comm, *send), mpi.flat(self.comm, *received))
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
        send, recv, operation = self._reduction("Ireduce", op, sendbuf, recvbuf if self.rank == root else None)
        self._refuse_large(send, recv)
        handle = self.comm.Ireduce(self._native(send), recv, self._combining(operation, send, recv), root)
        return Request(delivering(handle, recv), recvbuf if self.rank == root else None, (send, recv))

    def Iallreduce(self, sendbuf: Buffer | InPlace, recvbuf: Buffer, op: Operation = SUM) -> Request:
        """Start ``Allreduce``. Collective over team. Non-blocking; the request's result is ``recvbuf``."""
        send, recv, operation = self._reduction("Iallreduce", op, sendbuf, recvbuf)
        self._refuse_large(send, recv)
        handle = self.comm.Iallreduce(self._native(send), recv, self._combining(operation, send, recv))
        return Request(delivering(handle, recv), recvbuf, (send, recv))

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

    def _combining(self, op: Operation, *buffers: Any) -> Any:
        """What combines the elements of buffers, of which some may be in place or none of this rank's."""
        dtype = next(buffer.dtype for buffer in buffers if isinstance(buffer, np.ndarray))
        return mpi.reduction(self.comm, dtype, op)

    def _reduction(
        self, call: str, op: Operation, sendbuf: Any, recvbuf: Any, *, divided: bool = False
    ) -> tuple[Any, Any, Any]:
        """Both buffers, of which the one that is sent may consist of a part for every rank, and the operation."""
        in_place = is_in_place(sendbuf)
        sendbuf = staged(sendbuf, whole=not divided)
        recvbuf = staged(recvbuf, load=in_place, whole=not (divided and in_place))
        send = IN_PLACE if in_place else as_operand(sendbuf, "sendbuf")
        recv = None if recvbuf is None else as_operand(recvbuf, "recvbuf", writable=True)
        _check_pair(recv, send, self.size if divided else 1)
        if is_defined_by_user(op):
            return send, recv, op
        elements = send if isinstance(send, np.ndarray) else recv
        if elements is None:
            raise ValueError("sendbuf is IN_PLACE, which only the root may give: the others send an array of their own")
        return send, recv, operation_on(elements.dtype, op, call)

    def _refuse_large(self, *buffers: Any) -> None:
        largest = mpi.largest_count(self.comm)
        for buffer in buffers:
            if isinstance(buffer, np.ndarray) and buffer.size > largest:
                raise ValueError(f"{buffer.size} elements: a non-blocking reduction takes at most {largest}; split it")

    def _pieces(self, *buffers: Any) -> list[slice | None]:
        size = max(buffer.size for buffer in buffers if isinstance(buffer, np.ndarray))
        if size <= mpi.largest_count(self.comm):
            return [None]
        return [slice(begin, begin + mpi.LARGE_BLOCK) for begin in range(0, size, mpi.LARGE_BLOCK)]

    def _gathering(self, sendbuf: Any, recvbuf: Any, root: int) -> tuple[Any, Any]:
        send = as_contribution(staged(sendbuf), "sendbuf")
        if self.rank != root:
            return self._native(send), None
        recv = as_message(staged(recvbuf, load=send is IN_PLACE, whole=False), "recvbuf", writable=True)
        _check_pair(send, recv, self.size)
        return self._native(send), mpi.message(self.comm, recv, self.size)

    def _scattering(self, sendbuf: Any, recvbuf: Any, root: int) -> tuple[Any, Any]:
        recv = as_contribution(staged(recvbuf, load=False), "recvbuf", writable=True)
        if self.rank != root:
            return None, self._native(recv)
        send = as_message(staged(sendbuf, whole=False), "sendbuf")
        _check_pair(recv, send, self.size)
        return mpi.message(self.comm, send, self.size), self._native(recv)

    def _exchanging(self, sendbuf: Any, recvbuf: Any) -> tuple[Any, Any]:
        send = as_contribution(staged(sendbuf, whole=False), "sendbuf")
        recv = as_message(staged(recvbuf, load=send is IN_PLACE, whole=False), "recvbuf", writable=True)
        _check_pair(send, recv, 1)
        if recv.size % self.size:
            raise ValueError(
                f"a buffer of {recv.size} elements has no equal parts for {self.size} ranks: "
                f"give a multiple of {self.size} elements, or use Alltoallv"
            )
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


def _nbytes(send: Any, recv: Any) -> int:
    return int((send if isinstance(send, np.ndarray) else recv).nbytes)


def _cut(part: Any, piece: slice | None) -> Any:
    return part if piece is None or not isinstance(part, np.ndarray) else part.reshape(-1)[piece]
