"""Messages from one rank of a team to another."""

# ruff: noqa: N802 - upper-case names are MPI's, with MPI's meaning

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable
from functools import partial
from struct import unpack
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from numpy import ndarray

from gondwana.runtime import ordering, progress
from gondwana.runtime.races.reporting import exchanges, prepares, receives, sends
from gondwana.runtime.tracing import Route, counted, traced
from gondwana.runtime.watching import waits
from gondwana.teams import mpi
from gondwana.teams.buffers import Buffer, as_message, deliver, delivering, in_order
from gondwana.teams.request import PersistentRequest, Request, complete, wait_all

P = ParamSpec("P")
R = TypeVar("R")


def _object_route(_: object, team: Any, obj: object, dest: int, tag: int = 0) -> Route:
    """The way of a Python object, which is as long as it was pickled."""
    return None, team.world_ranks[dest], len(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL))


def _buffer_route(_: object, team: Any, buf: Buffer, dest: int, tag: int = 0) -> Route:
    return None, team.world_ranks[dest], as_message(in_order(buf), "buf").nbytes


class Envelope(NamedTuple):
    """The description of a message that has not been received.

    Attributes:
        source: the rank that sent it.
        tag: tag of the message.
        nbytes: its length in bytes.
    """

    source: int
    tag: int
    nbytes: int


DONE = 0
"""Result of machine code for a message that is complete."""
UNFIT = -(2**41)
"""Result of machine code for an array or a rank that it leaves to mpi4py."""
NOT_YET = -(2**42)
"""Result of machine code if no message has come."""
ANY = -(2**40)
"""Rank for machine code that receives from any rank."""


Start: TypeAlias = Callable[[int, int, int, Any], Any]
"""Machine code that starts a message: see `Direct`."""
StartTwo: TypeAlias = Callable[[int, int, int, int, int, int, int, int], int]
"""Machine code that starts two: see `Direct`."""


class Direct(Protocol):
    """Blocking messages of a team of MPI ranks by machine code.

    Attributes:
        block: address of the description of the team for machine code.
        any_tag: tag for receiving any message.
        send: takes the block, the address of an array (its `id`), a rank and a tag; returns `DONE` if the message has
            been sent, else an argument for `finish`.
        receive: the same.
        send_object: takes the block, a rank, a tag and bytes; returns the same as `send`.
        receive_object: takes the block, a rank, a tag and None; returns bytes, None if mpi4py must receive them, or
            an argument for `await_object`.
        sendrecv: takes the arguments of `send`, those of `receive` without the block, and the address of 16 bytes;
            returns `DONE` if both messages are complete; `UNFIT`; or `NOT_YET`, where the bytes are two arguments for
            `finish`, of the receive and of the send.
    """

    block: int
    any_tag: int
    send: Start
    receive: Start
    sendrecv: StartTwo
    send_object: Start
    receive_object: Start

    def await_object(self, found: Any, rank: int, tag: int, message: waits.Message) -> Any:
        """Wait for the bytes of an object, or return None: mpi4py must. Blocking; user-level progress."""

    def finish(self, found: int, what: waits.Message | waits.Wait, *buffers: ndarray[Any, Any]) -> bool:
        """Wait until a message is complete, or return False: it was left to mpi4py. Blocking; user-level progress."""


def _of_anyone(receive: Callable[P, R]) -> Callable[P, R]:
    """Decorate a call that may take a message of any rank, or with any tag: the log of events says which it is."""
    log = ordering.log
    if log is None:
        return receive
    parameters = inspect.signature(receive)

    @functools.wraps(receive)
    def receive_in_order(*args: P.args, **kwargs: P.kwargs) -> R:
        given = parameters.bind(*args, **kwargs)
        given.apply_defaults()
        team, source, tag = (given.arguments[name] for name in ("self", "source", "tag"))
        if (source is None or tag is None) and not mpi.is_serial(team.comm):
            given.arguments["source"], given.arguments["tag"] = team._next_message(log, source, tag)
        return receive(*given.args, **given.kwargs)

    return ordering.counted(receive_in_order)


def _as_recorded(probe: Callable[P, Envelope | None]) -> Callable[P, Envelope | None]:
    """Decorate a probe that does not wait: the log of events says what it finds."""
    log = ordering.log
    if log is None:
        return probe

    @functools.wraps(probe)
    def probe_in_order(*args: P.args, **kwargs: P.kwargs) -> Envelope | None:
        if not log.replaying or log.is_over():
            found = probe(*args, **kwargs)
            log.happens(ordering.ENVELOPE, _NO_MESSAGE if found is None else found.source << _RANK_SHIFT | found.tag)
            return found
        value = log.next_of(ordering.ENVELOPE)
        if value is None:
            raise log.differs()
        log.happens(ordering.ENVELOPE)
        found = None
        while found is None and value != _NO_MESSAGE:
            progress.advance()
            found = probe(args[0], value >> _RANK_SHIFT, value & _TAGS)  # type: ignore[call-arg, arg-type]
        return found

    return ordering.counted(probe_in_order)


