"""Memory kinds: where a segment lies, and how its owner moves bytes between it and the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.futures import Future

if TYPE_CHECKING:
    from gondwana.memory.ipc import Attached, OnDevice

Bytes = npt.NDArray[np.uint8]


class MemoryKind(ABC):
    """A kind of memory. Kinds are equal if they have the same name; they can be pickled and sent.

    Attributes:
        name: what messages and counters call it.
        host: whether the processor's loads and stores reach it.
    """

    name: str
    host: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryKind) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"gw.{self.name}"


class Shareable(Protocol):
    """What the other ranks of a node need to know of device memory; can be sent to them."""

    def attach(self) -> Attached | None:
        """Return where the memory lies for this rank, None if it does not reach it. Local."""


class DeviceKind(MemoryKind):
    """A kind that loads and stores do not reach: its owner moves bytes between it and host memory."""

    @abstractmethod
    def allocate(self, nbytes: int) -> int:
        """Return the device address of new zeroed memory. Local.

        Raises:
            MemoryError: the device has no more.
        """

    @abstractmethod
    def free(self, address: int) -> None:
        """Give memory back. Local."""

    def here(self, address: int) -> OnDevice | None:
        """Return how a CUDA device reaches what `allocate` returned, None if it is no such memory. Local."""
        return None

    def share(self, address: int) -> Shareable | None:
        """Return what the other ranks of this node need to reach what `allocate` returned; None: they cannot. Local."""
        return None

    @abstractmethod
    def write(self, source: Bytes, address: int) -> Future[None]:
        """Start to copy host bytes to the device. Local; the source must not change before the future is ready."""

    @abstractmethod
    def read(self, address: int, target: Bytes) -> Future[None]:
        """Start to copy bytes of the device to the host. Local; the target is there when the future is ready."""

    @abstractmethod
    def move(self, source: int, target: int, nbytes: int) -> Future[None]:
        """Start to copy bytes between two addresses of the device. Local."""


class _Host(MemoryKind):
    name = "host"
    host = True


host: MemoryKind = _Host()
"""The main memory of a node. What ranks of one node hold of it they share by loads and stores."""
