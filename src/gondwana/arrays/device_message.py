"""Ghosts that travel by messages between GPUs: put together on the device, and taken apart there."""

from __future__ import annotations

import mmap
import weakref

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import MemoryOrder
from gondwana.arrays.base import DomainArray
from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.ghost_cells import Move
from gondwana.arrays.ghost_exchange import free_requests
from gondwana.gpu.device import Event
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.pinned import pin
from gondwana.teams import Team
from gondwana.transfer import paths
from gondwana.transfer.box import contiguous_strides
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.device_boxes import BoxProgram

_ALIGN = 16
"""Bytes on which the cells of a move start in a message, so that they are moved in the widest units."""


class _Buffers:
    """A message in device memory and in host memory that the driver reaches directly."""

    def __init__(self, kind: CudaKind, moves: list[Move]) -> None:
        ends = np.cumsum([-(-move.source.nbytes // _ALIGN) * _ALIGN for move in moves]).tolist()
        self.nbytes: int = ends[-1]
        self.device = kind.device
        self.address = kind.allocate(self.nbytes)
        weakref.finalize(self, kind.free, self.address).atexit = False
        self.host: npt.NDArray[np.uint8] = np.frombuffer(mmap.mmap(-1, self.nbytes), np.uint8)
        pin(self.host, self.device)
        self.places = [self.address + start for start in (0, *ends[:-1])]


class Outgoing:
    """What one rank sends to the ghosts of another. Local.

    Args:
        team: of both.
        rank: who gets it.
        kind: of this rank's memory.
        moves: from cells of this rank.
        tag: of the message.
    """

    def __init__(self, team: Team, rank: int, kind: CudaKind, moves: list[Move], tag: int) -> None:
        self._buffers = _Buffers(kind, moves)
        pairs = zip(moves, self._buffers.places, strict=True)
        self._pack = BoxProgram(kind, [_packing(move.source, place, move.order) for move, place in pairs])
        self._request = team.Send_init(self._buffers.host, rank, tag)
        weakref.finalize(self, free_requests, [self._request]).atexit = False
        self._packed: Event | None = None

    def start(self, kernels: Event, stream: int) -> None:
        """Put the message together, behind what is on a stream. Local; does not wait."""
        buffers = self._buffers
        self._pack.launch(stream)
        buffers.device.driver.copy(buffers.host.ctypes.data, buffers.address, buffers.nbytes, stream)
        self._packed = buffers.device.record(stream)
        paths.STAGED.count(self._pack.nbytes)

    def advance(self) -> bool:
        """Send the message when it is put together; return whether it is sent. Local."""
        if self._packed is not None:
            if not self._packed.reached():
                return False
            self._packed = None
            self._request.start()
        return self._request.test()


class Incoming:
    """What one rank gets for its ghosts from another. Local.

    Args:
        team: of both.
        rank: who sends it.
        kind: of this rank's memory.
        moves: to ghosts of this rank.
        tag: of the message.
    """

    def __init__(self, team: Team, rank: int, kind: CudaKind, moves: list[Move], tag: int) -> None:
        self._buffers = _Buffers(kind, moves)
        pairs = zip(moves, self._buffers.places, strict=True)
        self._unpack = BoxProgram(kind, [_unpacking(place, move.target, move.order) for move, place in pairs])
        self._request = team.Recv_init(self._buffers.host, rank, tag)
        weakref.finalize(self, free_requests, [self._request]).atexit = False
        self._stream = 0
        self._uploaded: Event | None = None
        self._receiving = self._done = False

    def start(self, kernels: Event, stream: int) -> None:
        """Begin a round; the ghosts will be written behind what is on a stream. Local; does not wait."""
        self._stream = stream
        self._receiving = self._done = False

    def advance(self) -> bool:
        """Write the ghosts when the message is there; return whether that is on the stream. Local."""
        buffers = self._buffers
        if not self._receiving and (self._uploaded is None or self._uploaded.reached()):
            self._request.start()  # the message of the last round has left the host memory
            self._receiving = True
        if self._receiving and not self._done and self._request.test():
            buffers.device.driver.copy(buffers.address, buffers.host.ctypes.data, buffers.nbytes, self._stream)
            self._uploaded = buffers.device.record(self._stream)
            self._unpack.launch(self._stream)
            self._done = True
        return self._done


def _packing(cells: DomainArray, place: int, order: MemoryOrder) -> BoxCopy:
    """The copy of cells to their place in a message."""
    item = cells.dtype.itemsize
    packed = contiguous_strides(cells.shape, item, order)
    return BoxCopy.of(cells.shape, item, cells.strides, packed, source=_address(cells), target=place)


def _unpacking(place: int, ghosts: DomainArray, order: MemoryOrder) -> BoxCopy:
    """The copy of ghosts from their place in a message."""
    item = ghosts.dtype.itemsize
    packed = contiguous_strides(ghosts.shape, item, order)
    return BoxCopy.of(ghosts.shape, item, packed, ghosts.strides, source=place, target=_address(ghosts))


def _address(array: DomainArray) -> int:
    assert isinstance(array, DeviceArray)
    return array.address
