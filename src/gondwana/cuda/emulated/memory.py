"""Memory of the emulated devices: ordinary shared memory under addresses that mean nothing to the processor."""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gondwana.cuda.driver import CudaError
from gondwana.world.shared_file import ForeignFileError, SharedFile

CAPACITY = 4 << 30
"""Bytes of a device."""

EVERYWHERE = -1
"""Instead of a device's number: memory that all devices reach."""

RUBBISH = 0xDB
"""Undefined memory is filled with it, as far as `_MOST_RUBBISH`: beyond, filling would only take time."""

_MOST_RUBBISH = 64 << 20
_DEVICE = 1 << 62
"""Addresses from here on are of a device: the bits below hold the process, so that none is mistaken for another's."""
_PROCESS_SHIFT = 40
_PAGE = 4096
_HANDLE = struct.Struct("<16sqqqqq")
_MAGIC = b"emulated memory"


@dataclass(slots=True)
class Range:
    """A range of addresses that devices reach.

    Attributes:
        start: first address.
        nbytes: how many.
        real: where its bytes are in this process.
        device: which devices reach it.
        file: by which other processes attach it; None where they cannot.
        mapping: keeps the bytes.
        users: how often it was attached.
    """

    start: int
    nbytes: int
    real: int
    device: int
    file: SharedFile | None = None
    mapping: mmap.mmap | None = None
    users: int = 1


@dataclass(slots=True)
class Memory:
    """All memory that kernels and copies of this process reach."""

    ranges: dict[int, Range] = field(default_factory=dict)
    attached: dict[bytes, int] = field(default_factory=dict)
    _next: int = 0
    _starts: list[int] = field(default_factory=list)
    _rows: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def allocate(self, nbytes: int, device: int) -> int:
        """Return the address of new memory, full of rubbish."""
        if nbytes > self.free_bytes(device):
            raise MemoryError(f"the emulated GPU has no {nbytes} bytes of memory left")
        file = SharedFile.create("gondwana-emulated-gpu", max(nbytes, 1))
        start = self._map(file, file.descriptor, nbytes, device)
        ctypes.memset(self.ranges[start].real, RUBBISH, min(nbytes, _MOST_RUBBISH))
        return start

    def free_bytes(self, device: int) -> int:
        """Return how much of a device is free."""
        used = [found.nbytes for found in self.ranges.values() if found.device == device and found.file is not None]
        return CAPACITY - sum(used)

    def free(self, address: int) -> None:
        """Give memory back; whoever still looks at it finds rubbish."""
        found = self.ranges.get(address)
        if found is None or found.file is None:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: free({address:#x}): no memory of the device begins there")
        ctypes.memset(found.real, RUBBISH, min(found.nbytes, _MOST_RUBBISH))
        self._remove(found)
        os.close(found.file.descriptor)

    def register(self, address: int, nbytes: int) -> None:
        """Let devices reach memory of the host."""
        if nbytes <= 0 or address <= 0 or address + nbytes > _DEVICE:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: register({address:#x}, {nbytes}): no memory of the host")
        if any(old.start < address + nbytes and address < old.start + old.nbytes for old in self.ranges.values()):
            raise CudaError(f"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: {nbytes} bytes at {address:#x}")
        if not _mapped(address, nbytes):
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: register({address:#x}, {nbytes}): nothing is mapped there")
        self._add(Range(address, nbytes, address, EVERYWHERE))

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        found = self.ranges.get(address)
        if found is None or found.mapping is not None:
            raise CudaError(f"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: {address:#x}")
        self._remove(found)

    def export(self, address: int) -> bytes:
        """Return the handle of memory that `allocate` returned."""
        found = self.ranges.get(address)
        if found is None or found.file is None:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: export({address:#x}): no memory of the device begins there")
        file = found.file
        return _HANDLE.pack(_MAGIC, file.process, file.descriptor, file.inode, found.nbytes, found.device).ljust(64)

    def attach(self, handle: bytes) -> int:
        """Return the address of another process's memory; again the same one if it is attached already."""
        if handle in self.attached:
            self.ranges[self.attached[handle]].users += 1
            return self.attached[handle]
        magic, process, descriptor, inode, nbytes, _ = _HANDLE.unpack(handle[: _HANDLE.size])
        if magic.rstrip(b"\0") != _MAGIC or process == os.getpid():
            raise CudaError("CUDA_ERROR_INVALID_CONTEXT: a handle of this process, or of no emulated GPU")
        try:
            opened = SharedFile(process, descriptor, inode).open()
        except (OSError, ForeignFileError) as error:
            raise CudaError(f"CUDA_ERROR_MAP_FAILED: the memory of process {process} is gone ({error})") from error
        try:
            self.attached[handle] = self._map(None, opened, nbytes, EVERYWHERE)
        finally:
            os.close(opened)
        return self.attached[handle]

    def detach(self, address: int) -> None:
        """Undo `attach`."""
        handle = next((handle for handle, start in self.attached.items() if start == address), None)
        if handle is None:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: detach({address:#x}): nothing is attached there")
        found = self.ranges[address]
        found.users -= 1
        if found.users == 0:
            del self.attached[handle]
            self._remove(found)

    def real(self, address: int, nbytes: int) -> int:
        """Return where bytes are in this process, for copies: memory of the host needs no registration."""
        if address < _DEVICE or nbytes == 0:
            return address
        place = bisect.bisect_right(self._starts, address) - 1
        found = self.ranges[self._starts[place]] if place >= 0 else None
        if found is None or address + nbytes > found.start + found.nbytes:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: {nbytes} bytes at {address:#x} are outside of all memory")
        return found.real + address - found.start

    def rows(self, device: int) -> NDArray[np.int64]:
        """Return what a device reaches, sorted: start, bytes, way to the real address. Never empty."""
        if device not in self._rows:
            found = [self.ranges[start] for start in self._starts]
            reached = [one for one in found if one.device in (device, EVERYWHERE)]
            table = [(one.start, one.nbytes, one.real - one.start) for one in reached]
            self._rows[device] = np.array([(0, 0, 0), *table], np.int64)
        return self._rows[device]

    def _map(self, file: SharedFile | None, descriptor: int, nbytes: int, device: int) -> int:
        mapping = mmap.mmap(descriptor, max(nbytes, 1))
        start = _DEVICE + (os.getpid() << _PROCESS_SHIFT) + _PAGE + self._next
        self._next += -(-nbytes // _PAGE) * _PAGE + _PAGE
        real = np.frombuffer(mapping, np.uint8).ctypes.data
        self._add(Range(start, nbytes, real, device, file, mapping))
        return start

    def _add(self, new: Range) -> None:
        self.ranges[new.start] = new
        bisect.insort(self._starts, new.start)
        self._rows.clear()

    def _remove(self, old: Range) -> None:
        del self.ranges[old.start]
        self._starts.remove(old.start)
        self._rows.clear()
        if old.mapping is not None:
            old.mapping.close()


def _mapped(address: int, nbytes: int) -> bool:
    """Tell whether this process has all of the range in memory that it may read and write."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as lines:
        for line in lines:
            bounds, access = line.split(maxsplit=2)[:2]
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            if start <= address < end:
                if not access.startswith("rw"):
                    return False
                if address + nbytes <= end:
                    return True
                address, nbytes = end, address + nbytes - end
    return False
