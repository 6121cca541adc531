"""Files that get their name only once they are complete, and files that users name."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

StrPath = str | os.PathLike[str]


def text_of(path: StrPath, otherwise: str = "") -> str:
    """Return the stripped text of a file of the system, or `otherwise` if it cannot be read. Local."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return otherwise


def process_table(process: int | str = "self") -> list[str]:
    """Return the fields of a process in /proc/PROCESS/stat from its state on; none if it cannot be seen. Local."""
    return text_of(f"/proc/{process}/stat").rpartition(")")[2].split()


def memory_in_use() -> int | None:
    """Return the bytes of memory that this process has in use, None if that cannot be seen. Local."""
    fields = process_table()
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if fields else None


def lock_now(descriptor: int) -> bool:
    """Return False if another process has the lock of a file; on a file system without locks, True. Local."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def reserve(descriptor: int, nbytes: int) -> None:
    """Allocate a file that is to be mapped on the disk. Local.

    A page without space later would end the process by a signal.
    """
    try:
        os.posix_fallocate(descriptor, 0, nbytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        os.ftruncate(descriptor, nbytes)


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Give another name in the folder of `path`; the file written there is renamed to `path` at the end. Local.

    After an exception, nothing is renamed and nothing is left.
    """
    draft = path.with_name(f".{os.urandom(16).hex()}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write(path: StrPath, content: bytes) -> None:
    """Write a file that a user named: a regular one complete or not at all. Local.

    Symbolic links are followed. A device or a FIFO is written to and remains one. So does the file behind the standard
    output of this process: `/dev/stdout` keeps what was printed to it.

    Raises:
        OSError: the file cannot be written; a FIFO without a reader is not waited for.
    """
    there = _stat(path)
    if there is not None and (not stat.S_ISREG(there.st_mode) or _printed_to(there) is not None):
        _write_into(path, there, content)
        return
    target = Path(os.path.realpath(path))
    with aside(target) as draft:
        draft.write_bytes(content)
        if there is not None:
            with contextlib.suppress(PermissionError):  # not all file systems have modes
                shutil.copymode(target, draft)


def obstacle(path: StrPath, *, streams: bool = True) -> str | None:
    """Return why no file can be written under a user's name, None if no obstacle is known. Local.

    Nothing is opened and nothing is created.

    Args:
        path: the file.
        streams: whether a device or a FIFO is accepted; it is written to and remains one.
    """
    name = os.fspath(path)
    if not name:
        return "the name is empty"
    try:
        there = _stat(name)
    except OSError as error:
        return str(error.strerror)
    kind = 0 if there is None else stat.S_IFMT(there.st_mode)
    if kind == stat.S_IFDIR or name.endswith("/"):
        return "this is a folder"
    if kind in (stat.S_IFBLK, stat.S_IFSOCK):
        return "this is neither a file nor a stream"
    if kind not in (0, stat.S_IFREG) and not streams:
        return "this is no regular file"
    if there is not None and not os.access(name, os.W_OK):
        return "it is read-only"
    folder = os.path.dirname(os.path.realpath(name))
    if kind in (0, stat.S_IFREG) and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        return f"the folder {folder} does not exist or cannot be written"
    return None


def _stat(path: StrPath) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _printed_to(there: os.stat_result) -> int | None:
    """Return the descriptor by which this process prints to a file, None if it does not."""
    for stream in (sys.stdout, sys.stderr):
        # A stream may be closed, missing, or a pure Python object.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
            if os.path.samestat(there, os.fstat(stream.fileno())):
                return stream.fileno()
    return None


def _write_into(path: StrPath, there: os.stat_result, content: bytes) -> None:
    own = _printed_to(there)
    if own is None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
        os.set_blocking(descriptor, True)
    else:
        # A new descriptor would have its own position in the file, and the two would overwrite each other's output.
        descriptor = os.dup(own)
    with open(descriptor, "wb") as file:
        file.write(content)
