"""Messages of a plan between GPUs: packed on the device, and unpacked there."""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gondwana.gpu.device import Event
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.pinned import pin
from gondwana.teams import Team
from gondwana.teams.request import PersistentRequest
from gondwana.transfer import paths
from gondwana.transfer.box_copy import Copy
from gondwana.transfer.devices.device_boxes import BoxProgram
from gondwana.transfer.plans.host import message_starts
from gondwana.transfer.plans.pairs import Pair
from gondwana.transfer.plans.plan import free_requests

_ALIGN = 16
"""Bytes on which the elements of a pair start in a message, so that they are moved in the widest units."""


class _Buffers:
    """A message in device memory and in host memory that the driver reaches directly."""

    def __init__(self, kind: CudaKind, pairs: list[Pair]) -> None:
        starts = message_starts([pair.nbytes for pair in pairs], _ALIGN)
        self.nbytes = max(starts[-1], _ALIGN)
        self.device = kind.device
        self.address = kind.allocate(self.nbytes)
        weakref.finalize(self, kind.free, self.address).atexit = False
        self.host: npt.NDArray[np.uint8] = np.frombuffer(mmap.mmap(-1, self.nbytes), np.uint8)
        pin(self.host, self.device)
        self.parts = [self.address + start for start in starts[:-1]]


class _Message:
    """What two ranks exchange in one direction: its buffers, what packs or unpacks it, its persistent request."""

    def __init__(self, kind: CudaKind, pairs: list[Pair], copy: Callable[[Pair, int], Copy]) -> None:
        self._buffers = _Buffers(kind, pairs)
        self._program = BoxProgram(kind, [copy(*placed) for placed in zip(pairs, self._buffers.parts, strict=True)])

    def _keep(self, request: PersistentRequest) -> PersistentRequest:
        """Return a request that is freed with this object."""
        weakref.finalize(self, free_requests, [request]).atexit = False
        return request


class Outgoing(_Message):
    """What one rank sends to another. Local.

    Args:
        team: of both.
        rank: who receives it.
        kind: of this rank's memory.
        pairs: with sources of this rank.
        tag: of the message.
    """

    def __init__(self, team: Team, rank: int, kind: CudaKind, pairs: list[Pair], tag: int) -> None:
        super().__init__(kind, pairs, Pair.packing)
        self._request = self._keep(team.Send_init(self._buffers.host, rank, tag))
        self._packed: Event | None = None

    def start(self, kernels: Event, stream: int) -> None:
        """Pack the message, behind what is on a stream. Local; does not wait."""
        buffers = self._buffers
        self._program.launch(stream)
        buffers.device.driver.copy(buffers.host.ctypes.data, buffers.address, buffers.nbytes, stream)
        self._packed = buffers.device.record(stream)
        paths.STAGED.count(self._program.nbytes)

    def advance(self) -> bool:
        """Send the message when it is packed; return whether it is sent. Local."""
        if self._packed is not None:
            if not self._packed.reached():
                return False
            self._packed = None
            self._request.start()
        return self._request.test()


class Incoming(_Message):
    """What one rank receives from another. Local.

    Args:
        team: of both.
        rank: who sends it.
        kind: of this rank's memory.
        pairs: with destinations of this rank.
        tag: of the message.
    """

    def __init__(self, team: Team, rank: int, kind: CudaKind, pairs: list[Pair], tag: int) -> None:
        super().__init__(kind, pairs, Pair.unpacking)
        self._request = self._keep(team.Recv_init(self._buffers.host, rank, tag))
        self._stream = 0
        self._uploaded: Event | None = None
        self._receiving = self._done = False

    def start(self, kernels: Event, stream: int) -> None:
        """Begin a round; the destinations will be written behind what is on a stream. Local; does not wait."""
        self._stream = stream
        self._receiving = self._done = False

    def advance(self) -> bool:
        """Write the destinations when the message is there; return whether that is on the stream. Local."""
        buffers = self._buffers
        if not self._receiving and (self._uploaded is None or self._uploaded.reached()):
            self._request.start()  # the message of the last round has left the host memory
            self._receiving = True
        if self._receiving and not self._done and self._request.test():
            buffers.device.driver.copy(buffers.address, buffers.host.ctypes.data, buffers.nbytes, self._stream)
            self._uploaded = buffers.device.record(self._stream)
            self._program.launch(self._stream)
            self._done = True
        return self._done
