"""Folders in which a user's processes on this machine keep files for later ones, and the locks between them.

What is kept there is executed later, so no other user may be able to put a file there or to replace a part of the path.
If a folder fails this rule, or cannot be used, nothing is kept; it is never an error.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from gondwana.runtime import launcher
from gondwana.runtime.files import aside, lock_now, process_table

PATIENCE = 10.0
"""Seconds without a sign of life after which the holder of a lock is no longer waited for."""

FAR_PATIENCE = 120.0
"""The same for a holder on another host, whose processor time cannot be seen; a home folder may be shared by hosts."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(name: str, *, quiet: bool = False) -> Path | None:
    """Return a folder that only this user can change, created if need be; None if that is impossible. Local.

    In that case the first rank of a job reports the reason once.

    Args:
        name: name of the folder, after what is kept in it.
        quiet: True: report nothing; for folders that are cheap to do without.
    """
    try:
        return private_folder(name, quiet=quiet)
    except OSError as error:
        if not quiet:
            _report(
                f"nothing compiled is kept: {describe(error)}; set GONDWANA_CACHE_DIR to a folder that only you can "
                "change"
            )
        return None


def private_folder(name: str, *, quiet: bool = False) -> Path:
    """Return a folder that only this user can change, created if need be. Local.

    It is in `GONDWANA_CACHE_DIR` if that is set, else in the user's cache folder, else in the one for temporary files.
    If others can change the user's cache folder, the first rank of a job reports that once.

    Args:
        name: name of the folder, after what is kept in it.
        quiet: True: do not report that.

    Raises:
        OSError: no such folder can be used; the message gives the reason for the first candidate.
    """
    named = os.environ.get("GONDWANA_CACHE_DIR")
    private = Path(tempfile.gettempdir()) / f"gondwana-{os.getuid()}"
    problem: OSError | None = None
    for root in [Path(named)] if named else [platformdirs.user_cache_path("gondwana"), private]:
        try:
            folder = _opened(root / name)
        except OSError as error:
            problem = problem or error
            continue
        if problem is not None and problem.errno == errno.EPERM and not quiet:
            _report(f"{describe(problem)}, so compiled code is kept in {root}")
        return folder
    assert problem is not None
    raise problem


def describe(error: OSError) -> str:
    """Return the file and the reason of an operating system error, for a message. Local."""
    return f"{error.filename}: {error.strerror}"


def read(file: Path) -> bytes | None:
    """Return the content of a regular file that only this user can write, None if no such file exists. Local."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
            return opened.read() if _is_own(os.fstat(opened.fileno())) else None
    except OSError:
        return None


def exists(file: Path) -> bool:
    """Return whether a regular file that only this user can write exists. Local."""
    try:
        return _is_own(file.lstat())
    except OSError:
        return False


def keep(file: Path, data: bytes) -> None:
    """Write a file under another name, then rename it, so that no process reads half of it. Local."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with contextlib.suppress(OSError), aside(file) as draft, open(os.open(draft, flags, 0o600), "wb") as opened:
        opened.write(data)


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of a file that processes create once. Local; blocks while another process holds it and computes.

    Check inside whether the file exists by now. The system releases the lock of a process that dies. A stopped process
    is not waited for, so two processes may be inside.
    """
    lock = file.with_suffix(".lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    held = False
    try:
        held = _acquire(descriptor, lock)
        yield
    finally:
        if held:
            with contextlib.suppress(OSError):
                lock.unlink()
        os.close(descriptor)


def _acquire(descriptor: int, lock: Path) -> bool:
    """Wait for a lock; return whether it is held: False if its holder has not computed for `PATIENCE` seconds."""
    activity, since = None, time.monotonic()
    pause = 1e-3
    while not _try_lock(descriptor):
        now = time.monotonic()
        process, _, host = os.pread(descriptor, 100, 0).decode(errors="replace").partition(" ")
        far = host not in ("", os.uname().nodename)
        patience = FAR_PATIENCE if far else PATIENCE
        if (latest := None if far else _processor_time(process)) != activity:
            activity, since = latest, now
        elif now - since > patience:
            _report(
                f"process {process or 'unknown'}{f' on {host}' * far}, which compiles the same, has "
                f"{'held its lock' if far else 'not computed'} for {patience:g} s (is it stopped?): compiling without "
                f"waiting for its lock, {lock}"
            )
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return True


def _try_lock(descriptor: int) -> bool:
    """Take a lock and leave this process and its host in its file; return False if another process has it."""
    taken = lock_now(descriptor)
    if taken:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {os.uname().nodename}".encode(), 0)
    return taken


def _processor_time(process: str) -> int | None:
    """Return the ticks of processor time that a process of this host has used, None if it cannot be seen."""
    fields = process_table(process) if process.isdecimal() else []
    return int(fields[11]) + int(fields[12]) if fields else None


def _opened(folder: Path) -> Path:
    """Return the real path of a folder that only this user can change, created if need be."""
    try:
        real = folder.resolve()
    except RuntimeError:  # older Pythons raise it for links that form a loop
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder)) from None
    for part in [*reversed(real.parents), real]:
        if not os.path.lexists(part):
            with contextlib.suppress(FileExistsError):
                part.mkdir(mode=0o700)
        weakness = _weakness(part.lstat(), last=part == real)
        if weakness:
            raise PermissionError(errno.EPERM, weakness, str(part))
    if not os.access(real, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(real))
    return real


def _weakness(status: os.stat_result, *, last: bool) -> str:
    """Return how another user could change a folder, or the path through it; empty if none can.

    In a folder with the sticky bit, such as /tmp, others can create files but cannot replace those of this user.
    """
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if status.st_uid != os.getuid() and (last or status.st_uid not in _administrators()):
        return f"it belongs to another user (number {status.st_uid})"
    sticky = status.st_mode & stat.S_ISVTX and not last
    if status.st_mode & _OTHERS_WRITE and not sticky:
        return f"other users can write to it (mode {stat.S_IMODE(status.st_mode):03o})"
    return ""


@functools.cache
def _administrators() -> frozenset[int]:
    """Return the numbers of the users who can change any file anyway.

    In a container that a plain user has started, root may have no number: its files then belong to the overflow user.
    """
    try:
        ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if all(int(first) > 0 for first, _, _ in ranges):
            return frozenset({int(Path("/proc/sys/kernel/overflowuid").read_text())})
    except (OSError, ValueError):
        pass
    return frozenset({0})


def _is_own(status: os.stat_result) -> bool:
    """Return whether this is a regular file that only this user can write."""
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & _OTHERS_WRITE


@functools.cache
def _report(text: str) -> None:
    """Print a line if this is the first rank of its job."""
    if launcher.is_first():
        print(f"gondwana: {text}", file=sys.stderr)
