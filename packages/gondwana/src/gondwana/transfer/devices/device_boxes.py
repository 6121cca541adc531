"""Copies of boxes by the threads of a device, one or many in a launch, and fills: for short runs and axes in any order.

The kernels are `gpu.box_kernels_ptx`.
"""

from __future__ import annotations

import functools
import math
import struct
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.gpu import box_kernels_ptx
from gondwana.gpu.box_kernels_ptx import AXES, CHUNK, MOST_UNITS, UNITS
from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import CudaKind
from gondwana.transfer.box_copy import BoxCopy, Copy, as_boxes

_THREADS = 256
_BLOCKS = 16
"""Blocks a multiprocessor: enough to keep its memory busy; each continues with what is left when it is through."""

_box_words = struct.Struct(f"2Q{2 + AXES}I{2 * AXES}q").pack


def copy_box(one: Device, copy: BoxCopy, stream: int) -> None:
    """Copy a box between two addresses that a device reaches. Local; returns before it is done."""
    for piece in in_units(copy):
        counts, sources, targets = zip(*piece.axes, strict=True)
        words = struct.pack(f"{2 + 3 * AXES}q", piece.target, piece.source, piece.runs, *counts[1:], *targets, *sources)
        _launch(one, box_kernels_ptx.copy_name(piece.run), piece.runs, stream, words)


def fill(one: Device, target: int, shape: tuple[int, ...], strides: tuple[int, ...], value: npt.NDArray[Any]) -> None:
    """Set elements of a device to one value, in turn with its kernels. Local; does not wait.

    Args:
        one: The device.
        target: Address of the first element.
        shape: Elements along each axis, none of them 0.
        strides: Bytes from one to the next along each axis.
        value: Array of no axes and the dtype of the elements.
    """
    item = value.dtype.itemsize
    pattern = value.tobytes() * (UNITS[0] // item)
    for piece in in_units(BoxCopy.of(shape, item, strides, strides, source=target, target=target)):
        counts, _, targets = zip(*piece.axes, strict=True)
        words = struct.pack(f"2Q{AXES - 1}Q{AXES}q", piece.target, piece.runs, *counts[1:], *targets) + pattern
        _launch(one, box_kernels_ptx.fill_name(piece.run), piece.runs, one.compute, words)


class BoxProgram:
    """Copies that are carried out together, again and again. Local.

    Args:
        kind: The device whose threads copy.
        copies: Copies between addresses that they reach, in any order; no target overlaps anything.
    """

    def __init__(self, kind: CudaKind, copies: Sequence[Copy]) -> None:
        self._device = kind.device
        boxes = [piece for copy in copies for box in as_boxes(copy) for piece in in_units(box)]
        chunks = [(number, first) for number, box in enumerate(boxes) for first in range(0, box.runs, CHUNK)]
        self._blocks = len(chunks)
        self.nbytes = sum(box.nbytes for box in boxes)
        if not chunks:
            return
        table = np.frombuffer(b"".join(map(_words, boxes)) + np.array(chunks, np.uint32).tobytes(), np.uint8)
        self._address = kind.allocate(table.size)
        weakref.finalize(self, kind.free, self._address).atexit = False
        stream = self._device.transfers
        self._device.driver.copy(self._address, table.ctypes.data, table.size, stream)
        self._device.record(stream).wait()
        self._arguments = struct.pack("2Q", self._address + len(boxes) * box_kernels_ptx.BOX, self._address)

    def launch(self, stream: int) -> None:
        """Put the copies on a stream of the device. Local; does not wait."""
        if self._blocks:
            one = self._device
            entry = _entries(one)[box_kernels_ptx.COPY_LIST]
            one.activate()
            one.driver.launch(entry, (self._blocks, 1, 1), (_THREADS, 1, 1), 0, stream, self._arguments)


def in_units(copy: BoxCopy) -> Iterator[BoxCopy]:
    """Cut a copy into what the kernels take: `AXES` axes of runs that a thread moves at a time. Local.

    The runs are the widest units that all addresses are multiples of, and fewer than `MOST_UNITS`.
    """
    if not copy.nbytes:
        return
    strides = (stride for axis in copy.axes for stride in axis[1:])
    unit = math.gcd(copy.source, copy.target, copy.run, *strides, UNITS[0])
    runs = ((copy.run // unit, unit, unit),) if copy.run > unit else ()
    for piece in copy._replace(axes=copy.axes + runs, run=unit).pieces((MOST_UNITS - 1) * unit):
        for part in piece.inner(AXES):
            yield part._replace(axes=((1, 0, 0),) * (AXES - len(part.axes)) + part.axes)


def _words(box: BoxCopy) -> bytes:
    """A box in the list that the kernel reads."""
    counts, sources, targets = zip(*box.axes, strict=True)
    words = _box_words(box.target, box.source, box.runs, box.run, *counts[1:], 0, *targets, *sources)
    return words.ljust(box_kernels_ptx.BOX, b"\0")


def _launch(one: Device, name: str, units: int, stream: int, words: bytes) -> None:
    """Put a kernel of one box on a stream."""
    blocks = min(-(-units // _THREADS), _BLOCKS * one.facts.processors)
    one.driver.launch(_entries(one)[name], (blocks, 1, 1), (_THREADS, 1, 1), 0, stream, words)


@functools.cache
def _entries(one: Device) -> dict[str, int]:
    """The kernels of a device by name, loaded when they are first needed."""
    one.activate()
    module = one.driver.load(box_kernels_ptx.text())
    return {name: one.driver.entry(module, name) for name in box_kernels_ptx.names()}
