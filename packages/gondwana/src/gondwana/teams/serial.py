"""The communicator of a program that runs without MPI: one rank, with the behaviour that MPI has on one rank."""

# ruff: noqa: N802 - upper-case names are MPI's, with MPI's meaning

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _sent(obj: Any) -> Any:
    """Return a copy of ``obj`` as its receiver gets it; raise if it cannot be pickled."""
    return pickle.loads(pickle.dumps(obj))


def _part(buffer: Any) -> Any:
    """Return the elements that a buffer and their number say."""
    return buffer[0][: buffer[1][0]] if isinstance(buffer, tuple) else buffer


def _move(source: Any, target: Any) -> None:
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        np.copyto(target.reshape(-1), source.reshape(-1))


class SerialRequest:
    """An operation that has started, in the form of an MPI request. Local."""

    def __init__(self, receive: _Receive | None = None) -> None:
        self._receive = receive

    def Test(self) -> bool:
        """Return whether the operation has completed."""
        return self._receive is None or self._receive.done

    def Wait(self) -> None:
        """Check that the operation has completed: with one rank, nothing else can complete it."""
        if not self.Test():
            raise RuntimeError(
                "waiting for a message that cannot come: this program has one rank, which has not sent to itself with "
                f"tag {self._receive.tag if self._receive else None}: send first, or start more ranks"
            )

    def Free(self) -> None:
        """Free the request."""


class SerialPersistentRequest(SerialRequest):
    """A send or a receive that can be started many times. Local."""

    def __init__(self, comm: SerialComm, buffer: Array, tag: int | None, *, sends: bool) -> None:
        super().__init__()
        self._comm, self._buffer, self._tag, self._sends = comm, buffer, tag, sends

    def Start(self) -> None:
        """Start the operation once more."""
        if self._sends:
            self._comm.Send(self._buffer, 0, self._tag or 0)
        else:
            self._receive = self._comm.post(self._buffer, self._tag)


class _Receive:
    """A receive without its message yet."""

    def __init__(self, buffer: Array, tag: int | None) -> None:
        self.buffer, self.tag, self.done = buffer, tag, False

    def accepts(self, tag: int) -> bool:
        return self.tag is None or self.tag == tag

    def take(self, message: Array) -> None:
        if message.nbytes > self.buffer.nbytes:
            raise ValueError(
                f"message truncated: {message.nbytes} bytes for a buffer of {self.buffer.nbytes}: give a larger buffer"
            )
        target = self.buffer.reshape(-1).view(np.uint8)
        target[: message.nbytes] = message
        self.done = True


