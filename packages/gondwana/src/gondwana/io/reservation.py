"""Reservations of common names of checkpoints: one job at a time writes them, and removes older ones."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gondwana.errors import UsageError
from gondwana.io.paths import PATIENCE_S, DatasetError, StrPath, lock
from gondwana.teams import Team, world
from gondwana.teams.team import failing_together

#: The names that this process has reserved.
_reserved: set[Path] = set()


@contextmanager
def reserve(path: StrPath, *, team: Team = world) -> Iterator[None]:
    """Reserve a common name of checkpoints, so that no other job saves under it. Collective over team to enter.

    The job that has a name keeps it until the end of the ``with`` block, or until rank 0 ends in any way. ``save``
    reserves the name itself if its job has not, but only while it saves.

    Args:
        path: the common name given to ``save``.
        team: the ranks that save; rank 0 holds the reservation.

    Raises:
        UsageError: another job has reserved the name.

    Example:
        >>> import tempfile
        >>> with reserve(tempfile.mkdtemp() + "/ckpt.bp"):
        ...     pass
    """
    with ExitStack() as held:
        with failing_together(team):
            if team.rank == 0:
                held.enter_context(reserved_here(path, PATIENCE_S))
        yield


def check_free(path: StrPath, patience: float = 0.0) -> None:
    """Raise UsageError if another job has reserved a common name of checkpoints. Local; nothing is created.

    Args:
        path: the common name.
        patience: time to wait for a job that has been killed [s].
    """
    name = _full(path)
    if name not in _reserved and _file(name).is_file():
        with reserved_here(path, patience):
            pass


@contextmanager
def reserved_here(path: StrPath, patience: float) -> Iterator[None]:
    """Reserve a common name for this process, unless it has it already. Local; see ``reserve``."""
    name = _full(path)
    if name in _reserved:
        yield
        return
    file = _file(name)
    try:
        descriptor = lock(file, lambda: _open(file), patience)
    except OSError as error:
        raise DatasetError(f"cannot reserve the checkpoints '{path}': {error.strerror}") from None
    if descriptor is None:
        raise UsageError(f"another job{_holder(file)} writes checkpoints '{path}': wait for it, or choose another name")
    _reserved.add(name)
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        _reserved.discard(name)
        file.unlink(missing_ok=True)  # before the lock ends: afterwards it may be another job's
        os.close(descriptor)


def _full(path: StrPath) -> Path:
    given = Path(path).absolute()
    return given.parent.resolve() / given.name


def _file(name: Path) -> Path:
    return name.with_name(f".{name.name}.lock")


def _open(file: Path) -> int:
    file.parent.mkdir(parents=True, exist_ok=True)
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)


def _holder(file: Path) -> str:
    """Name the process that has the lock, in brackets, if it has written its name."""
    try:
        text = file.read_bytes()[:200].decode(errors="replace")
    except OSError:
        return ""
    return f" ({text})" if text.isprintable() and text else ""
