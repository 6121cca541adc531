"""The memory of CUDA devices, `gw.cuda(i)`, and pending operations of devices.

The futures of operations are ready when events on streams have been reached.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from gondwana.errors import UsageError
from gondwana.futures import Future
from gondwana.gpu.device import Device, Event, device, opened, own_number
from gondwana.gpu.driver import driver
from gondwana.memory.ipc import Offer, OnDevice, Shared
from gondwana.memory.kinds import Bytes, DeviceKind
from gondwana.memory.reclaim import later, reclaim
from gondwana.runtime import interruptions, progress
from gondwana.teams import device_memory, world
from gondwana.teams.device_memory import DeviceBytes

_claiming = threading.Lock()

_BLOCK = 2 << 20
"""Bytes of a block of the driver, which other ranks attach whole: memory for them has blocks of its own."""

_WAITING = 64
"""The part of a device's memory that may wait to be freed until the device is idle: one in so many bytes. The driver
frees memory when all work is done, and keeps this rank until then."""

_POLLS = 10
"""Failed polls before a wait turns to other work: most copies take less time than one round of that."""


def cuda(number: int | None = None) -> CudaKind:
    """Return the memory kind of a CUDA device. Local; without a number collective over the world at first use.

    Args:
        number: Number of the device among those that this rank sees. Default: the device of this rank; the ranks of a
            node use its devices in turn, and one line reports which rank uses which.

    Raises:
        UsageError: the device does not exist, or no device is usable; the message has the reason and what to install.

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
    data that kernels write to device memory here. Copies that this rank starts itself wait for its kernels anyway.

    Raises:
        ProgressError: called inside a callback while kernels run.

    Example:
        >>> import gondwana as gw
        >>> gw.synchronize()
    """
    events = [one.record(one.compute) for one in opened()]
    progress.wait_until(lambda: all(event.reached() for event in events), "the kernels of this rank")


class CudaKind(DeviceKind):
    """The memory of a CUDA device. Local; `gw.cuda(i)` returns it.

    Copies wait on the device for the kernels that this rank launched before. `free` takes effect when the device has
    nothing to do, or much memory is to be freed, and no other rank has it attached.

    Attributes:
        number: Number of the device in a rank; on other ranks it may be that of another device.
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
            MemoryError: not enough memory is free; the message has the free bytes.
            UsageError: this rank has no such device.
        """
        one = self.device
        address = allocate(one, -(-nbytes // _BLOCK) * _BLOCK if world.node.size > 1 else nbytes)
        _allocations[address] = _Allocation(one, address, nbytes)
        if nbytes:
            one.driver.fill(address, 0, nbytes, one.transfers)
            one.record(one.transfers).wait()
        return address

    def free(self, address: int) -> None:
        """Free memory when it is no longer in use, and the device is idle. Local; does not wait."""
        found = _allocations.pop(address)
        found.withdraw()
        _given_back.add(found)
        later(found.free)

    def here(self, address: int) -> OnDevice:
        """Return the memory that `allocate` returned, as the device accesses it. Local."""
        return OnDevice(self.device, address)

    def for_mpi(self, address: int, nbytes: int, owner: object = None) -> DeviceBytes | None:
        """Return memory of the device, which `owner` keeps, as MPI gets it; None if it does not. Local."""
        if not device_memory.is_taken():
            return None
        return DeviceBytes(self.device.driver.address_for_mpi(address, nbytes), nbytes, owner)

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

    def __init__(self, one: Device, address: int, nbytes: int) -> None:
        self.device, self.nbytes = one, nbytes
        self._address = address
        self._offer: Offer | None = None

    def share(self) -> Shared | None:
        if self._offer is None:
            self._offer = Offer(self.device, self._address)
        return self._offer.shared

    def withdraw(self) -> bool:
        """Have no rank attach the memory from now on; return whether none has it attached."""
        return self._offer is None or self._offer.withdraw()

    def free(self) -> bool:
        """Free the memory if its device is idle, or much memory waits for that; return whether it was freed.

        Blocks in the latter case. The driver could free memory in the order of a stream, but only memory of its pools,
        which other ranks and MPI cannot attach.
        """
        one = self.device
        if one.capturing or not self.withdraw():
            return False
        if not one.idle():
            if sum(other.nbytes for other in tuple(_given_back) if other.device is one) <= one.facts.memory // _WAITING:
                return False
            one.synchronize()
        one.driver.free(self._address)
        if self._offer is not None:
            self._offer.close()
        _given_back.discard(self)
        return True


_allocations: dict[int, _Allocation] = {}
"""Allocations by address, which is unique over all devices."""

_given_back: set[_Allocation] = set()
"""Those that wait to be freed."""


def allocate(one: Device, nbytes: int) -> int:
    """Return the address of new uninitialised memory of a device. Local; waits for the device if memory is short.

    Raises:
        MemoryError: not enough memory is free; the message has the free bytes.
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


