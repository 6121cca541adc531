"""The memory of CUDA devices: `gw.cuda(i)`."""

from __future__ import annotations

import contextlib
from typing import Any

from gondwana.errors import UsageError
from gondwana.futures import Future
from gondwana.gpu.device import Device, Event, device, opened, own_number
from gondwana.gpu.driver import driver
from gondwana.memory.events import EventFuture
from gondwana.memory.ipc import Offer, OnDevice, Shared
from gondwana.memory.kinds import Bytes, DeviceKind
from gondwana.memory.reclaim import later, reclaim
from gondwana.runtime import progress


class CudaKind(DeviceKind):
    """The memory of a CUDA device. Local; `gw.cuda(i)` returns it.

    Copies wait on the device for the kernels that this rank launched before. `free` takes effect when the device no
    longer uses the memory and no other rank has it attached.

    Attributes:
        number: of the device in a rank; on other ranks the number may be that of another device.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"cuda({number})"

    @property
    def device(self) -> Device:
        """The device of this rank with the number; opened at first use. Local."""
        return device(self.number)

    def allocate(self, nbytes: int) -> int:
        """Return the device address of new zeroed memory. Local.

        Raises:
            MemoryError: there is not enough; the message has the free bytes.
            UsageError: this rank has no such device.
        """
        one = self.device
        address = allocate(one, nbytes)
        _allocations[address] = _Allocation(one, address)
        if nbytes:
            one.driver.fill(address, 0, nbytes, one.transfers)
            one.record(one.transfers).wait()
        return address

    def free(self, address: int) -> None:
        """Free memory as soon as it is no longer in use. Local; does not wait."""
        later(_allocations.pop(address).free)

    def here(self, address: int) -> OnDevice:
        """Return how the device accesses what `allocate` returned. Local."""
        return OnDevice(self.device, address)

    def share(self, address: int) -> Shared | None:
        """Return a description by which other ranks of this node attach the memory, or None. Local."""
        return _allocations[address].share()

    def write(self, source: Bytes, address: int) -> Future[None]:
        """Start to copy host bytes to the device. Local; the source must not change before the future is ready."""
        return self._copy(address, source.ctypes.data, source.size, source)

    def read(self, address: int, target: Bytes) -> Future[None]:
        """Start to copy bytes of the device to the host. Local; the target is complete when the future is ready."""
        return self._copy(target.ctypes.data, address, target.size, target)

    def move(self, source: int, target: int, nbytes: int) -> Future[None]:
        """Start to copy bytes between two addresses of the device. Local."""
        return self._copy(target, source, nbytes, None)

    def _copy(self, target: int, source: int, nbytes: int, keep: object) -> Future[None]:
        one = self.device
        stream = one.after_kernels()
        if nbytes:
            one.driver.copy(target, source, nbytes, stream)
        return EventFuture(one, keep)

    def __reduce__(self) -> tuple[Any, ...]:
        return CudaKind, (self.number,)


class _Allocation:
    """Memory of a device from its allocation until it is freed."""

    def __init__(self, one: Device, address: int) -> None:
        self._device = one
        self._address = address
        self._offer: Offer | None = None
        self._last_use: list[Event] | None = None

    def share(self) -> Shared | None:
        if self._offer is None:
            self._offer = Offer(self._device, self._address)
        return self._offer.shared

    def free(self) -> bool:
        """Free the memory if no device uses it any more; return whether it was freed."""
        one = self._device
        if self._last_use is None:
            self._last_use = [one.record(one.compute), one.record(one.transfers)]
        if not all(event.reached() for event in self._last_use) or (
            self._offer is not None and not self._offer.withdraw()
        ):
            return False
        one.activate()
        one.driver.free(self._address)
        return True


_allocations: dict[int, _Allocation] = {}
"""By address, which is unique over all devices."""


def allocate(one: Device, nbytes: int) -> int:
    """Return the address of new uninitialised memory of a device. Local; waits for the device if memory is short.

    Raises:
        MemoryError: there is not enough; the message has the free bytes.
    """
    reclaim()
    one.activate()
    try:
        return one.driver.allocate(nbytes)
    except MemoryError:
        one.synchronize()
        if reclaim():
            with contextlib.suppress(MemoryError):
                return one.driver.allocate(nbytes)
    free, total = one.driver.memory()
    raise MemoryError(f"{nbytes} bytes asked of {one.facts.name}, of whose {total} bytes {free} are free")


def cuda(number: int | None = None) -> CudaKind:
    """Return the memory kind of a CUDA device. Local; without a number collective over the world at first use.

    Args:
        number: of the device among those that this rank sees. Default: the device of this rank; the ranks of a node
            use its devices in turn, and one line reports which rank uses which.

    Raises:
        UsageError: there is no such device, or none at all; the message has the reason and what to install.

    Example:
        >>> import gondwana as gw                                             # doctest: +SKIP
        >>> there = gw.Segment(gw.world, 1 << 20, gw.cuda()).pointer(dtype=float)     # doctest: +SKIP
        >>> gw.put(2.5, there).wait()                                         # doctest: +SKIP
    """
    if number is None:
        return CudaKind(own_number())
    count = driver().count()
    if not 0 <= number < count:
        devices = f"{count} CUDA device{'' if count == 1 else 's'}"
        raise UsageError(f"gw.cuda({number}): this rank sees {devices}, counted from 0 (CUDA_VISIBLE_DEVICES decides)")
    return CudaKind(number)


def synchronize() -> None:
    """Wait until all kernels that this rank has launched are done. Local; blocks; user-level progress.

    Barriers, signals and messages do not wait for kernels. Call this before signalling other ranks that they may read
    what kernels write to device memory here. Copies that this rank starts itself wait for its kernels anyway.

    Raises:
        ProgressError: called inside a callback while kernels run.

    Example:
        >>> import gondwana as gw
        >>> gw.synchronize()
    """
    events = [one.record(one.compute) for one in opened()]
    progress.wait_until(lambda: all(event.reached() for event in events), "the kernels of this rank")
