"""Memory of the emulated devices: ordinary shared memory under addresses that are invalid for the processor."""

from __future__ import annotations

import bisect
import functools
import os
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gondwana.gpu.interface import CudaError
from gondwana.runtime.shared_file import ForeignFileError, SharedFile
from gondwana_emulator.arena import Arena, View

CAPACITY = 4 << 30
"""Bytes of a device."""

EVERYWHERE = -1
"""Stands for a device's number: memory that all devices access."""

_DEVICE = 1 << 62
"""Addresses from here on belong to devices: the bits below hold the process, so that addresses are unique."""
_PROCESS_SHIFT = 40
_GAP = 4096
_HANDLE = struct.Struct("<16sqqqqqq")
_MAGIC = b"emulated memory\0"


@dataclass(slots=True)
class Range:
    """A range of addresses that devices access.

    Attributes:
        start: first address.
        nbytes: number of bytes.
        real: real address of its bytes in this process.
        device: number of the device that reaches it, or `EVERYWHERE`.
        kind: "own", "attached" or "host".
        users: number of times it was attached.
    """

    start: int
    nbytes: int
    real: int
    device: int
    kind: str
    users: int = 1


class Memory:
    """All memory that kernels and copies of this process access."""

    def __init__(self, devices: int) -> None:
        self._capacity = devices * CAPACITY
        self._ranges: dict[int, Range] = {}
        self._starts: list[int] = []
        self._rows: dict[int, NDArray[np.int64]] = {}
        self._attached: dict[bytes, int] = {}
        self._views: dict[SharedFile, View] = {}
        self._next = _DEVICE + (os.getpid() << _PROCESS_SHIFT) + _GAP

    @functools.cached_property
    def _arena(self) -> Arena:
        return Arena(self._capacity)

    def allocate(self, nbytes: int, device: int) -> int:
        """Return the address of new memory, filled with garbage."""
        if nbytes > self.free_bytes(device):
            raise MemoryError(f"the emulated GPU has no {nbytes} bytes of memory left")
        return self._new(nbytes, self._arena.view.base + self._arena.take(nbytes), device, "own")

    def free_bytes(self, device: int) -> int:
        """Return the free bytes of a device."""
        owned = (found.nbytes for found in self._ranges.values() if found.kind == "own" and found.device == device)
        return CAPACITY - sum(owned)

    def free(self, address: int) -> None:
        """Free memory."""
        found = self._beginning(address, "own", "INVALID_VALUE")
        self._remove(found)
        self._arena.give(found.real - self._arena.view.base, found.nbytes)

    def register(self, address: int, nbytes: int) -> None:
        """Make memory of the host accessible to devices."""
        if nbytes <= 0 or not _mapped(address, nbytes):
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: register({address:#x}, {nbytes}): nothing is mapped there")
        if any(old.start < address + nbytes and address < old.start + old.nbytes for old in self._ranges.values()):
            raise CudaError(f"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: {nbytes} bytes at {address:#x}")
        self._add(Range(address, nbytes, address, EVERYWHERE, "host"))

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        self._remove(self._beginning(address, "host", "HOST_MEMORY_NOT_REGISTERED"))

    def export(self, address: int) -> bytes:
        """Return the handle of memory that `allocate` returned."""
        found = self._beginning(address, "own", "INVALID_VALUE")
        file, offset = self._arena.file, found.real - self._arena.view.base
        packed = _HANDLE.pack(_MAGIC, file.process, file.descriptor, file.inode, self._capacity, offset, found.nbytes)
        return packed.ljust(64, b"\0")

    def attach(self, handle: bytes) -> int:
        """Return the address of another process's memory, the same one if it is attached already."""
        if handle in self._attached:
            self._ranges[self._attached[handle]].users += 1
            return self._attached[handle]
        magic, process, descriptor, inode, whole, offset, nbytes = _HANDLE.unpack_from(handle)
        if magic != _MAGIC or process == os.getpid():
            raise CudaError("CUDA_ERROR_INVALID_CONTEXT: a handle of this process, or of no emulated GPU")
        view = self._view(SharedFile(process, descriptor, inode), whole)
        self._attached[handle] = self._new(nbytes, view.base + offset, EVERYWHERE, "attached")
        return self._attached[handle]

    def detach(self, address: int) -> None:
        """Undo `attach`."""
        found = self._beginning(address, "attached", "INVALID_VALUE")
        found.users -= 1
        if found.users == 0:
            self._remove(found)
            self._attached = {handle: start for handle, start in self._attached.items() if start != address}

    def real(self, address: int, nbytes: int) -> int:
        """Return the real address of bytes in this process, for copies: memory of the host needs no registration."""
        if not is_device(address) or nbytes == 0:
            return address
        place = bisect.bisect_right(self._starts, address) - 1
        found = self._ranges[self._starts[place]] if place >= 0 else None
        if found is None or address + nbytes > found.start + found.nbytes:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: {nbytes} bytes at {address:#x} are outside of all memory")
        return found.real + address - found.start

    def is_pageable(self, address: int, nbytes: int) -> bool:
        """Return whether bytes are memory of the host that is not registered."""
        place = bisect.bisect_right(self._starts, address) - 1
        found = self._ranges[self._starts[place]] if place >= 0 else None
        inside = found is not None and address + nbytes <= found.start + found.nbytes
        return not is_device(address) and not inside

    def holds(self, real: int, nbytes: int) -> bool:
        """Return whether bytes under real addresses lie in one allocation of this process."""
        own = (found for found in self._ranges.values() if found.kind == "own")
        return any(found.real <= real and real + nbytes <= found.real + found.nbytes for found in own)

    def rows(self, device: int) -> NDArray[np.int64]:
        """Return the ranges that a device accesses, sorted: start, bytes, offset of the real address. Never empty."""
        if device not in self._rows:
            found = [self._ranges[start] for start in self._starts]
            reached = [one for one in found if one.device in (device, EVERYWHERE)]
            table = [(one.start, one.nbytes, one.real - one.start) for one in reached]
            self._rows[device] = np.array([(0, 0, 0), *table], np.int64)
        return self._rows[device]

    def _view(self, file: SharedFile, nbytes: int) -> View:
        """Return the file of another process, mapped once."""
        if file not in self._views:
            try:
                descriptor = file.open()
            except (OSError, ForeignFileError) as error:
                raise CudaError(f"CUDA_ERROR_MAP_FAILED: no memory of process {file.process} ({error})") from error
            try:
                self._views[file] = View(descriptor, nbytes)
            finally:
                os.close(descriptor)
        return self._views[file]

    def _beginning(self, address: int, kind: str, error: str) -> Range:
        found = self._ranges.get(address)
        if found is None or found.kind != kind:
            raise CudaError(f"CUDA_ERROR_{error}: no {kind} memory begins at {address:#x}")
        return found

    def _new(self, nbytes: int, real: int, device: int, kind: str) -> int:
        """Add a range under addresses that no other had before, with a gap between neighbours."""
        start = self._next
        self._next += -(-nbytes // _GAP) * _GAP + _GAP
        self._add(Range(start, nbytes, real, device, kind))
        return start

    def _add(self, new: Range) -> None:
        self._ranges[new.start] = new
        bisect.insort(self._starts, new.start)
        self._rows.clear()

    def _remove(self, old: Range) -> None:
        del self._ranges[old.start]
        self._starts.remove(old.start)
        self._rows.clear()


def is_device(address: int) -> bool:
    """Return whether an address belongs to a device."""
    return address >= _DEVICE


def _mapped(address: int, nbytes: int) -> bool:
    """Return whether all of the range is mapped in this process, readable and writable."""
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