_under_way: dict[Device, deque[EventFuture]] = {}
"""Futures by device, in the order in which their operations were started, and end."""


class EventFuture(Future[Any]):
    """The future of a device's operations up to an event on its stream of copies. Local.

    It keeps the memory of the operation alive. Internal progress makes it ready, and `done()` queries the event itself.

    Args:
        device: The device of the stream.
        keep: Object that must stay allocated until then.
        finish: Function that completes the operation on the host afterwards, and returns the result of the future;
            moves data, runs no user code.
    """

    __slots__ = ("_event", "_finish", "_keep")

    def __init__(self, device: Device, keep: object, finish: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self._event: Event | None = device.record(device.transfers)
        self._keep: object = keep
        self._finish = finish
        try:
            _under_way[device].append(self)
        except KeyError:
            _under_way.setdefault(device, deque()).append(self)

    def done(self) -> bool:
        """Return whether the device has done the operation. Local; no progress."""
        event = self._event
        if not self._done and event is not None:
            self._complete_if(event.reached)
        return self._done

    def _block(self, timeout: float | None) -> None:
        """Return when the operation is done; user-level progress, but none in a callback."""
        for _ in range(_POLLS):
            if self.done():
                return
        if progress.in_callback():
            self.end()  # the device proceeds without progress of this rank
        else:
            super()._block(timeout)

    def end(self) -> None:
        """Wait until the device has done the operation. Local; blocks without progress."""
        event = self._event
        if not self._done and event is not None:
            self._complete_if(functools.partial(_await, event))
        while not self._done:
            os.sched_yield()  # another thread is completing it

    def _complete_if(self, finished: Callable[[], bool]) -> None:
        error: Exception | None = None
        try:
            if not finished():
                return
        except RuntimeError as problem:
            error = problem  # often of an earlier kernel: drivers report such errors late
        if self._claim():
            result = None
            if self._finish is not None and error is None:
                try:
                    result = self._finish()
                except Exception as problem:  # raised where the future is waited for
                    interruptions.let_pass(problem)
                    error = problem
            self._keep = self._finish = None
            self._settle(result, error)

    def _claim(self) -> bool:
        """Return whether this thread is the one that completes the future."""
        with _claiming:
            mine, self._event = self._event is not None, None
        return mine

    def _what(self) -> str:
        return "a copy of a device"


def _await(event: Event) -> bool:
    event.wait()
    return True


def _advance() -> bool:
    """Complete the operations whose events have been reached. Internal progress."""
    if not _under_way:
        return False
    some = False
    for operations in list(_under_way.values()):
        while operations and operations[0].done():
            operations.popleft()
            some = True
    return some


def _unfinished() -> str | None:
    count = sum(not operation.done() for operations in _under_way.values() for operation in operations)
    return f"{count} copies of devices under way" if count else None


progress.register(_advance, under_way=lambda: any(_under_way.values()), own=True)


progress.account_for(_unfinished)
