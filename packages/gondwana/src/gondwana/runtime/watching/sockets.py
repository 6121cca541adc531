"""Sockets of watchdogs: Unix domain sockets between processes of one user on one host, TCP sockets between hosts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import selectors
import socket
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

_NAME = "socket"

Address: TypeAlias = tuple[str, int]

_SIOCGIFADDR = 0x8915
"""Linux's request for the IPv4 address of a network interface."""


@contextlib.contextmanager
def local_listener(backlog: int) -> Iterator[tuple[socket.socket, str]]:
    """Listen in a new folder that only this user can enter; yield socket and folder, and remove both. Local.

    Raises:
        OSError: no folder can be made.
    """
    folder = tempfile.mkdtemp(prefix="gondwana-")  # of mode 0700
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            with _address(folder) as path:
                listening.bind(path)
            listening.listen(backlog)
            yield listening, folder
    finally:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, _NAME))
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def connect_locally(folder: str) -> socket.socket:
    """Connect to the listener in a folder of this user. Local; does not wait until it accepts.

    Raises:
        OSError: nobody listens, or the folder or the listening process belongs to another user.
    """
    connected = socket.socket(socket.AF_UNIX)
    try:
        with _address(folder) as path:
            connected.connect(path)
        if not is_same_user(connected):
            raise PermissionError(f"{folder}: another user listens there")
    except OSError:
        connected.close()
        raise
    return connected


def is_same_user(connected: socket.socket) -> bool:
    """Return whether the process at the other end of a Unix domain socket runs as this user. Local."""
    credentials = struct.Struct("3i")  # process, user, group
    found = credentials.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
    return bool(found[1] == os.geteuid())


@contextlib.contextmanager
def _address(folder: str) -> Iterator[str]:
    """Check that only this user can enter a folder; yield an address of the socket in it, below 108 characters."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(f"{folder}: other users can enter it")
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)


def network_listener(backlog: int) -> tuple[socket.socket, list[Address]]:
    """Listen at all network interfaces; return the socket and its addresses, one for each interface. Local.

    Raises:
        OSError: this host has no network.
    """
    listening = socket.create_server(("", 0), backlog=backlog)
    return listening, [(address, listening.getsockname()[1]) for address in own_addresses()]


def connect_to_host(addresses: Sequence[Address], seconds: float) -> socket.socket:
    """Connect to another host at the first of its addresses that answers. Local; blocks for at most `seconds`.

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


def listener_for_ranks(*, several_hosts: bool) -> tuple[socket.socket, str]:
    """Listen on the launcher's side; return the socket, and its addresses as words for `connect_to_launcher`. Local.

    Args:
        several_hosts: whether ranks run on other hosts, too.
    """
    listening = socket.create_server(("" if several_hosts else "127.0.0.1", 0), backlog=4096)
    port = listening.getsockname()[1]
    hosts = ["127.0.0.1", *(own_addresses() if several_hosts else ())]
    return listening, " ".join(f"{host}:{port}" for host in hosts)


def connect_to_launcher(addresses: Sequence[str]) -> socket.socket:
    """Connect a rank to a listener of the launcher's side, at the first address that answers. Local; blocks.

    Raises:
        OSError: none answers.
    """
    problems = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            found = socket.create_connection((host, int(port)), timeout=10.0)
        except OSError as error:
            problems.append(error)
            continue
        found.settimeout(None)
        return found
    raise ConnectionError(f"nobody answers at {', '.join(addresses)}: {problems[-1] if problems else 'no address'}")


def own_addresses() -> list[str]:
    """Return the IPv4 addresses of this host's network interfaces but the loopback. Local."""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # the interface has none
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                addresses.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in addresses if not address.startswith("127.")]
