"""Which connections a listening watchdog keeps: those of the ranks that it expects."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Collection

from gondwana.runtime.channels import local
from gondwana.runtime.channels.channel import Channel

SPARE = 64
"""How many connections may be unauthenticated at a time, beside those of the expected ranks."""


def accept(listening: socket.socket, expected: Collection[int], secret: bytes, seconds: float) -> list[Channel]:
    """Accept connections until all expected ranks have authenticated themselves, and return theirs. Local.

    Blocks for so many seconds at most. Where there are too many others, the oldest of them is closed.
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
        if connected.family == socket.AF_UNIX and not local.is_same_user(connected):
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
