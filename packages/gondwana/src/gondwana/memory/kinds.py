"""Memory kinds: the place of a segment, and how its owner copies bytes between it and the host."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.futures import Future

if TYPE_CHECKING:
    from gondwana.gpu.device import Device
    from gondwana.memory.ipc import Attached, OnDevice
    from gondwana.teams.buffers import Buffer
    from gondwana.teams.device_memory import DeviceBytes

Bytes = npt.NDArray[np.uint8]


class MemoryKind(ABC):
    """A kind of memory. Kinds are equal if they have the same name; they can be pickled and sent.

    Attributes:
        name: Name in messages and counters.
        host: Whether the processor accesses it by loads and stores.
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

    def for_mpi(self, address: int, nbytes: int, owner: object = None) -> DeviceBytes | None:
        """Return memory of this rank's device, which `owner` keeps, as MPI gets it; None if it does not. Local."""
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
    """The main memory of a node. Ranks of a node access each other's by loads and stores."""

    name = "host"
    host = True


host: MemoryKind = _Host()


_ALIGNMENT = 8
"""Alignment required of a user's memory [bytes]: compiled code and MPI expect numbers of 8 bytes to be aligned."""


def checked_size(nbytes: int | None, kind: MemoryKind, memory: Buffer | None) -> int:
    """Return the bytes of a segment to allocate. Local.

    Raises:
        UsageError: the arguments of `Segment` are wrong, as far as this rank can tell.
    """
    if not isinstance(kind, MemoryKind):
        raise UsageError(f"a segment of kind {kind!r}: legal are gw.host, gw.cuda(...) and gw.fake_device")
    if (nbytes is None) == (memory is None):
        raise UsageError("a segment: give the bytes of this rank's part, or memory=, and not both")
    if nbytes is None:
        return 0
    try:
        whole = operator.index(nbytes)
    except TypeError:
        raise UsageError(f"a segment of {nbytes!r} bytes: give an integer, 0 or more") from None
    if whole < 0:
        raise UsageError(f"a segment of {whole} bytes: give 0 or more")
    return whole


def given_bytes(memory: Buffer, kind: MemoryKind) -> npt.NDArray[np.uint8]:
    """Return the bytes of a user's memory for a segment. Local.

    Raises:
        UsageError: it is not contiguous, writable host memory, or holds Python objects.
    """
    if kind is not host:
        raise UsageError(f"a segment of memory= that is given, of kind {kind.name}: only host memory can be given")
    legal = "give an ndarray, or another object with the buffer protocol: contiguous, writable, without Python objects"
    try:
        array = memory if isinstance(memory, np.ndarray) else np.asarray(memoryview(memory))
    except TypeError:
        raise UsageError(f"a segment of memory that is given is a {type(memory).__name__}: {legal}") from None
    if array.dtype.hasobject:
        raise UsageError(f"a segment of memory that is given holds Python objects (dtype {array.dtype}): {legal}")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        where = f"shape {array.shape}, strides {array.strides}"
        raise UsageError(f"a segment of memory that is given is not contiguous ({where}): {legal}")
    if not array.flags.writeable:
        raise UsageError(f"a segment of memory that is given is read-only: {legal}")
    if array.size and array.ctypes.data % _ALIGNMENT:
        raise UsageError(
            f"a segment of memory that starts at the address {array.ctypes.data:#x}: give memory that starts at a "
            f"multiple of {_ALIGNMENT} bytes"
        )
    return array.reshape(-1, order="A").view(np.uint8)
