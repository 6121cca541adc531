"""Anonymous files in memory that other processes of this host open without a name in any folder."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_c = ctypes.CDLL(None, use_errno=True)
_c.mmap.restype = ctypes.c_void_p
_c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED = ctypes.c_void_p(-1).value


class ForeignFileError(LookupError):
    """There is another file where a shared file should be: the processes do not see each other's descriptors."""


class SharedFile(NamedTuple):
    """Where the file of a process can be opened; can be sent to others. The file exists while a process has it open."""

    process: int
    descriptor: int
    inode: int

    @classmethod
    def create(cls, name: str, nbytes: int) -> SharedFile:
        """Create a file of zeros; its memory is allocated on first touch. Local.

        Raises:
            OSError: this system provides no such memory.
        """
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o600)  # Linux makes it accessible to everybody who finds it
            os.ftruncate(descriptor, nbytes)
        except OSError:
            os.close(descriptor)
            raise
        return cls(os.getpid(), descriptor, os.fstat(descriptor).st_ino)

    @property
    def path(self) -> str:
        """The path by which it can be opened while its process has it open."""
        return f"/proc/{self.process}/fd/{self.descriptor}"

    def open(self) -> int:
        """Open it, from any process of this host, and return the descriptor. Local.

        Raises:
            OSError: it cannot be opened.
            ForeignFileError: it is another file.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(descriptor).st_ino != self.inode:
            os.close(descriptor)
            raise ForeignFileError(self.path)
        return descriptor


class _Mapping:
    """Memory that is unmapped when no array refers to it any more."""

    def __init__(self, address: int, length: int, offset: int, nbytes: int) -> None:
        self.__array_interface__: dict[str, Any] = {
            "data": (address + offset, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
        weakref.finalize(self, _c.munmap, address, length).atexit = False


def map_shared(descriptor: int, nbytes: int, *, offset: int = 0, huge: bool = False) -> npt.NDArray[np.uint8]:
    """Map bytes of a file, shared and writable, for as long as an array refers to them. Local.

    Unlike `mmap.mmap`, it keeps no descriptor of its own: a rank that maps the memory of every other rank of its node,
    once for each segment, would soon have no descriptor left.

    Args:
        descriptor: of the file; may be closed afterwards.
        nbytes: how many.
        offset: of the first one in the file. All views of the array returned refer to it (NumPy's `base`).
        huge: ask for huge pages.

    Raises:
        OSError: the system refuses.
    """
    length = offset + max(nbytes, 1)
    address = _c.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if huge:
        _c.madvise(address, length, mmap.MADV_HUGEPAGE)  # a wish: what the system says to it does not matter
    return np.asarray(_Mapping(address, length, offset, nbytes))
