"""Memory of a process, and anonymous files in memory that others of this host open without a name in any folder."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.runtime.files import text_of

_c = ctypes.CDLL(None, use_errno=True)
_c.mmap.restype = ctypes.c_void_p
_c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
HUGE = 2 * 1024 * 1024
"""Bytes of a huge page."""
_MADV_COLLAPSE = 25
_FAILED = ctypes.c_void_p(-1).value


class ForeignFileError(LookupError):
    """Another file is in the place of a shared file: the processes do not see each other's descriptors."""


class SharedFile(NamedTuple):
    """The place where the file of a process can be opened. Can be sent to others; valid while a process has it open."""

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
        """Open the file, from any process of this host, and return the descriptor. Local.

        Raises:
            OSError: the file cannot be opened.
            ForeignFileError: the path leads to another file.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(descriptor).st_ino != self.inode:
            os.close(descriptor)
            raise ForeignFileError(self.path)
        return descriptor

    def map(self, nbytes: int, *, offset: int = 0, huge: bool = False) -> npt.NDArray[np.uint8]:
        """Map bytes of the file, from any process of this host: as `map_shared`, with the errors of `open`. Local."""
        descriptor = self.open()
        try:
            return map_shared(descriptor, nbytes, offset=offset, huge=huge)
        finally:
            os.close(descriptor)


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
        descriptor: descriptor of the file; may be closed afterwards.
        nbytes: number of bytes.
        offset: offset of the first byte in the file. All views of the array returned refer to it (NumPy's `base`).
        huge: ask for huge pages. The file then starts at a multiple of `HUGE`, which huge pages require.

    Raises:
        OSError: the system refuses.
    """
    length = offset + max(nbytes, 1)
    address = _mapped(None, length + HUGE * huge, descriptor)
    if huge:
        _c.munmap(address, length + HUGE)  # should another thread map something here now, the file is not aligned
        address = _mapped(-(-address // HUGE) * HUGE, length, descriptor)
        _c.madvise(address, length, mmap.MADV_HUGEPAGE)  # a wish: the system's answer does not matter
    return np.asarray(_Mapping(address, length, offset, nbytes))


def _mapped(address: int | None, length: int, descriptor: int) -> int:
    """Map a file from its start, at an address if that is free, and return the address."""
    found: int = _c.mmap(address, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if found == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


def private_memory(nbytes: int, offset: int) -> npt.NDArray[np.uint8]:
    """Return zeroed memory of this process alone, from a place in its first page on. Local.

    Huge pages are requested, which saves stencils TLB misses.
    """
    memory = mmap.mmap(-1, offset + max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if nbytes >= HUGE:
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8, nbytes, offset)


def collapse(address: int, pages: int) -> int:
    """Make pages of a mapped file huge, touched before or not, and keep their contents. Local.

    Most systems give files in memory small pages, whatever is requested (`shmem_enabled` is "never"). From version 6.1
    on, Linux makes them huge on demand. All of it becomes resident, near the processor of this thread. Others that have
    mapped the file see huge pages too, if their mappings are aligned.

    Args:
        address: address of the first page, a multiple of `HUGE`.
        pages: number of huge pages.

    Returns:
        0; or the number of the error with which the system left some of them small.
    """
    for page in range(address, address + pages * HUGE, HUGE):
        ctypes.c_byte.from_address(page).value  # noqa: B018  # Linux refuses pages of which no part is resident
    return ctypes.get_errno() if _c.madvise(address, pages * HUGE, _MADV_COLLAPSE) else 0


def pages_of_arrays() -> dict[str, str]:
    """Return the page size of large arrays here: "2 MiB", or "4 KiB" and why. Local; tries it.

    Keys: `private` memory, of a rank alone on its node, and `shared` memory, of a rank with others beside it.
    """
    settings = {name: text_of(f"/sys/kernel/mm/transparent_hugepage/{name}") for name in ("enabled", "shmem_enabled")}
    file = SharedFile.create("gondwana-pages", HUGE)
    memory = map_shared(file.descriptor, HUGE, huge=True)
    os.close(file.descriptor)
    error = collapse(memory.ctypes.data, 1)
    why = f"4 KiB: shmem_enabled is never, and Linux {os.uname().release} refuses MADV_COLLAPSE: {os.strerror(error)}"
    small = "[never]" in settings["shmem_enabled"] or "[deny]" in settings["shmem_enabled"]
    return {
        "private": "4 KiB: transparent_hugepage/enabled is never" if "[never]" in settings["enabled"] else "2 MiB",
        "shared": why if error and small else "2 MiB",
    }
