"""Pinned host memory: mappings that are registered with drivers, and a ring buffer for small copies."""

from __future__ import annotations

import mmap
import weakref
from collections import deque

import numpy as np

from gondwana.gpu.device import Device
from gondwana.gpu.interface import CudaError
from gondwana.memory import fallbacks
from gondwana.memory.cuda_kind import EventFuture
from gondwana.memory.kinds import Bytes

SMALL = 1 << 16
"""Largest copy that goes through the ring buffer, instead of pinning the host memory at its end [bytes]."""

_RING = 1 << 20
_STEP = 256
_PAGE = mmap.PAGESIZE

_copied: dict[int, int] = {}
"""Bytes that the driver has copied from and to a mapping, by the address of its first byte."""

_registered: dict[int, bool] = {}
"""Whether a mapping could be registered with the driver, by the address of its first byte."""


def is_pinned(mapping: Bytes) -> bool:
    """Return whether a mapping is registered. Local."""
    return _registered.get(mapping.ctypes.data, False)


def pin(mapping: Bytes, device: Device) -> bool:
    """Register memory for as long as it lives. Local; only the first call for a mapping has an effect.

    Args:
        mapping: Whole mapping: no other array may be on its first or last page.
        device: Device that will access it; all others can, too.

    Returns:
        Whether the memory is registered. The first refusal in the job is logged; copies then work, but more slowly.
    """
    first = mapping.ctypes.data
    if first not in _registered:
        _registered[first] = mapping.size > 0 and _register(mapping, device)
        weakref.finalize(mapping, _forget, first, device).atexit = False
    return _registered[first]


def pin_if_worth(mapping: Bytes, device: Device, nbytes: int) -> None:
    """Register memory once the driver has copied as many bytes from and to it as it has. Local.

    The driver's own staging takes about as long for a byte as registering (estimated: at 4 to 10 GB/s). So a mapping
    that is copied as a whole is registered at once, and one of which parts are copied costs twice the time at most.

    Args:
        mapping: Whole mapping, as for `pin`.
        device: Device that accesses it.
        nbytes: Bytes that are about to be copied.
    """
    first = mapping.ctypes.data
    if first not in _copied:
        _copied[first] = 0
        weakref.finalize(mapping, _copied.pop, first, None).atexit = False
    _copied[first] += nbytes
    if _copied[first] >= mapping.size:
        pin(mapping, device)


def _register(mapping: Bytes, device: Device) -> bool:
    start = mapping.ctypes.data // _PAGE * _PAGE
    device.activate()
    try:
        device.driver.register(start, mapping.ctypes.data + mapping.size - start)
    except (CudaError, MemoryError) as error:
        text = f"{mapping.size} bytes of host memory cannot be pinned ({error}); copies from and to them are slower"
        fallbacks.record(fallbacks.PIN, text)
        return False
    return True


def _forget(first: int, device: Device) -> None:
    """Undo the registration, before the memory is unmapped."""
    if _registered.pop(first):
        device.activate()
        device.driver.unregister(first // _PAGE * _PAGE)


class Ring:
    """Pinned memory through which the small copies of one device pass, in their order. Local.

    A copy that does not fit waits for the oldest one.
    """

    def __init__(self, device: Device) -> None:
        self._memory = np.frombuffer(mmap.mmap(-1, _RING, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
        self._address = self._memory.ctypes.data
        pin(self._memory, device)
        self._used: deque[tuple[int, EventFuture]] = deque()
        self._first = self._next = 0

    def take(self, nbytes: int) -> tuple[int, Bytes]:
        """Return the address of up to `SMALL` free bytes, and the bytes. Local; blocks if full; then call `hold`."""
        start = self._next
        if start % _RING + nbytes > _RING:
            start = -(-start // _RING) * _RING  # does not fit before the end of the memory
        end = start + -(-nbytes // _STEP) * _STEP
        while self._used and (self._used[0][1].done() or end - self._first > _RING):
            self._used[0][1].end()
            self._first = self._used.popleft()[0]
        if not self._used:
            self._first = start
        self._next = end
        first = start % _RING
        return self._address + first, self._memory[first : first + nbytes]

    def hold(self, copy: EventFuture) -> None:
        """Reserve the bytes of the last `take` until a copy is done. Local."""
        self._used.append((self._next, copy))
