"""TCP sockets between hosts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]

_SIOCGIFADDR = 0x8915
"""Linux's request for the IPv4 address of a network interface."""


def listener(backlog: int) -> tuple[socket.socket, list[Address]]:
    """Listen at all network interfaces; return the socket and its addresses, one for each interface. Local.

    Raises:
        OSError: this host has no network.
    """
    listening = socket.create_server(("", 0), backlog=backlog)
    return listening, [(address, listening.getsockname()[1]) for address in own_addresses()]


def connect(addresses: Sequence[Address], seconds: float) -> socket.socket:
    """Connect to another host at the first of its addresses that answers. Local; blocks for so many seconds at most.

    Raises:
        OSError: none answers.
    """
    # An address that this host has, too, such as that of a bridge between containers, leads to this host.
    own = own_addresses()
    with contextlib.ExitStack() as attempts, selectors.DefaultSelector() as pending:
        for address in addresses:
            if address[0] not in own:
                attempt = attempts.enter_context(socket.socket())
                attempt.setblocking(False)
                if attempt.connect_ex(address) in (0, errno.EINPROGRESS):
                    pending.register(attempt, selectors.EVENT_WRITE, attempt)
        end = time.monotonic() + seconds
        while pending.get_map() and (left := end - time.monotonic()) > 0:
            for key, _ in pending.select(left):
                answering: socket.socket = key.data
                pending.unregister(answering)
                if answering.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    return answering.dup()
    raise ConnectionError(f"none of {addresses} answers")


def own_addresses() -> list[str]:
    """Return the IPv4 addresses of this host's network interfaces but the loopback. Local."""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # the interface has none
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                addresses.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in addresses if not address.startswith("127.")]
