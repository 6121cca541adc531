"""Where a user's processes on this machine keep what the next ones find again, and how they do not disturb each other.

Whatever goes wrong with a folder means that nothing is kept there, never a failure.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import platformdirs


def cache_folder(name: str) -> Path | None:
    """Return a folder that this user owns and can write to, made if need be; None if there is none to be had. Local.

    `GONDWANA_CACHE_DIR` says where it is, else it is in the user's cache folder, else in the one for temporary files.

    Args:
        name: what is kept in it.
    """
    named = os.environ.get("GONDWANA_CACHE_DIR")
    private = Path(tempfile.gettempdir()) / f"gondwana-{os.getuid()}"
    for root in [Path(named)] if named else [platformdirs.user_cache_path("gondwana"), private]:
        path = root / name
        with contextlib.suppress(OSError):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(path, os.W_OK) and path.stat().st_uid == os.getuid():
                return path
    return None


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Be the only process that makes a file. Local; blocks while another one does.

    Look again inside whether it is there now. The system releases the lock of a process that dies.
    """
    lock = file.with_suffix(".lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def keep(file: Path, data: bytes) -> None:
    """Write a file under another name and then rename it, so that nobody reads half of it. Local."""
    aside = file.with_suffix(f".{uuid.uuid4().hex}")
    try:
        aside.write_bytes(data)
        aside.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
