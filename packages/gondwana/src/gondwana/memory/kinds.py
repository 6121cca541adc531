"""Memory kinds: the place of a segment, and how its owner copies bytes between it and the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.futures import Future

if TYPE_CHECKING:
    from gondwana.gpu.device import Device
    from gondwana.memory.ipc import Attached, OnDevice

Bytes = npt.NDArray[np.uint8]


class MemoryKind(ABC):
    """A kind of memory. Kinds are equal if they have the same name; they can be pickled and sent.

    Attributes:
        name: name in messages and counters.
        host: whether the processor accesses it by loads and stores.
    """

    name: str
    host: bool = False

    @property
    def device(self) -> Device | None:
        """The CUDA device of this rank that holds the memory; None for other kinds. Local."""
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryKind) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"gw.{self.name}"


class Shareable(Protocol):
    """A description by which other ranks of a node attach device memory; can be sent to them."""

    def attach(self) -> Attached | None:
        """Attach the memory to this rank and return it, None if that is impossible. Local."""


class DeviceKind(MemoryKind):
    """A kind without loads and stores: its owner copies bytes between it and host memory."""

    @abstractmethod
    def allocate(self, nbytes: int) -> int:
        """Return the device address of new zeroed memory. Local.

        Raises:
            MemoryError: the device has not enough memory.
        """

    @abstractmethod
    def free(self, address: int) -> None:
        """Free memory. Local."""

    def here(self, address: int) -> OnDevice | None:
        """Return memory of `allocate` as a CUDA device accesses it, None for other memory. Local."""
        return None

    def share(self, address: int) -> Shareable | None:
        """Return a description by which ranks of this node attach memory of `allocate`, or None. Local."""
        return None

    @abstractmethod
    def write(self, source: Bytes, address: int) -> Future[None]:
        """Start to copy host bytes to the device. Local; the source must not change before the future is ready."""

    @abstractmethod
    def read(self, address: int, target: Bytes) -> Future[None]:
        """Start to copy bytes of the device to the host. Local; the target is complete when the future is ready."""

    @abstractmethod
    def move(self, source: int, target: int, nbytes: int) -> Future[None]:
        """Start to copy bytes between two addresses of the device. Local."""


class _Host(MemoryKind):
    name = "host"
    host = True


host: MemoryKind = _Host()
"""The main memory of a node. Ranks of a node access each other's by loads and stores."""
