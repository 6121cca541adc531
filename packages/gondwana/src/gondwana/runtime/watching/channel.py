"""A connection between the watchdogs of two ranks: mutual authentication first, then messages in JSON.

Until it is authenticated, a connection may be anybody's: every line is bounded in length, and only three words of it
are parsed. A listening watchdog keeps the connections of the ranks that it expects.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import selectors
import socket
import time
from collections.abc import Collection, Generator
from typing import Any, TypeAlias

from gondwana.runtime.watching import sockets

Message: TypeAlias = list[Any]
"""A verb and its arguments."""

LONGEST_RESPONSE = 256
"""Bytes of a line before authentication."""

LONGEST_MESSAGE = 2**22
"""Bytes of a line after it: the stacks of all ranks of a host."""

SEND_TIME = 1.0
"""Seconds in which the other side must take a message."""

KEPT_ALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 4}
"""Seconds of silence before a probe, between two probes, and the number of lost probes that mean a dead host."""

SPARE = 64
"""The most unauthenticated connections at a time, beside those of the expected ranks."""


class Channel:
    """One side of a connection. Local.

    Both sides prove that they know the secret of the job by the HMAC of two random numbers, one from each side.

    Attributes:
        socket: socket to wait for before `receive`.
        peer: on the accepting side, the rank that has made the connection; None before authentication.
        authenticated: whether the other side has proved that it belongs to the job.
    """

    def __init__(self, connected: socket.socket, secret: bytes, rank: int | None = None) -> None:
        """Begin the authentication.

        Args:
            connected: the socket, which the channel closes.
            secret: secret of the job.
            rank: rank of this process if it has made the connection, None if it has accepted it.

        Raises:
            OSError: the other side has closed the connection.
        """
        self.socket = connected
        if connected.family == socket.AF_INET:  # else a host that loses its power would never be noticed
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEPT_ALIVE.items():
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
        self.peer: int | None = None
        self.authenticated = False
        self._secret = secret
        self._received = bytearray()
        self._dialogue = self._challenge() if rank is None else self._respond(rank)
        next(self._dialogue)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def authenticate(self, seconds: float) -> None:
        """Wait until both sides are authenticated. Blocks for at most `seconds`.

        Raises:
            OSError: the other side has closed the connection or does not know the secret, or the time is over.
            ValueError: the other side has sent something else.
        """
        end = time.monotonic() + seconds
        while not self.authenticated:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no authentication within {seconds} s")
            self.socket.settimeout(left)
            self.receive()
        self.socket.setblocking(False)

    def receive(self) -> list[Message]:
        """Return the messages that have arrived; none before authentication. Blocks only if the socket does.

        Raises:
            OSError: the other side has closed the connection or does not know the secret.
            ValueError: the other side has sent something that is not a message, or one that is too long.
        """
        longest = LONGEST_MESSAGE if self.authenticated else LONGEST_RESPONSE
        with contextlib.suppress(BlockingIOError):
            data = self.socket.recv(min(longest, 2**16))
            if not data:
                raise ConnectionResetError("the other side has closed the connection")
            self._received += data
        messages = [message for line in self._lines() if (message := self._parse(line)) is not None]
        if len(self._received) > longest:
            raise ValueError(f"a line of more than {longest} bytes")
        return messages

    def send(self, message: Message) -> None:
        """Send a message. Blocks for `SEND_TIME` at most.

        Raises:
            OSError: the other side has closed the connection or does not read.
        """
        self.socket.settimeout(SEND_TIME)
        try:
            self._write(json.dumps(message))
        finally:
            self.socket.setblocking(False)

    def _lines(self) -> Generator[bytes, None, None]:
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            yield line

    def _parse(self, line: bytes) -> Message | None:
        if self.authenticated:
            message = json.loads(line)
            if not isinstance(message, list):
                raise ValueError("a message is a list")
            return message
        try:
            self._dialogue.send(line.decode("ascii"))
        except StopIteration:
            self.authenticated = True
        return None

    def _challenge(self) -> Generator[None, str, None]:
        """Authenticate as the side that has accepted the connection: lines in, by `send`."""
        own = secrets.token_hex(16)
        self._write(own)
        words = (yield).split(" ")
        if len(words) != 3:
            raise ValueError("legal are three words")
        rank, theirs, response = words
        self._check(response, "connects", rank, theirs, own)
        self.peer = int(rank)
        self._write(self._hmac("accepts", rank, theirs, own))

    def _respond(self, rank: int) -> Generator[None, str, None]:
        """Authenticate as the side that has made the connection: lines in, by `send`."""
        theirs = yield
        own = secrets.token_hex(16)
        self._write(f"{rank} {own} {self._hmac('connects', str(rank), own, theirs)}")
        self._check((yield), "accepts", str(rank), own, theirs)

    def _hmac(self, *words: str) -> str:
        return hmac.digest(self._secret, " ".join(words).encode(), "sha256").hex()

    def _check(self, response: str, *words: str) -> None:
        if not hmac.compare_digest(response, self._hmac(*words)):
            raise ConnectionRefusedError("the other side does not know the secret of the job")

    def _write(self, line: str) -> None:
        self.socket.sendall(line.encode("ascii") + b"\n")


def accept(listening: socket.socket, expected: Collection[int], secret: bytes, seconds: float) -> list[Channel]:
    """Accept connections until all expected ranks have authenticated themselves, and return theirs. Local.

    Blocks for at most `seconds`. If there are too many other connections, the oldest of them is closed.
    """
    listening.setblocking(False)
    accepted: dict[int, Channel] = {}
    unknown: dict[Channel, None] = {}  # in the order in which they came
    end = time.monotonic() + seconds
    # An error of the listener itself, as when this process has no descriptor left, ends the waiting.
    with contextlib.suppress(OSError), selectors.DefaultSelector() as ready:
        ready.register(listening, selectors.EVENT_READ)
        while len(accepted) < len(expected) and (left := end - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                channel: Channel | None = key.data
                if channel is None:
                    channel = _next(listening, secret)
                    if channel is not None:
                        ready.register(channel.socket, selectors.EVENT_READ, channel)
                        unknown[channel] = None
                elif channel in unknown and _is_settled(channel):
                    ready.unregister(channel.socket)
                    del unknown[channel]
                    peer = channel.peer if channel.authenticated else None
                    if peer is None or peer not in expected or peer in accepted:
                        channel.close()
                    else:
                        accepted[peer] = channel
            while len(unknown) > len(expected) + SPARE:
                oldest = next(iter(unknown))
                ready.unregister(oldest.socket)
                del unknown[oldest]
                oldest.close()
    for channel in unknown:
        channel.close()
    return list(accepted.values())


def _next(listening: socket.socket, secret: bytes) -> Channel | None:
    """Accept the next connection and challenge it; return None if it is gone already or another user's."""
    try:
        connected, _ = listening.accept()
    except (BlockingIOError, ConnectionError):
        return None
    connected.setblocking(False)
    try:
        if connected.family == socket.AF_UNIX and not sockets.is_same_user(connected):
            raise PermissionError("another user")
        return Channel(connected, secret)
    except OSError:
        connected.close()
        return None


def _is_settled(channel: Channel) -> bool:
    """Read what has arrived, and return whether the channel is authenticated or never will be."""
    try:
        channel.receive()
    except (OSError, ValueError):
        return True
    return channel.authenticated
