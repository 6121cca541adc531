"""What this process needs for copies of a device beside its driver, made when it is first needed."""

from __future__ import annotations

import threading
from functools import cached_property

from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import allocate
from gondwana.memory.pinned import Ring
from gondwana.transfer.boxes import Box, cut, planes
from gondwana.transfer.pack import BoxKernels

SCRATCH = 1 << 22
"""Bytes of device memory in which boxes are put together: pieces of this size hide what a kernel's start costs."""


class Lane:
    """The stream of copies of a device, and what is used on it in order. Local.

    Attributes:
        device: whose stream.
        lock: held while a copy is put on the stream, which may take several orders.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.Lock()

    @cached_property
    def ring(self) -> Ring:
        """Pinned memory for small copies."""
        return Ring(self.device)

    @cached_property
    def kernels(self) -> BoxKernels:
        """The kernels that copy boxes."""
        return BoxKernels(self.device)

    @cached_property
    def _scratch(self) -> int:
        return allocate(self.device, SCRATCH)

    def begin(self, behind_kernels: bool) -> int:
        """Return the stream, behind the kernels launched so far if need be; the device is the current one. Local."""
        if behind_kernels:
            return self.device.after_kernels()
        self.device.activate()
        return self.device.transfers

    def planes(self, target: int, source: int, box: Box) -> bool:
        """Put the copy of a box on the stream as orders to the copy engine; tell whether that is possible. Local."""
        orders = planes(box)
        if orders is None:
            return False
        driver, stream = self.device.driver, self.device.transfers
        for order in orders:
            to, from_ = target + order.target, source + order.source
            if order.counts[1:] == (1, 1):
                driver.copy(to, from_, order.counts[0], stream)
            else:
                driver.copy_box(to, from_, order.counts, order.target_strides, order.source_strides, stream)
        return True

    def between(self, target: int, source: int, box: Box) -> None:
        """Put the copy of a box between two places that the device's threads reach on the stream. Local."""
        self.kernels.copy(target, source, box, self.device.transfers)

    def gather(self, target: int, source: int, box: Box) -> None:
        """Put the copy of a box of device memory to host memory without gaps on the stream. Local."""
        for a, b, piece in cut(box, SCRATCH):
            self.kernels.copy(self._scratch, source + a, piece, self.device.transfers)
            self.device.driver.copy(target + b, self._scratch, piece.nbytes, self.device.transfers)

    def scatter(self, target: int, source: int, box: Box) -> None:
        """Put the copy of host memory without gaps to a box of device memory on the stream. Local."""
        for a, b, piece in cut(box, SCRATCH):
            self.device.driver.copy(self._scratch, source + a, piece.nbytes, self.device.transfers)
            self.kernels.copy(target + b, self._scratch, piece, self.device.transfers)


_lanes: dict[Device, Lane] = {}


def lane(device: Device) -> Lane:
    """Return the lane of a device. Local."""
    found = _lanes.get(device)
    return _lanes.setdefault(device, Lane(device)) if found is None else found
