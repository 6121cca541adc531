"""Paths of datasets: checks before writing there, free space, and the lock of the writer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime.files import lock_now

StrPath = str | os.PathLike[str]
Test = Callable[[Path], bool]

#: A writer that was killed may still finish its last step in the background; a restart waits that long for it.
PATIENCE_S = 10.0

UNFINISHED = ".unfinished"
"""End of the name of what is being written, and is renamed when it is complete."""

FOREIGN = (".h5", ".hdf5", ".hdf", ".nc", ".nc4", ".zarr", ".npz", ".npy", ".vtk", ".vti", ".csv", ".json", ".txt")
"""Ends of names that say another format than that of datasets."""

_INDEX = "md.idx"


class DatasetError(GondwanaError, OSError):
    """A dataset could not be written or read: the disk is full, a file is damaged, or the writer has ended."""


def is_dataset(path: Path) -> bool:
    """Return whether a directory is a BP dataset, maybe without a step yet. Local."""
    return (path / _INDEX).is_file()


def has_steps(path: Path) -> bool:
    """Return whether a dataset can be opened for reading. Local.

    ADIOS2 ends the process when it closes a reader of a dataset whose index is still empty.
    """
    index = path / _INDEX
    return index.is_file() and index.stat().st_size > 0


def size_of(path: Path) -> int:
    """Return the bytes of all files under a directory. Local."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def check_output(path: StrPath, bytes_needed: int = 0, *, replace: bool = True, is_ours: Test = is_dataset) -> None:
    """Raise UsageError unless a dataset of this size can be written. Local; nothing is created.

    Args:
        path: the dataset to write.
        bytes_needed: its final size in bytes.
        replace: whether an existing dataset may be replaced (its space counts as free) or appended to.
        is_ours: whether what is there may be replaced; default: a dataset, whose name must not say another format.

    Example:
        >>> check_output("/dev/null")
        Traceback (most recent call last):
        gondwana.errors.UsageError: cannot write '/dev/null': a file is there; remove it or choose another name
    """
    target = Path(path).absolute()
    if not target.name or str(path).endswith(("/.", "..")):
        raise UsageError(f"'{path}' is not the name of a dataset: give one like gs.bp")
    if is_ours is is_dataset and (ending := target.with_name(target.name.removesuffix(UNFINISHED)).suffix) in FOREIGN:
        raise UsageError(
            f"'{path}' would be a dataset of ADIOS2 and not what {ending} says: give a name like "
            f"{target.with_suffix('.bp').name}; gw.save writes .h5, .nc and .zarr"
        )
    reclaimed = 0
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        target.lstat()  # raises the system's error for the name
    if target.is_dir() and any(target.iterdir()):
        if not is_ours(target):
            raise UsageError(f"cannot write '{path}': a directory that is no dataset is there; choose another name")
        if not replace:
            raise _exists(path)
        reclaimed = size_of(target)
    elif target.exists() and not target.is_dir() and not is_ours(target):
        raise UsageError(f"cannot write '{path}': a file is there; remove it or choose another name")
    places = target.parents if target.is_file() else (target, *target.parents)
    ancestor = next(parent for parent in places if os.path.lexists(parent))
    if not ancestor.is_dir():
        raise UsageError(f"cannot write '{path}': '{ancestor}' is not a directory")
    if not os.access(ancestor, os.W_OK | os.X_OK) or os.statvfs(ancestor).f_flag & os.ST_RDONLY:
        raise UsageError(f"cannot write '{path}': no permission in '{ancestor}'")
    free = shutil.disk_usage(ancestor).free + reclaimed
    if bytes_needed > free:
        raise UsageError(
            f"cannot write '{path}': it needs {in_units(bytes_needed)} and '{ancestor}' has {in_units(free)} free; "
            "write fewer steps, or choose another disk"
        )


def in_units(size: int) -> str:
    """Return a number of bytes with a unit, such as "1.5 GiB". Local."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"


def claim(path: Path, *, empty: bool, replace: bool = True) -> int:
    """Lock a dataset for writing and return the descriptor of the lock; closing it releases the lock. Local.

    The lock is the system's and ends with the process, so that a killed writer leaves nothing behind.

    Args:
        path: the dataset, which need not exist.
        empty: whether to remove the contents of the dataset.
        replace: whether there may be something to remove.

    Raises:
        UsageError: another program writes the dataset, or something there must not be removed.
        DatasetError: the directory cannot be made.
    """
    try:
        descriptor = lock(path, lambda: _open_directory(path), PATIENCE_S)
    except OSError as error:
        raise DatasetError(f"cannot create the dataset '{path}': {error.strerror}") from None
    if descriptor is None:
        raise UsageError(f"another program is writing '{path}': wait for it, or choose another name")
    try:
        # Checked only now: while this waited, another program may have written a whole dataset.
        if empty:
            _empty(path, replace)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock(path: Path, opening: Callable[[], int], patience: float) -> int | None:
    """Open and lock a file or directory, and return the descriptor; closing it releases the lock. Local.

    Args:
        path: the name of a file or directory.
        opening: opens it, and makes it if it is missing.
        patience: time to wait for another program [s].

    Returns:
        The descriptor, or None if another program still has the lock.

    Raises:
        OSError: it cannot be opened.
    """
    deadline = time.monotonic() + patience
    while True:
        descriptor = opening()
        while not (locked := lock_now(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.02)
        # The former holder may have renamed or removed the opened file: then the name is another file's, or free.
        if locked and _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)
        if not locked:
            return None


def _open_directory(path: Path) -> int:
    path.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDONLY)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _empty(path: Path, replace: bool) -> None:
    """Remove the contents of a dataset, if it is one and may be replaced."""
    if not any(path.iterdir()):
        return
    if not is_dataset(path):
        raise UsageError(f"cannot write '{path}': a directory that is no dataset is there; choose another name")
    if not replace:
        raise _exists(path)
    # The index is removed last: if this is interrupted, the rest is still a dataset, and may be replaced.
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name == _INDEX):
        remove(entry)


def publish(draft: Path, target: Path) -> None:
    """Give a file or folder its name, in place of one that has it. Local.

    There is one of that name at any time, if the file system can exchange two names.
    """
    if target.is_dir() and not target.is_symlink():
        replaced = target.with_name(f"{target.stem}.old{target.suffix}{UNFINISHED}")
        here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
        rename = getattr(ctypes.CDLL(None), "renameat2", None)
        if rename and not rename(here, os.fsencode(draft), here, os.fsencode(target), exchange):
            draft.rename(replaced)
        else:
            target.rename(replaced)
            draft.rename(target)
        remove(replaced)
    else:
        draft.replace(target)


def remove(path: Path) -> None:
    """Remove a file, a link, or a directory with its contents. Local."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _exists(path: StrPath) -> UsageError:
    return UsageError(f"'{path}' exists: remove it or choose another name")
