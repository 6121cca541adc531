"""Folders in which a user's processes on this machine keep files for later ones, and the locks between them.

A folder that cannot be used means that nothing is kept, never a failure.
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
    """Return a folder that this user owns and can write to, created if need be; None if there is none. Local.

    It is in `GONDWANA_CACHE_DIR` if that is set, else in the user's cache folder, else in the one for temporary files.

    Args:
        name: of the folder, after what is kept in it.
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
    """Hold the lock of a file that processes create once. Local; blocks while another process holds it.

    Check inside whether the file exists by now. The system releases the lock of a process that dies.
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
    """Write a file under another name, then rename it, so that no process reads half of it. Local."""
    aside = file.with_suffix(f".{uuid.uuid4().hex}")
    try:
        aside.write_bytes(data)
        aside.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
