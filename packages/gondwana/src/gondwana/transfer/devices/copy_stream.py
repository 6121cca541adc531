"""The stream of copies of a device, and what is used on it in order: made when it is first needed."""

from __future__ import annotations

import threading
from functools import cached_property

from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import allocate
from gondwana.memory.pinned import Ring
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.devices.device_boxes import copy_box

SCRATCH = 1 << 22
"""Bytes of device memory in which boxes are packed: pieces of this size hide what a kernel's start costs."""


class CopyStream:
    """The stream of copies of a device. Local.

    Attributes:
        device: whose stream.
        lock: held while a copy is put on the stream, which may take several commands.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.Lock()

    @cached_property
    def ring(self) -> Ring:
        """Pinned memory for small copies."""
        return Ring(self.device)

    @cached_property
    def _scratch(self) -> int:
        return allocate(self.device, SCRATCH)

    def begin(self, behind_kernels: bool) -> int:
        """Return the stream, behind the kernels launched so far if need be; the device is the current one. Local."""
        if behind_kernels:
            return self.device.after_kernels()
        self.device.activate()
        return self.device.transfers

    def by_engine(self, copy: BoxCopy) -> bool:
        """Put a copy on the stream as copy-engine commands; return whether that is possible. Local."""
        commands = copy.pitched()
        if commands is None:
            return False
        driver, stream = self.device.driver, self.device.transfers
        for source, target, axes, run in commands:
            if not axes:
                driver.copy(target, source, run, stream)
                continue
            (planes, source_plane, target_plane), (rows, source_row, target_row) = axes
            pitches = (target_row, target_plane), (source_row, source_plane)
            driver.copy_box(target, source, (run, rows, planes), *pitches, stream)
        return True

    def between(self, copy: BoxCopy) -> None:
        """Put the copy between two addresses that the device's threads reach on the stream. Local."""
        copy_box(self.device, copy, self.device.transfers)

    def gather(self, copy: BoxCopy) -> None:
        """Put the copy of a box of device memory to host memory without gaps on the stream. Local."""
        for piece in copy.pieces(SCRATCH):
            self.between(piece._replace(target=self._scratch))
            self.device.driver.copy(piece.target, self._scratch, piece.nbytes, self.device.transfers)

    def scatter(self, copy: BoxCopy) -> None:
        """Put the copy of host memory without gaps to a box of device memory on the stream. Local."""
        for piece in copy.pieces(SCRATCH):
            self.device.driver.copy(self._scratch, piece.source, piece.nbytes, self.device.transfers)
            self.between(piece._replace(source=self._scratch))


_streams: dict[Device, CopyStream] = {}


def copy_stream(device: Device) -> CopyStream:
    """Return the stream of copies of a device. Local."""
    found = _streams.get(device)
    return _streams.setdefault(device, CopyStream(device)) if found is None else found
