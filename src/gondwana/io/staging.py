"""Shared files in memory: where blocks wait until they are written."""

from __future__ import annotations

import mmap
import os
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.io.paths import DatasetError, in_units


class SharedFile:
    """Memory that any process of this user on this node can map, by ``path``. Local.

    It needs no space in /dev/shm, has no name to clean up, and is gone with the last process that maps it. All of it
    is reserved now, by the rank that will fill it: memory that is short is an error here, not a crash later.

    Args:
        nbytes: the size in bytes, maybe 0.

    Raises:
        DatasetError: the node has not that much memory.
    """

    def __init__(self, nbytes: int) -> None:
        self._descriptor = os.memfd_create("gondwana-staging", os.MFD_CLOEXEC)
        try:
            if nbytes:
                os.posix_fallocate(self._descriptor, 0, nbytes)
        except OSError as error:
            os.close(self._descriptor)
            raise DatasetError(f"no memory to stage {in_units(nbytes)} of output: {error.strerror}") from None
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        self.bytes = map_bytes(self._descriptor, nbytes)

    def close(self) -> None:
        """Give the memory back, once nobody maps it any more. Local."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self.bytes = np.empty(0, np.uint8)

    def __enter__(self) -> SharedFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def map_bytes(descriptor: int, nbytes: int) -> npt.NDArray[np.uint8]:
    """Map a file as an array of bytes. Local."""
    if nbytes == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)


def open_bytes(path: str) -> npt.NDArray[np.uint8]:
    """Map the memory that a ``SharedFile`` of another process on this node made. Local."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return map_bytes(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def window(
    memory: npt.NDArray[np.uint8], offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return part of the memory as an array, without a copy. Local."""
    return np.ndarray(shape, dtype, memory, offset)
