"""Unix domain sockets between processes of one user on one host."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
from collections.abc import Iterator

_NAME = "socket"


@contextlib.contextmanager
def listener(backlog: int) -> Iterator[tuple[socket.socket, str]]:
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


def connect(folder: str) -> socket.socket:
    """Connect to the listener in a folder of this user. Local; does not wait until it accepts.

    Raises:
        OSError: there is none, or the folder or the process that listens belongs to somebody else.
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
    """Check who can enter a folder, and yield an address of the socket in it: those have 107 characters at most."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(f"{folder}: other users can enter it")
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)
