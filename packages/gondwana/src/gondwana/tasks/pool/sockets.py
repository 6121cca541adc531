"""Messages over a Unix socket: a pickle, and the buffers of large arrays beside it, which are sent without a copy.

Both ends are processes of one user that hold the two ends of one socket pair, so nobody else can connect.
"""

from __future__ import annotations

import itertools
import os
import pickle
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_HEADER = struct.Struct("<2q")
"""Head of a message: the bytes of its pickle, and the number of buffers that follow; the bytes of each come next."""
_MOST_PARTS = 256
"""The most buffers that one system call writes; the system's limit is 1024."""
_CHUNK = 1 << 16
_SPIN = 1e-3
"""Seconds that a side polls before it sleeps, if the last message came within that time."""
_SHARED = 200
"""Waits without polling after a poll that took longer than that: on a core that others want, sleeping is as fast."""


class Connection:
    """One end of a socket pair. Local.

    Args:
        end: socket, which the connection closes.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self._unsent: deque[memoryview] = deque()
        self._received = bytearray()
        # Memory allocated for each read would be mapped and unmapped each time.
        self._chunk = memoryview(bytearray(_CHUNK))
        self._data: bytearray | None = None
        self._buffers: list[bytearray] = []
        self._left: list[memoryview] = []

    def close(self) -> None:
        """Close the connection. Local."""
        self.socket.close()

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send as much of a message as fits now; `flush` sends the rest. Local.

        Raises:
            OSError: the other side has ended.
        """
        beside: list[pickle.PickleBuffer] = []
        data = pickle.dumps(message, 5, buffer_callback=beside.append)
        if not beside and not self._unsent:
            whole = _HEADER.pack(len(data), 0) + data
            try:
                sent = self.socket.send(whole)
            except BlockingIOError:
                sent = 0
            if sent < len(whole):
                self._unsent.append(memoryview(whole)[sent:])
            return
        buffers = [buffer.raw() for buffer in beside]
        lengths = struct.pack(f"<{2 + len(buffers)}q", len(data), len(buffers), *(buffer.nbytes for buffer in buffers))
        self._unsent += [memoryview(lengths + data), *buffers]
        self.flush()

    @property
    def unsent(self) -> bool:
        """Whether data wait to be sent. Local."""
        return bool(self._unsent)

    def flush(self) -> None:
        """Send as much as fits now. Local.

        Raises:
            OSError: the other side has ended.
        """
        while self._unsent:
            try:
                sent = self.socket.sendmsg(itertools.islice(self._unsent, _MOST_PARTS))
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
            EOFError: the other side has closed the connection, and all its messages have been returned.
            OSError: the connection is broken.
        """
        messages: list[Any] = []
        more = True
        while more:
            try:
                count, more = self._fill()
            except BlockingIOError:
                break
            except EOFError:
                if messages:
                    break
                raise
            if self._data is None and not self._received and _HEADER.size < count:
                length, buffers = _HEADER.unpack_from(self._chunk)
                if not buffers and _HEADER.size + length == count:  # a message, and nothing else
                    messages.append(pickle.loads(self._chunk[_HEADER.size : count]))
                    continue
            if not self._left:
                self._received += self._chunk[:count]
            messages += self._whole()
        return messages

    def _fill(self) -> tuple[int, bool]:
        """Read once; return the number of bytes, and whether more may be available."""
        target = self._left[0] if self._left else self._chunk
        count = self.socket.recv_into(target)
        if not count:
            raise EOFError
        if self._left:
            self._left[0] = target[count:]
        return count, count == len(target)

    def _whole(self) -> list[Any]:
        """Return the messages that have been read completely."""
        messages: list[Any] = []
        received = self._received
        while True:
            if self._data is None:
                if len(received) < _HEADER.size:
                    return messages
                length, count = _HEADER.unpack_from(received)
                start = _HEADER.size + 8 * count
                if len(received) < start + length:
                    return messages
                self._data = received[start : start + length]
                self._buffers = [bytearray(size) for size in struct.unpack_from(f"<{count}q", received, _HEADER.size)]
                self._left = [memoryview(buffer) for buffer in self._buffers]
                del received[: start + length]
            while self._left:
                left = self._left[0]
                ready = min(len(left), len(received))
                left[:ready], self._left[0] = received[:ready], left[ready:]
                del received[:ready]
                if ready < len(left):
                    return messages
                del self._left[0]
            messages.append(pickle.loads(self._data, buffers=self._buffers))
            self._data = None


class Patience:
    """The waiting of a side: it polls while messages come soon, since waking up takes longer than a short task. Local.

    Args:
        arrived: waits for a message, for at most the given seconds (None: no limit); returns whether there is one.
    """

    def __init__(self, arrived: Callable[[float | None], object]) -> None:
        self._arrived = arrived
        self._spins, self._shared = True, 0

    def wait(self, seconds: float | None, *, spin: bool = True) -> bool:
        """Wait for a message, for at most `seconds`; return whether there is one. Blocks.

        Args:
            seconds: time limit; None: no limit.
            spin: whether a core is free to poll on.
        """
        start = now = time.perf_counter()
        if spin and self._spins and self._shared == 0:
            end = start + (_SPIN if seconds is None else min(seconds, _SPIN))
            while now < end:
                if self._arrived(0):
                    return True
                os.sched_yield()
                before, now = now, time.perf_counter()
                if now - before > _SPIN:
                    self._shared = _SHARED
        elif self._shared:
            self._shared -= 1
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
        """Return the messages that have arrived; if there are none, wait for some, for at most `timeout` seconds.

        Raises:
            EOFError: the pool has ended.
            OSError: likewise.
        """
        messages: list[Any] = []
        while not messages and self._patience.wait(timeout):
            messages = self._connection.receive()
        return messages
