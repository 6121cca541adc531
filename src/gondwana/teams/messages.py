"""Messages from one rank of a team to another."""

# ruff: noqa: N802 - upper-case names are MPI's, with MPI's meaning

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np

from gondwana.runtime import progress
from gondwana.runtime.tracing import Route, counted, traced
from gondwana.teams import mpi
from gondwana.teams.buffers import Buffer, as_message
from gondwana.teams.request import PersistentRequest, Request, complete, wait_all


def _object_route(_: object, team: Any, obj: object, dest: int, tag: int = 0) -> Route:
    """The way of a Python object, which is as long as it was pickled."""
    return None, team.world_ranks[dest], len(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL))


def _buffer_route(_: object, team: Any, buf: Buffer, dest: int, tag: int = 0) -> Route:
    return None, team.world_ranks[dest], as_message(buf, "buf").nbytes


class Envelope(NamedTuple):
    """What is known of a message before it is received.

    Attributes:
        source: the rank that sent it.
        tag: with which it was sent.
        nbytes: its length in bytes.
    """

    source: int
    tag: int
    nbytes: int


class Messages:
    """Point-to-point operations under mpi4py's names.

    Messages between two ranks with one tag arrive in the order in which they were sent. For a receive, ``source=None``
    means "from any rank" and ``tag=None`` "with any tag". Only the two ranks take part: no operation is collective.
    Blocking operations make user-level progress meanwhile, and so raise ProgressError in callbacks.
    """

    comm: mpi.Communicator
    size: int
    world_ranks: tuple[int, ...]

    @counted("message", _object_route)
    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send a Python object to rank ``dest``; it is pickled. Blocking until the object may be changed."""
        if isinstance(obj, np.ndarray):
            raise TypeError("send pickles Python objects, which is slow for an array: use Send and Recv")
        if mpi.is_serial(self.comm):
            self.comm.send(obj, self._partner(dest, "dest"), tag)
        else:
            progress.wait_until(self.comm.isend(obj, self._partner(dest, "dest"), tag).Test, "a message to be sent")

    @traced("message", "recv")
    def recv(self, source: int | None = None, tag: int | None = None) -> Any:
        """Return an object that ``send`` sent here. Blocking until it has arrived."""
        place = self._from(source, tag)
        if not mpi.is_serial(self.comm):
            progress.wait_until(lambda: self.comm.Iprobe(*place), "a message")
        return self.comm.recv(None, *place)

    @counted("message", _buffer_route)
    def Send(self, buf: Buffer, dest: int, tag: int = 0) -> None:
        """Send a buffer to rank ``dest``. Blocking until the buffer may be changed."""
        message = mpi.message(self.comm, as_message(buf, "buf"))
        complete(self.comm.Isend(message, self._partner(dest, "dest"), tag))

    @traced("message", "Recv")
    def Recv(self, buf: Buffer, source: int | None = None, tag: int | None = None) -> None:
        """Receive a message, at most as long as ``buf``, into ``buf``. Blocking until it has arrived."""
        message = mpi.message(self.comm, as_message(buf, "buf", writable=True))
        complete(self.comm.Irecv(message, *self._from(source, tag)))

    @traced("message", "Sendrecv")
    def Sendrecv(
        self,
        sendbuf: Buffer,
        dest: int,
        sendtag: int = 0,
        recvbuf: Buffer | None = None,
        source: int | None = None,
        recvtag: int | None = None,
    ) -> None:
        """Send a buffer to one rank and receive one from the same or another rank. Blocking until both are done.

        Ranks that send around a ring, or exchange in pairs, do not wait for each other's receive.

        Args:
            sendbuf: what is sent; shares no memory with ``recvbuf``.
            dest: the rank that receives it.
            sendtag: its tag.
            recvbuf: room for the message that is received.
            source: the rank that sends it, None for any.
            recvtag: its tag, None for any.

        Example:
            >>> import gondwana as gw, numpy as np
            >>> mine, theirs = np.array([gw.world.rank]), np.array([-1])
            >>> left, right = (gw.world.rank - 1) % gw.world.size, (gw.world.rank + 1) % gw.world.size
            >>> gw.world.Sendrecv(mine, right, 0, theirs, left, 0)
            >>> int(theirs[0]) == left
            True
        """
        message = as_message(sendbuf, "sendbuf")
        as_message(recvbuf, "recvbuf", writable=True)
        self._partner(dest, "dest")
        received = self.Irecv(recvbuf, source, recvtag)
        wait_all((self.Isend(message, dest, sendtag), received))

    @traced("message", "Probe")
    def Probe(self, source: int | None = None, tag: int | None = None) -> Envelope:
        """Return the envelope of the next message that a receive would take. Blocking until there is one.

        The message stays where it is, so that a buffer of its length can be made for it.
        """
        self._from(source, tag)
        if mpi.is_serial(self.comm):
            self.comm.check_sent(tag)
        found: Envelope | None = None

        def has_arrived() -> bool:
            nonlocal found
            found = self.Iprobe(source, tag)
            return found is not None

        progress.wait_until(has_arrived, "a message")
        assert found is not None
        return found

    def Iprobe(self, source: int | None = None, tag: int | None = None) -> Envelope | None:
        """Return the envelope of the next message that a receive would take, None if there is none. Local.

        Example:
            >>> import gondwana as gw, numpy as np
            >>> alone = gw.world.split(gw.world.rank)
            >>> request = alone.Isend(np.zeros(3), 0, tag=7)
            >>> alone.Probe().nbytes, alone.Iprobe(tag=8)
            (24, None)
            >>> alone.Recv(np.zeros(3)), request.wait()
            (None, None)
        """
        found = mpi.probe(self.comm, *self._from(source, tag))
        return None if found is None else Envelope(*found)

    @counted("message", _buffer_route)
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
        handle = self.comm.Send_init(mpi.message(self.comm, message), self._partner(dest, "dest"), tag)
        return PersistentRequest(handle, None, (message,), (None, self.world_ranks[dest], message.nbytes))

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
