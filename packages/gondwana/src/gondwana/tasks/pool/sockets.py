"""Messages over a Unix socket: a pickle, and the buffers of large arrays beside it, which are not copied to send them.

Both ends are processes of one user that hold the two ends of one socket pair, so nobody else can connect.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_COUNT = struct.Struct("<q")
_MOST_PARTS = 256
"""Buffers that one system call writes at most; the system's limit is 1024."""
_CHUNK = 1 << 18
_SPIN = 1e-3
"""Seconds that a side polls before it sleeps, if what it waited for last came within that time."""


class Connection:
    """One end of a socket pair. Local.

    Args:
        end: the socket, which the connection closes.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self._unsent: deque[memoryview] = deque()
        self._received = bytearray()
        self._lengths: list[int] = []
        self._parts: list[Any] = []

    def close(self) -> None:
        """Close the connection. Local."""
        self.socket.close()

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send what there is room for of a message; `flush` sends the rest. Local.

        Raises:
            OSError: the other side has ended.
        """
        buffers: list[memoryview] = []

        def keep_beside(buffer: pickle.PickleBuffer) -> bool:
            buffers.append(buffer.raw())
            return False

        data = pickle.dumps(message, 5, buffer_callback=keep_beside)
        lengths = [len(data), *(buffer.nbytes for buffer in buffers)]
        header = struct.pack(f"<{1 + len(lengths)}q", len(lengths), *lengths)
        if not buffers and not self._unsent and len(data) < _CHUNK:
            whole = header + data
            try:
                sent = self.socket.send(whole)
            except BlockingIOError:
                sent = 0
            if sent < len(whole):
                self._unsent.append(memoryview(whole)[sent:])
            return
        self._unsent += [memoryview(header + data), *buffers]
        self.flush()

    @property
    def unsent(self) -> bool:
        """Whether something waits for room. Local."""
        return bool(self._unsent)

    def flush(self) -> None:
        """Send what there is room for now. Local.

        Raises:
            OSError: the other side has ended.
        """
        while self._unsent:
            try:
                sent = self.socket.sendmsg([self._unsent[i] for i in range(min(len(self._unsent), _MOST_PARTS))])
            except BlockingIOError:
                return
            while self._unsent and sent >= len(self._unsent[0]):
                sent -= len(self._unsent.popleft())
            if sent:
                self._unsent[0] = self._unsent[0][sent:]

    # -- receiving ---------------------------------------------------------------------------------------------------

    def receive(self) -> list[Any]:
        """Return the messages that have arrived. Local; does not block.

        Raises:
            EOFError: the other side has closed the connection, and all that it has sent has been returned.
            OSError: the connection is broken.
        """
        messages: list[Any] = []
        while True:
            try:
                ended = self._fill()
            except BlockingIOError:
                return messages
            messages += self._whole()
            if ended:
                if messages:
                    return messages
                raise EOFError

    def _fill(self) -> bool:
        """Read once; return whether the other side has ended."""
        part = self._parts[-1] if self._parts else None
        if part is not None and part[1] < len(part[0]):
            count = self.socket.recv_into(memoryview(part[0])[part[1] :])
            part[1] += count
            return count == 0
        data = self.socket.recv(_CHUNK)
        self._received += data
        return not data

    def _whole(self) -> list[Any]:
        """Return the messages of which all has been read."""
        messages: list[Any] = []
        while True:
            if not self._lengths and not self._read_lengths():
                return messages
            while len(self._parts) < len(self._lengths):
                if self._parts and self._parts[-1][1] < len(self._parts[-1][0]):
                    return messages
                part = bytearray(self._lengths[len(self._parts)])
                ready = min(len(part), len(self._received))
                part[:ready] = self._received[:ready]
                del self._received[:ready]
                self._parts.append([part, ready])
            if self._parts[-1][1] < len(self._parts[-1][0]):
                return messages
            (data, _), *buffers = self._parts
            messages.append(pickle.loads(data, buffers=[buffer for buffer, _ in buffers]))
            self._lengths, self._parts = [], []

    def _read_lengths(self) -> bool:
        if len(self._received) < _COUNT.size:
            return False
        (count,) = _COUNT.unpack_from(self._received)
        size = _COUNT.size * (1 + count)
        if len(self._received) < size:
            return False
        self._lengths = list(struct.unpack_from(f"<{count}q", self._received, _COUNT.size))
        del self._received[:size]
        return True


class Patience:
    """How a side waits: it polls while messages come soon, since waking up takes longer than a short task. Local.

    Args:
        arrived: waits for a message, for so many seconds at most (None: no limit); returns whether there is one.
    """

    def __init__(self, arrived: Callable[[float | None], object]) -> None:
        self._arrived = arrived
        self._spins = True

    def wait(self, seconds: float | None, *, spin: bool = True) -> bool:
        """Wait for a message, for so many seconds at most; return whether there is one. Blocks.

        Args:
            seconds: None: no limit.
            spin: whether there is a core to poll on.
        """
        start = time.perf_counter()
        if spin and self._spins:
            end = start + (_SPIN if seconds is None else min(seconds, _SPIN))
            while time.perf_counter() < end:
                if self._arrived(0):
                    return True
                os.sched_yield()
        found = bool(self._arrived(seconds))
        self._spins = time.perf_counter() - start < _SPIN
        return found


class Line:
    """A worker's connection to its pool. Local.

    Args:
        connection: the worker's end.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        self._patience = Patience(lambda seconds: poll.poll(None if seconds is None else 1e3 * seconds))

    def send(self, message: Any) -> None:
        """Send a message. Blocks until it is sent.

        Raises:
            OSError: the pool has ended.
        """
        self._connection.send(message)
        while self._connection.unsent:
            select.select([], [self._connection.socket], [])
            self._connection.flush()

    def receive(self, timeout: float | None) -> list[Any]:
        """Return the messages that have arrived; if there are none, wait for some, for so many seconds at most.

        Raises:
            EOFError: the pool has ended.
            OSError: likewise.
        """
        messages = self._connection.receive()
        while not messages and self._patience.wait(timeout):
            messages = self._connection.receive()
        return messages
