"""Messages from one rank of a team to another."""

# ruff: noqa: N802 - upper-case names are MPI's, with MPI's meaning

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.runtime import progress
from gondwana.teams import mpi
from gondwana.teams.buffers import Buffer, as_message
from gondwana.teams.request import PersistentRequest, Request


class Messages:
    """Point-to-point operations under mpi4py's names.

    Messages between two ranks with one tag arrive in the order in which they were sent. For a receive, ``source=None``
    means "from any rank" and ``tag=None`` "with any tag". Only the two ranks take part: no operation is collective.
    Blocking operations make user-level progress meanwhile, and so raise ProgressError in callbacks.
    """

    comm: mpi.Communicator
    size: int

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send a Python object to rank ``dest``; it is pickled. Blocking until the object may be changed."""
        if isinstance(obj, np.ndarray):
            raise TypeError("send pickles Python objects, which is slow for an array: use Send and Recv")
        if mpi.is_serial(self.comm):
            self.comm.send(obj, self._partner(dest, "dest"), tag)
        else:
            progress.wait_until(self.comm.isend(obj, self._partner(dest, "dest"), tag).Test, "a message to be sent")

    def recv(self, source: int | None = None, tag: int | None = None) -> Any:
        """Return an object that ``send`` sent here. Blocking until it has arrived."""
        place = self._from(source, tag)
        if not mpi.is_serial(self.comm):
            progress.wait_until(lambda: self.comm.Iprobe(*place), "a message")
        return self.comm.recv(None, *place)

    def Send(self, buf: Buffer, dest: int, tag: int = 0) -> None:
        """Send a buffer to rank ``dest``. Blocking until the buffer may be changed."""
        self.Isend(buf, dest, tag).wait()

    def Recv(self, buf: Buffer, source: int | None = None, tag: int | None = None) -> None:
        """Receive a message, at most as long as ``buf``, into ``buf``. Blocking until it has arrived."""
        self.Irecv(buf, source, tag).wait()

    def Isend(self, buf: Buffer, dest: int, tag: int = 0) -> Request:
        """Start ``Send``. Non-blocking; leave ``buf`` unchanged until the request has completed."""
        message = as_message(buf, "buf")
        return Request(
            self.comm.Isend(mpi.message(self.comm, message), self._partner(dest, "dest"), tag), None, (message,)
        )

    def Irecv(self, buf: Buffer, source: int | None = None, tag: int | None = None) -> Request:
        """Start ``Recv``. Non-blocking; the request's result is ``buf``."""
        message = as_message(buf, "buf", writable=True)
        return Request(self.comm.Irecv(mpi.message(self.comm, message), *self._from(source, tag)), buf, (message,))

    def Send_init(self, buf: Buffer, dest: int, tag: int = 0) -> PersistentRequest:
        """Prepare sending ``buf`` to rank ``dest`` many times. Local: ``start`` of the request sends."""
        message = as_message(buf, "buf")
        return PersistentRequest(
            self.comm.Send_init(mpi.message(self.comm, message), self._partner(dest, "dest"), tag), None, (message,)
        )

    def Recv_init(self, buf: Buffer, source: int | None = None, tag: int | None = None) -> PersistentRequest:
        """Prepare receiving into ``buf`` many times. Local: ``start`` of the request receives."""
        message = as_message(buf, "buf", writable=True)
        return PersistentRequest(
            self.comm.Recv_init(mpi.message(self.comm, message), *self._from(source, tag)), buf, (message,)
        )

    def _partner(self, rank: int, what: str) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"{what}={rank}, but the ranks of this team are 0 to {self.size - 1}")
        return rank

    def _from(self, source: int | None, tag: int | None) -> tuple[int | None, int | None]:
        if source is not None:
            self._partner(source, "source")
        return mpi.any_source(self.comm, source), mpi.any_tag(self.comm, tag)
