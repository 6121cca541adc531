"""Copies between boxes of device memory, many at a time, and fills of boxes: one launch of a kernel each."""

from __future__ import annotations

import functools
import math
import struct
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.gpu import box_program_ptx
from gondwana.gpu.box_program_ptx import CHUNK
from gondwana.gpu.device import Device
from gondwana.gpu.pack_ptx import AXES, MOST_UNITS, UNITS
from gondwana.memory.cuda_kind import CudaKind
from gondwana.transfer.boxes import Box, box_of, cut, runs
from gondwana.transfer.rows import Axis

_THREADS = 256
_BLOCKS = 16
"""Blocks of a fill for each multiprocessor: enough to keep its memory busy."""

_box_words = struct.Struct(f"2Q{2 + AXES}I{2 * AXES}q").pack


class BoxCopy(NamedTuple):
    """One copy between elements that a device reaches.

    Attributes:
        source: address of the first element.
        target: the same.
        shape: elements along each axis.
        item: bytes of an element.
        source_strides: bytes from one to the next along each axis.
        target_strides: the same.
    """

    source: int
    target: int
    shape: tuple[int, ...]
    item: int
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


class BoxProgram:
    """Copies that are carried out together, again and again. Local.

    Args:
        kind: the device whose threads copy.
        copies: in any order; no target overlaps anything.
    """

    def __init__(self, kind: CudaKind, copies: Sequence[BoxCopy]) -> None:
        self._device = kind.device
        boxes = [units for copy in copies for units in _units(copy)]
        chunks = [(number, first) for number, box in enumerate(boxes) for first in range(0, box.number, CHUNK)]
        self._blocks = len(chunks)
        self.nbytes = sum(box.number * box.unit for box in boxes)
        if not chunks:
            return
        table = np.frombuffer(b"".join(map(_words, boxes)) + np.array(chunks, np.uint32).tobytes(), np.uint8)
        self._address = kind.allocate(table.size)
        weakref.finalize(self, kind.free, self._address).atexit = False
        stream = self._device.transfers
        self._device.driver.copy(self._address, table.ctypes.data, table.size, stream)
        self._device.record(stream).wait()
        self._arguments = struct.pack("2Q", self._address + len(boxes) * box_program_ptx.BOX, self._address)

    def launch(self, stream: int) -> None:
        """Put the copies on a stream of the device. Local; does not wait."""
        if self._blocks:
            one = self._device
            entry = _entries(one)[box_program_ptx.COPY]
            one.activate()
            one.driver.launch(entry, (self._blocks, 1, 1), (_THREADS, 1, 1), 0, stream, self._arguments)


def fill(one: Device, target: int, shape: tuple[int, ...], strides: tuple[int, ...], value: npt.NDArray[Any]) -> None:
    """Set elements of a device to one value, in turn with its kernels. Local; does not wait.

    Args:
        one: the device.
        target: address of the first element.
        shape: elements along each axis, none of them 0.
        strides: bytes from one to the next along each axis.
        value: of no axes and the dtype of the elements.
    """
    item = value.dtype.itemsize
    pattern = value.tobytes() * (UNITS[0] // item)
    for units in _units(BoxCopy(target, target, shape, item, strides, strides)):
        counts, _, targets = zip(*units.axes, strict=True)
        words = struct.pack(f"2Q{AXES - 1}Q{AXES}q", units.target, units.number, *counts[1:], *targets) + pattern
        blocks = min(-(-units.number // _THREADS), _BLOCKS * one.facts.processors)
        entry = _entries(one)[box_program_ptx.fill_name(units.unit)]
        one.driver.launch(entry, (blocks, 1, 1), (_THREADS, 1, 1), 0, one.compute, words)


class _Units(NamedTuple):
    """A box as the kernels take it: a number of units of so many bytes, along `AXES` axes."""

    source: int
    target: int
    number: int
    unit: int
    axes: tuple[Axis, ...]


def _units(copy: BoxCopy) -> Iterator[_Units]:
    """Cut a copy into what the kernels take, in the widest units that all addresses are multiples of."""
    if 0 in copy.shape:
        return
    box = box_of(copy.shape, copy.item, copy.source_strides, copy.target_strides)
    strides = (stride for axis in box.axes for stride in axis[1:])
    unit = math.gcd(copy.source, copy.target, box.run, *strides, UNITS[0])
    whole = Box((*box.axes, (box.run // unit, unit, unit)), unit)
    for a, b, piece in cut(whole, (MOST_UNITS - 1) * unit):
        outer, inner = piece.axes[:-AXES], piece.axes[-AXES:]
        padded = ((1, 0, 0),) * (AXES - len(inner)) + inner
        count = math.prod(axis[0] for axis in inner)
        for s, t in runs(Box(outer, 0)):
            yield _Units(copy.source + a + s, copy.target + b + t, count, unit, padded)


def _words(units: _Units) -> bytes:
    """A box in the list that the kernel reads."""
    counts, sources, targets = zip(*units.axes, strict=True)
    words = _box_words(units.target, units.source, units.number, units.unit, *counts[1:], 0, *targets, *sources)
    return words.ljust(box_program_ptx.BOX, b"\0")


@functools.cache
def _entries(one: Device) -> dict[str, int]:
    """The kernels of a device, opened when they are first needed."""
    one.activate()
    module = one.driver.load(box_program_ptx.text())
    names = (box_program_ptx.COPY, *map(box_program_ptx.fill_name, UNITS))
    return {name: one.driver.entry(module, name) for name in names}
