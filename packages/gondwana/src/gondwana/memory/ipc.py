"""Device memory that the ranks of a node share: each attaches allocations of the others at first use.

An owner must not free memory that others have attached. A rank that attaches memory holds a shared lock on a file that
the owner has published; the owner frees the memory when it gets the exclusive lock. Locks end with their process.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from dataclasses import dataclass

from gondwana.errors import UsageError
from gondwana.gpu.device import Device, device, opened
from gondwana.gpu.driver import driver
from gondwana.gpu.interface import CudaError
from gondwana.memory import fallbacks
from gondwana.memory.reclaim import later
from gondwana.runtime.shared_file import ForeignFileError, SharedFile
from gondwana.teams import world

_attached: weakref.WeakSet[Attached] = weakref.WeakSet()


class OnDevice:
    """Memory that a device of this process can access. Local.

    Attributes:
        device: The device.
        address: Address of its first byte on the device.
        own: Whether the memory belongs to this rank, so that its kernels may use it.
        atomic: Whether operations of the device on the memory are atomic for all devices.
        owner: An object that keeps it allocated, besides its segment.
    """

    __slots__ = ("__weakref__", "address", "atomic", "device", "own", "owner")

    def __init__(
        self, device: Device, address: int, *, own: bool = True, owner: object = None, atomic: bool = True
    ) -> None:
        self.device = device
        self.address = address
        self.own = own
        self.owner = owner
        self.atomic = atomic


class Attached(OnDevice):
    """Another process's device memory in this one; detached when this object is deleted. Local."""

    __slots__ = ()

    def __init__(self, device: Device, address: int, lock: int, *, atomic: bool) -> None:
        super().__init__(device, address, own=False, atomic=atomic)
        _attached.add(self)
        weakref.finalize(self, later, lambda: _detach(device, address, lock)).atexit = False


@dataclass(frozen=True)
class Shared:
    """A description by which the other ranks of a node attach an allocation; can be sent to them.

    Attributes:
        owner: World rank of the owner.
        uuid: Identity of its device.
        handle: Handle of the driver.
        lock: The file to lock while it is attached.
    """

    owner: int
    uuid: str
    handle: bytes
    lock: SharedFile

    def attach(self) -> Attached | None:
        """Attach the memory. Local.

        Returns:
            None if no device of this rank can access it; the first refusal in the job is logged.
        """
        near = _device_for(self.uuid)
        if near is None:
            return None
        try:
            lock = self._locked()
        except BlockingIOError:  # its owner is about to free it, and reports that when it is asked to copy
            return None
        except (OSError, ForeignFileError) as error:
            self._refused(f"it was closed, or the files of its process are not accessible: {error}")
            return None
        try:
            near.activate()
            return Attached(near, near.driver.attach(self.handle), lock, atomic=_atomic(near, self.uuid))
        except (CudaError, MemoryError) as error:
            os.close(lock)
            hidden = (
                ""
                if near.facts.uuid == self.uuid
                else (
                    "; this rank does not see that GPU: let all ranks of a node see all of its GPUs, as "
                    "srun --gpu-bind=none does"
                )
            )
            self._refused(f"{error}{hidden}")
            return None

    def _locked(self) -> int:
        """Prevent the owner from freeing the memory until the returned descriptor is closed."""
        lock = self.lock.open()
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        return lock

    def _refused(self, why: str) -> None:
        text = f"the device memory of rank {self.owner} cannot be attached ({why}); copies to and from it are staged"
        fallbacks.record(fallbacks.ATTACH, text)


class Offer:
    """An allocation of this rank that others of its node may attach. Local to create.

    Attributes:
        shared: Description for other ranks; None if the driver refuses.
    """

    def __init__(self, device: Device, address: int) -> None:
        self.shared: Shared | None = None
        self._lock: int | None = None
        try:
            device.activate()
            handle = device.driver.export(address)
        except CudaError as error:
            text = f"device memory cannot be offered to the other ranks of the node ({error}); copies are staged"
            fallbacks.record(fallbacks.EXPORT, text)
            return
        lock = SharedFile.create("gondwana-lock", 0)
        self._lock = lock.descriptor
        self.shared = Shared(world.rank, device.facts.uuid, handle, lock)

    def withdraw(self) -> bool:
        """Prevent others from attaching the memory from now on. Local; does not wait.

        Returns:
            Whether it is not attached by any rank, so that it may be freed. If not, call again later.
        """
        try:
            if self._lock is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close the file of the lock, when the memory is freed. Local."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def attached() -> int:
    """Return the number of other ranks' allocations that this one has attached. Local."""
    return len(_attached)


def _detach(near: Device, address: int, lock: int) -> bool:
    near.activate()
    near.driver.detach(address)
    os.close(lock)
    return True


def _device_for(uuid: str) -> Device | None:
    """Return the device of this process that accesses memory of a device: the same one if visible, else an open one."""
    ours = opened()
    for one in ours:
        if one.facts.uuid == uuid:
            return one
    return ours[0] if ours else _open(uuid)


def _open(uuid: str) -> Device | None:
    try:
        number = _number_of(uuid)
    except (UsageError, CudaError):  # a rank without devices
        return None
    return None if number is None else device(number)


def _number_of(uuid: str) -> int | None:
    """The number of a device in this process, None if it is not visible."""
    return next((number for number in range(driver().count()) if driver().facts(number).uuid == uuid), None)


def _atomic(near: Device, uuid: str) -> bool:
    """Whether operations of a device of this process on memory of a device are atomic for both."""
    other = near.number if near.facts.uuid == uuid else _number_of(uuid)
    return other == near.number or (other is not None and near.driver.atomics_between(near.number, other))
