"""Device memory of another library, as a segment of which this rank alone knows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.ipc import OnDevice
from gondwana.memory.segment import Segment
from gondwana.teams import world
from gondwana.transfer.box import StridedBox, bounds

_keys = itertools.count(-1, -1)  # those of segments that ranks make together are positive


class Borrowed(Segment):
    """Device memory that another library has allocated. Local to make.

    Copies of this rank reach it as they reach segments; names of its elements mean nothing to other ranks.

    Args:
        address: where it starts.
        nbytes: of it.
        device: number of the device where it lies.
        readonly: whether it must not be written.
        owner: what keeps it from being given back.
    """

    def __init__(self, address: int, nbytes: int, device: int, *, readonly: bool, owner: object) -> None:
        self.team = world
        self.nbytes = nbytes
        self.kind = self._own_kind = CudaKind(device)
        self.address = address
        self.readonly = readonly
        self.key = next(_keys)
        self._window = None
        self.elements = {}
        self.devices = {world.rank: OnDevice(self._own_kind.device, address, owner=owner)}
        self._published = {}
        self._on_devices = {}

    def kind_of(self, rank: int) -> CudaKind:
        """Return the kind of memory; there is only this rank's. Local."""
        return self._own_kind

    def nbytes_of(self, rank: int) -> int:
        """Return the bytes of it. Local."""
        return self.nbytes

    def address_of(self, rank: int) -> int:
        """Return 0: it is no host memory. Local."""
        return 0


def borrow(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype[Any],
    device: int,
    *,
    readonly: bool,
    owner: object,
) -> StridedBox:
    """Return elements in device memory of another library. Local, no copy.

    Args:
        address: of the first element.
        shape: elements along each axis.
        strides: bytes from one to the next along each axis, of any sign.
        dtype: type of an element.
        device: number of the device where they lie.
        readonly: whether they must not be written.
        owner: what keeps the memory from being given back.
    """
    low, high = bounds(shape, strides, dtype.itemsize)
    memory = Borrowed(address + low, high - low, device, readonly=readonly, owner=owner)
    return StridedBox.named(memory.pointer(world.rank, dtype, -low), shape, strides)
