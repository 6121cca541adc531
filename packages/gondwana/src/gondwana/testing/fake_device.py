"""The fake device: memory without loads and stores, for tests of all device paths on machines without a device.

It keeps the rules of a driver. Its addresses mean nothing to the processor; copies start at once but happen later, in
any order, when this rank makes progress; freed memory holds garbage.
"""

from __future__ import annotations

import bisect
import functools
import os
import random
from typing import Any

import numpy as np

from gondwana.errors import UsageError
from gondwana.futures import Future, deferred_by
from gondwana.memory.kinds import Bytes, DeviceKind

SEED = "GONDWANA_FAKE_DEVICE_SEED"
"""Environment variable: the seed of the random delays."""

MOST_LOOKS = 6
POISON = 0xDB

_FIRST = 0x4FA0_0000_0000_0000
"""The lowest address: the processor faults on addresses from here on, whatever is mapped."""
_DEVICE = 1 << 40
_GAP = 4096


class FakeDevice(DeviceKind):
    """A fake device of this rank, for tests. Local. `gw.fake_device` is number 0, `gw.fake_device(i)` number i.

    It can do what a CUDA device can, at the speed of the host: its memory is reached only by `gw.copy` and its like.

    Example:
        >>> import gondwana as gw
        >>> there = gw.Segment(gw.world, 32, gw.fake_device).pointer(dtype=float)
        >>> gw.put(2.5, there).wait()
        >>> gw.get(there).result()
        2.5
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.name = f"fake_device({number})" if number else "fake_device"

    def __call__(self, number: int) -> FakeDevice:
        """Return another fake device of this rank. Local.

        Args:
            number: number of the device, from 0.

        Raises:
            UsageError: the number is negative.
        """
        if number < 0:
            raise UsageError(f"gw.fake_device({number}): give 0 or more")
        return FakeDevice(number)

    def allocate(self, nbytes: int) -> int:
        """Return the device address of new zeroed memory. Local."""
        return _device(self.number).allocate(nbytes)

    def free(self, address: int) -> None:
        """Free memory. Local. It is overwritten with garbage immediately, even if copies are under way."""
        _device(self.number).free(address)

    def write(self, source: Bytes, address: int) -> Future[None]:
        """Start to copy host bytes to the device: they are read late. Local."""
        return self._move(source, self._at(address, source.size))

    def read(self, address: int, target: Bytes) -> Future[None]:
        """Start to copy bytes of the device to the host: they arrive late. Local."""
        return self._move(self._at(address, target.size), target)

    def move(self, source: int, target: int, nbytes: int) -> Future[None]:
        """Start to copy bytes between two addresses of the device. Local."""
        return self._move(self._at(source, nbytes), self._at(target, nbytes))

    def _at(self, address: int, nbytes: int) -> Bytes:
        return _device(self.number).at(address, nbytes)

    def _move(self, source: Bytes, target: Bytes) -> Future[None]:
        return deferred_by(_device(self.number).delays.randrange(MOST_LOOKS), lambda: np.copyto(target, source))

    def __reduce__(self) -> tuple[Any, ...]:
        return FakeDevice, (self.number,)


class _Device:
    """The memory of one device in this process."""

    def __init__(self, number: int) -> None:
        self.delays = random.Random(f"{os.environ.get(SEED, '0')} {number}")
        self._next = _FIRST + number * _DEVICE
        self._starts: list[int] = []
        self._blocks: dict[int, Bytes] = {}

    def allocate(self, nbytes: int) -> int:
        start = self._next
        self._blocks[start] = np.zeros(nbytes, np.uint8)
        self._next += -(-nbytes // _GAP) * _GAP + _GAP
        self._starts.append(start)
        return start

    def free(self, address: int) -> None:
        self._blocks.pop(address)[:] = POISON
        self._starts.remove(address)

    def at(self, address: int, nbytes: int) -> Bytes:
        place = bisect.bisect_right(self._starts, address) - 1
        start = self._starts[place] if place >= 0 else 0
        block = self._blocks.get(start)
        if block is None or not 0 <= address - start <= block.size - nbytes:
            raise UsageError(f"a fake device has no {nbytes} bytes at {address:#x}: they were not allocated, or freed")
        return block[address - start : address - start + nbytes]


@functools.cache
def _device(number: int) -> _Device:
    return _Device(number)


fake_device = FakeDevice()
"""The first fake device of each rank."""
