"""Copies by the driver of CUDA devices: between device memory, of this rank or attached, and host memory in reach.

Each device has a stream of copies, made when it is first needed.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TypeAlias

import numpy as np

from gondwana.futures import DONE, Future
from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import EventFuture, allocate
from gondwana.memory.ipc import OnDevice
from gondwana.memory.pinned import SMALL, Ring, is_pinned, pin_if_worth
from gondwana.transfer.box import StridedBox
from gondwana.transfer.box_copy import SOURCE, TARGET, BoxCopy, ChunkCopy, copy_between
from gondwana.transfer.devices.device_boxes import copy_box
from gondwana.transfer.devices.stream_order import Order

_BYTE = np.dtype(np.uint8)

Started: TypeAlias = tuple[Future[None], Future[None]]
"""The futures of operation completion and of source completion."""

SCRATCH = 1 << 22
"""Bytes of device memory in which boxes are packed: pieces of this size hide what a kernel's start costs."""


def can(source: StridedBox, target: StridedBox) -> bool:
    """Return whether the driver of this rank can make a copy: each end is in reach or on a CUDA device. Local."""
    if source.memory is None and target.memory is None:
        if _end(source)[0].device is _end(target)[0].device:
            return True
        # Threads of one device need not reach the memory of another, but the driver copies runs between them.
        copy = copy_between(source, target)
        return isinstance(copy, ChunkCopy) or not copy.axes
    return source.nbytes <= SMALL or _is_plain(source, target)


def hop(source: StridedBox, target: StridedBox, order: Order) -> Started:
    """Start a copy for which `can` holds. Local; does not wait, but for room in pinned memory."""
    ends = [_end(box) for box in (source, target) if box.memory is None]
    (first, start), (last, end) = ends[0], ends[-1]
    one = copy_stream(first.device)
    done: Future[None]
    reusable: Future[None]
    with one.lock:
        order.begin(one.device, [found.device for found, _ in ends if found.own])
        if len(ends) == 2:
            _move(one, source, target, start, end)
            done = reusable = EventFuture(one.device, (first, last))
        else:
            done, reusable = _transfer(one, source, target, first, start)
        order.end(one.device)
    return done, reusable


def _transfer(one: CopyStream, source: StridedBox, target: StridedBox, there: OnDevice, at: int) -> Started:
    """Copy between host memory and an address of a device, through the ring if need be."""
    up = source.memory is not None
    here = source if up else target
    if not _through_ring(one, here, _is_plain(source, target)):
        _move(one, source, target, *((here.address, at) if up else (at, here.address)))
        done = EventFuture(one.device, (there, here.memory))
        return done, done
    packed = _room(one, target if up else source)
    if up:
        packed.store(source.load())
        _move(one, packed, target, packed.address, at)
    else:
        _move(one, source, packed, at, packed.address)
    done = EventFuture(one.device, there, None if up else lambda: target.store(packed.load()))
    one.ring.hold(done)
    return done, DONE if up else done


def _through_ring(one: CopyStream, box: StridedBox, plain: bool) -> bool:
    """Whether the bytes of an end in host memory pass through the ring; registers what large copies use often."""
    mapping = None if box.pointer is None else box.pointer.segment.view(box.pointer.rank)
    if box.nbytes <= SMALL:
        return not plain or mapping is None or not is_pinned(mapping)
    if mapping is not None:
        pin_if_worth(mapping, one.device, box.nbytes)
    return False


def _room(one: CopyStream, like: StridedBox) -> StridedBox:
    """Room in the ring for the elements of a box, its axes in the order of that box's memory."""
    _, memory = one.ring.take(like.nbytes)
    strides = () if like.offsets() is not None else like.packed_strides
    return StridedBox.of(np.ndarray(like.shape, like.dtype, memory, 0, strides or None))


def _move(one: CopyStream, source: StridedBox, target: StridedBox, start: int, end: int) -> None:
    """Put a copy on the stream; one end is on a device, the other there or without gaps in host memory, or rows."""
    if source.contiguous and target.contiguous:
        one.device.driver.copy(end, start, source.nbytes, one.device.transfers)
        return
    copy = copy_between(source, target, start, end, by_target=target.memory is not None)
    if isinstance(copy, ChunkCopy):
        for a, b in copy.starts():
            one.device.driver.copy(b, a, copy.run, one.device.transfers)
    elif not (source.memory is target.memory is None and copy.suits_threads) and one.by_engine(copy):
        return
    elif source.memory is not None:
        one.scatter(copy)
    elif target.memory is not None:
        one.gather(copy)
    else:
        one.between(copy)


def _is_plain(source: StridedBox, target: StridedBox) -> bool:
    """Whether the driver can do without the processor's help at the end that is host memory."""
    if source.contiguous and target.contiguous:
        return True
    box, end = (source, SOURCE) if source.memory is not None else (target, TARGET)
    copy = copy_between(source, target, by_target=target.memory is not None)
    if isinstance(copy, ChunkCopy):
        return box.contiguous
    return copy.is_dense(end) or copy.pitched() is not None


def _end(box: StridedBox) -> tuple[OnDevice, int]:
    """How a device reaches an end, and the address of its first element there."""
    pointer = box.location
    found = pointer.segment.on_device(pointer.rank)
    assert found is not None
    return found, found.address + pointer.offset


class CopyStream:
    """The stream of copies of a device. Local.

    Attributes:
        device: Device of the stream.
        lock: Lock that is held while a copy is put on the stream, which may take several commands.
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
