"""Copies of boxes by the threads of a device: for short runs, and for axes in any order."""

from __future__ import annotations

import math
import struct

from gondwana.gpu import pack_ptx
from gondwana.gpu.device import Device
from gondwana.gpu.pack_ptx import AXES, MOST_UNITS, UNITS
from gondwana.transfer.boxes import Box, cut, runs
from gondwana.transfer.rows import Axis

_THREADS = 256
_BLOCKS = 16
"""Blocks a multiprocessor: enough to keep its memory busy; each goes on with what is left when it is through."""


class BoxKernels:
    """The kernels that copy boxes, on one device. Local."""

    def __init__(self, device: Device) -> None:
        self._device = device
        module = device.driver.load(pack_ptx.text())
        self._entries = {unit: device.driver.entry(module, pack_ptx.name(unit)) for unit in UNITS}

    def copy(self, target: int, source: int, box: Box, stream: int) -> None:
        """Copy a box between two addresses that the device reaches. Local; returns before it is done."""
        for a, b, piece in cut(box, (MOST_UNITS - 1) * _unit(target, source, box)):
            unit = _unit(target + b, source + a, piece)
            axes = [*piece.axes, (piece.run // unit, unit, unit)] if piece.run > unit else list(piece.axes)
            outer, inner = axes[:-AXES], axes[-AXES:]
            for s, t in runs(Box(tuple(outer), 0)):
                self._launch(unit, target + b + t, source + a + s, inner, stream)

    def _launch(self, unit: int, target: int, source: int, axes: list[Axis], stream: int) -> None:
        padded = [(1, 0, 0)] * (AXES - len(axes)) + axes
        counts, sources, targets = zip(*padded, strict=True)
        units = math.prod(counts)
        words = struct.pack(f"{3 + 3 * AXES - 1}q", target, source, units, *counts[1:], *targets, *sources)
        blocks = min(-(-units // _THREADS), _BLOCKS * self._device.facts.processors)
        self._device.driver.launch(self._entries[unit], (blocks, 1, 1), (_THREADS, 1, 1), 0, stream, words)


def _unit(target: int, source: int, box: Box) -> int:
    """The most bytes that can be moved at a time: all addresses are multiples of them."""
    multiples = math.gcd(target, source, box.run, *(stride for axis in box.axes for stride in axis[1:]))
    return math.gcd(multiples, UNITS[0])