_RANK_SHIFT, _TAGS, _NO_MESSAGE = 32, (1 << 32) - 1, (1 << 56) - 1
"""An envelope as the value of an event: the rank, and the tag in the bits below the shift; or that there is none."""


class Messages:
    """Point-to-point operations under mpi4py's names.

    Messages between two ranks with one tag arrive in the order in which they were sent. For a receive, ``source=None``
    means "from any rank" and ``tag=None`` "with any tag". Only the two ranks take part: no operation is collective.
    Blocking operations make user-level progress meanwhile, and so raise ProgressError in callbacks.

    Elements of buffers travel in the order of their indices, the last one fastest (C's), whatever the memory order. An
    array in Fortran's order is copied before or after; requests that are started many times refuse it.
    """

    comm: mpi.Communicator
    size: int
    direct: Direct | None = None
    _pickler: Any
    world_ranks: tuple[int, ...]

    @sends
    @ordering.counted
    @counted("message", _object_route)
    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send a Python object to rank ``dest``; it is pickled. Blocking until the object may be changed."""
        if isinstance(obj, ndarray):
            raise TypeError("send pickles Python objects, which is slow for an array: use Send and Recv")
        direct = self.direct
        if direct is not None:
            data = self._pickler.dumps(obj)
            found = direct.send_object(direct.block, dest, tag, data)
            if found == DONE or direct.finish(found, (waits.SEND, self.world_ranks, dest, tag), data):
                return
        if mpi.is_serial(self.comm):
            self.comm.send(obj, self._partner(dest, "dest"), tag)
        else:
            test = self.comm.isend(obj, self._partner(dest, "dest"), tag).Test
            why = partial(waits.of_message, waits.SEND, self.world_ranks, dest, tag)
            progress.wait_until(test, "a message to be sent", why=why)

    @receives
    @_of_anyone
    @traced("message", "recv")
    def recv(self, source: int | None = None, tag: int | None = None) -> Any:
        """Return an object that ``send`` sent here. Blocking until it has arrived."""
        direct = self.direct
        if direct is not None:
            rank, number = ANY if source is None else source, direct.any_tag if tag is None else tag
            found = direct.receive_object(direct.block, rank, number, None)
            if type(found) is int:
                found = direct.await_object(found, rank, number, (waits.RECEIVE, self.world_ranks, source, tag))
            if found is not None:
                return self._pickler.loads(found)
        place = self._from(source, tag)
        if not mpi.is_serial(self.comm):
            why = partial(waits.of_message, waits.RECEIVE, self.world_ranks, source, tag)
            progress.wait_until(lambda: self.comm.Iprobe(*place), "a message", why=why)
        return self.comm.recv(None, *place)

    @sends
    @ordering.counted
    @counted("message", _buffer_route)
    def Send(self, buf: Buffer, dest: int, tag: int = 0) -> None:
        """Send a buffer to rank ``dest``. Blocking until the buffer may be changed."""
        direct = self.direct
        if direct is not None and type(buf) is ndarray:
            found = direct.send(direct.block, id(buf), dest, tag)
            if found == DONE or direct.finish(found, (waits.SEND, self.world_ranks, dest, tag), buf):
                return
        message = as_message(in_order(buf), "buf")
        handle = self.comm.Isend(mpi.message(self.comm, message), self._partner(dest, "dest"), tag)
        complete(handle, partial(waits.of_message, waits.SEND, self.world_ranks, dest, tag, message.nbytes))

    @receives
    @_of_anyone
    @traced("message", "Recv")
    def Recv(self, buf: Buffer, source: int | None = None, tag: int | None = None) -> None:
        """Receive a message, at most as long as ``buf``, into ``buf``. Blocking until it has arrived."""
        direct = self.direct
        if direct is not None and type(buf) is ndarray:
            rank, number = ANY if source is None else source, direct.any_tag if tag is None else tag
            found = direct.receive(direct.block, id(buf), rank, number)
            if found == DONE or direct.finish(found, (waits.RECEIVE, self.world_ranks, source, tag), buf):
                return
        message = as_message(in_order(buf), "buf", writable=True)
        handle = self.comm.Irecv(mpi.message(self.comm, message), *self._from(source, tag))
        complete(handle, partial(waits.of_message, waits.RECEIVE, self.world_ranks, source, tag, message.nbytes))
        deliver(message)

    @exchanges
    @ordering.counted
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
            sendbuf: the data to send; share no memory with ``recvbuf``.
            dest: the rank that receives it.
            sendtag: tag of the sent message.
            recvbuf: room for the message that is received.
            source: the rank that sends it, None for any.
            recvtag: tag of the received message, None for any.

        Example:
            >>> import gondwana as gw, numpy as np
            >>> mine, theirs = np.array([gw.world.rank]), np.array([-1])
            >>> left, right = (gw.world.rank - 1) % gw.world.size, (gw.world.rank + 1) % gw.world.size
            >>> gw.world.Sendrecv(mine, right, 0, theirs, left, 0)
            >>> int(theirs[0]) == left
            True
        """
        direct = self.direct
        if direct is not None and type(sendbuf) is ndarray and type(recvbuf) is ndarray:
            rank, number = ANY if source is None else source, direct.any_tag if recvtag is None else recvtag
            pair = bytes(16)
            found = direct.sendrecv(direct.block, id(sendbuf), dest, sendtag, id(recvbuf), rank, number, id(pair))
            if found == DONE:
                return
            if found == NOT_YET:
                found, sent = unpack("qq", pair)
                direct.finish(sent, (waits.SEND, self.world_ranks, dest, sendtag), sendbuf, recvbuf)
            if direct.finish(found, (waits.RECEIVE, self.world_ranks, source, recvtag), recvbuf):
                return
        message = as_message(in_order(sendbuf), "sendbuf")
        self._partner(dest, "dest")
        as_message(in_order(recvbuf), "recvbuf", writable=True)
        received = self.Irecv(recvbuf, source, recvtag)
        wait_all((self.Isend(message, dest, sendtag), received))

    @_of_anyone
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
            found = self._probe(source, tag)
            return found is not None

        why = partial(waits.of_message, waits.RECEIVE, self.world_ranks, source, tag)
        progress.wait_until(has_arrived, "a message", why=why)
        assert found is not None
        return found

    @_as_recorded
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
        return self._probe(source, tag)

    def _probe(self, source: int | None, tag: int | None) -> Envelope | None:
        found = mpi.probe(self.comm, *self._from(source, tag))
        return None if found is None else Envelope(*found)

    def _next_message(self, log: ordering.Log, source: int | None, tag: int | None) -> tuple[int, int]:
        """Return rank and tag of the message that comes first, now or in the recorded run; wait for it."""
        found: Envelope | None = None

        def has_arrived() -> bool:
            nonlocal found
            found = self._probe(source, tag)
            return found is not None

        if not log.replaying or log.is_over():
            why = partial(waits.of_message, waits.RECEIVE, self.world_ranks, source, tag)
            progress.wait_until(has_arrived, "a message", why=why)
            assert found is not None
            log.happens(ordering.ENVELOPE, found.source << _RANK_SHIFT | found.tag)
            return found.source, found.tag
        progress.wait_until(lambda: log.next_of(ordering.ENVELOPE) is not None, "the recorded order of messages")
        value = log.next_of(ordering.ENVELOPE) or 0
        log.happens(ordering.ENVELOPE)
        return value >> _RANK_SHIFT, value & _TAGS

    @sends
    @counted("message", _buffer_route)
    def Isend(self, buf: Buffer, dest: int, tag: int = 0) -> Request:
        """Start ``Send``. Non-blocking; leave ``buf`` unchanged until the request has completed."""
        message = as_message(in_order(buf), "buf")
        handle = self.comm.Isend(mpi.message(self.comm, message), self._partner(dest, "dest"), tag)
        return Request(handle, None, (message,), (waits.SEND, self.world_ranks, dest, tag))

    @receives
    def Irecv(self, buf: Buffer, source: int | None = None, tag: int | None = None) -> Request:
        """Start ``Recv``. Non-blocking; the request's result is ``buf``."""
        message = as_message(in_order(buf), "buf", writable=True)
        handle = mpi.noted(self.comm.Irecv(mpi.message(self.comm, message), *self._from(source, tag)), source, tag)
        return Request(delivering(handle, message), buf, (message,), (waits.RECEIVE, self.world_ranks, source, tag))

    @prepares
    def Send_init(self, buf: Buffer, dest: int, tag: int = 0) -> PersistentRequest:
        """Prepare sending ``buf`` to rank ``dest`` many times. Local: ``start`` of the request sends."""
        message = as_message(buf, "buf")
        handle = self.comm.Send_init(mpi.message(self.comm, message), self._partner(dest, "dest"), tag)
        sent = waits.SEND, self.world_ranks, dest, tag
        return PersistentRequest(handle, None, (message,), sent, (None, self.world_ranks[dest], message.nbytes))

    @prepares
    def Recv_init(self, buf: Buffer, source: int | None = None, tag: int | None = None) -> PersistentRequest:
        """Prepare receiving into ``buf`` many times. Local: ``start`` of the request receives."""
        message = as_message(buf, "buf", writable=True)
        handle = mpi.noted(self.comm.Recv_init(mpi.message(self.comm, message), *self._from(source, tag)), source, tag)
        return PersistentRequest(handle, buf, (message,), (waits.RECEIVE, self.world_ranks, source, tag))

    def _partner(self, rank: int, what: str) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"{what}={rank}, but the ranks of this team are 0 to {self.size - 1}")
        return rank

    def _from(self, source: int | None, tag: int | None) -> tuple[int | None, int | None]:
        if source is not None:
            self._partner(source, "source")
        return mpi.any_source(self.comm, source), mpi.any_tag(self.comm, tag)