class SerialComm:
    """A communicator of one rank, which can send to itself. Local.

    The methods have the names, the arguments and the effects of an mpi4py communicator of size 1, so that a team needs
    no second implementation. Sends complete immediately; receives match sends by tag, in order.
    """

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._messages: list[tuple[int, Array]] = []
        self._receives: list[_Receive] = []

    def Barrier(self) -> None:
        """Do nothing: there is no other rank to wait for."""

    # -- collectives: what one rank gives comes back to it ------------------------------------------------------------

    def _same(self, obj: Any, *_: Any, **__: Any) -> Any:
        """Return a copy of ``obj``."""
        return _sent(obj)

    def scatter(self, objs: Any, *_: Any, **__: Any) -> Any:
        """Return the only element of ``objs``."""
        (obj,) = objs
        return _sent(obj)

    def _list(self, obj: Any, *_: Any, **__: Any) -> list[Any]:
        """Return ``[obj]``."""
        return [_sent(obj)]

    def _moved(self, send: Any, recv: Any = None, *_: Any, **__: Any) -> None:
        """Copy ``send`` to ``recv``, each a buffer or a buffer and the number of elements in it."""
        _move(_part(send), _part(recv))

    def _started(self, send: Any = None, recv: Any = None, *_: Any, **__: Any) -> SerialRequest:
        """Copy ``send`` to ``recv``."""
        _move(send, recv)
        return SerialRequest()

    def exscan(self, obj: Any, op: Any) -> None:
        """Return None: there is no rank before this one."""

    bcast = reduce = allreduce = scan = _same
    gather = allgather = _list

    def alltoall(self, objs: Any) -> list[Any]:
        """Return a copy of ``objs``, which has one element."""
        return [self.scatter(objs)]

    Bcast = Reduce = Allreduce = Reduce_scatter_block = Gather = Allgather = Scatter = Alltoall = _moved
    Gatherv = Allgatherv = Scatterv = Alltoallv = _moved
    Ibarrier = Ibcast = Ireduce = Iallreduce = Igather = Iallgather = Iscatter = Ialltoall = _started

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send ``obj``, pickled."""
        self.Send(np.frombuffer(pickle.dumps(obj), np.uint8), dest, tag)

    def recv(self, buf: None = None, source: int | None = None, tag: int | None = None) -> Any:
        """Return the oldest object that was sent with ``tag``."""
        self.check_sent(tag)
        position = self._position(tag)
        assert position is not None
        return pickle.loads(self._messages.pop(position)[1].data)

    def probe(self, tag: int | None) -> tuple[int, int, int] | None:
        """Return source, tag and bytes of the oldest message that was sent with ``tag``, None if there is none."""
        position = self._position(tag)
        if position is None:
            return None
        sent_tag, message = self._messages[position]
        return 0, sent_tag, message.nbytes

    def check_sent(self, tag: int | None) -> None:
        """Raise RuntimeError if no message with ``tag`` waits: no other rank could send it."""
        if self._position(tag) is None:
            raise RuntimeError(
                "waiting for a message that cannot come: this program has one rank, which has not sent to itself with "
                f"tag {tag}: send first, or start more ranks"
            )

    def _position(self, tag: int | None) -> int | None:
        return next((i for i, (sent_tag, _) in enumerate(self._messages) if tag is None or tag == sent_tag), None)

    def Send(self, buf: Array, dest: int, tag: int = 0) -> None:
        """Deliver the bytes of ``buf`` to a matching receive, or keep them for a later one."""
        message = buf.reshape(-1).view(np.uint8)
        for position, receive in enumerate(self._receives):
            if receive.accepts(tag):
                del self._receives[position]
                receive.take(message)
                return
        self._messages.append((tag, copy.copy(message)))

    def post(self, buf: Array, tag: int | None) -> _Receive:
        """Start to receive into ``buf``."""
        receive = _Receive(buf, tag)
        for position, (sent_tag, message) in enumerate(self._messages):
            if receive.accepts(sent_tag):
                del self._messages[position]
                receive.take(message)
                return receive
        self._receives.append(receive)
        return receive

    def Recv(self, buf: Array, source: int | None = None, tag: int | None = None) -> None:
        """Fill ``buf`` with the oldest message that was sent with ``tag``."""
        self.Irecv(buf, source, tag).Wait()

    def Isend(self, buf: Array, dest: int, tag: int = 0) -> SerialRequest:
        """Start ``Send``, which completes immediately."""
        self.Send(buf, dest, tag)
        return SerialRequest()

    def Irecv(self, buf: Array, source: int | None = None, tag: int | None = None) -> SerialRequest:
        """Start ``Recv``."""
        return SerialRequest(self.post(buf, tag))

    def Send_init(self, buf: Array, dest: int, tag: int = 0) -> SerialPersistentRequest:
        """Prepare a send that can be started many times."""
        return SerialPersistentRequest(self, buf, tag, sends=True)

    def Recv_init(self, buf: Array, source: int | None = None, tag: int | None = None) -> SerialPersistentRequest:
        """Prepare a receive that can be started many times."""
        return SerialPersistentRequest(self, buf, tag, sends=False)

    def Free(self) -> None:
        """Free the communicator."""
