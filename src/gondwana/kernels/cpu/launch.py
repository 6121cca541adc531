"""Launching compiled kernels on host memory: versions by argument specs, argument blocks, threads."""

from __future__ import annotations

import ctypes
import functools
import struct
import types as pytypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler import linker
from gondwana.compiler.errors import raise_from_block
from gondwana.compiler.fingerprint import fingerprint
from gondwana.compiler.function import obtain
from gondwana.compiler.multithreading.pool import run, threads
from gondwana.compiler.types.arguments import WORD
from gondwana.compiler.types.footprint import Footprint
from gondwana.domains import Point
from gondwana.kernels import exact
from gondwana.kernels.variant import Variant

EXCEPTION, RAISED = 1, 5
_AXES = 4
HEADER_WORDS = RAISED + 1 + _AXES
"""Status, exception, address of the results, number of boxes, address of the boxes; from `RAISED` on the exception of
the first point that raised one, and the coordinates of the point."""

_header = struct.Struct("3q").pack
_NO_RESULTS = _header(0, 0, 0)
_SMALL = 4096
"""Domains of fewer points run on one thread: waking the others costs more than they help."""


@dataclass(frozen=True)
class Loaded:
    """A compiled variant in this process.

    Attributes:
        entry: the C function `(block, thread, threads)`.
        address: of the entry.
        footprints: on each array slot that it uses.
        result: dtype of the numbers that a reduction leaves, "" if there are none.
        ndim: axes of the points.
    """

    entry: Any
    address: int
    footprints: dict[int, Footprint]
    result: str
    ndim: int

    def table(self, rows: bytes, count: int, points: int) -> Boxes:
        """Keep the boxes of a domain (see `boxes.table`) for the launches that use it. Local."""
        return Boxes(rows, count, points)

    def run(self, boxes: Boxes, data: bytes, name: str, flags: int) -> None:
        """Run the kernel over boxes. Local; returns when it is done."""
        if boxes.points:
            _launch(self, boxes, data, name, count=_thread_count(boxes.points), flags=flags)

    def results(self, boxes: Boxes, data: bytes, name: str, flags: int) -> npt.NDArray[np.int64]:
        """Run a reduction over boxes and return what each thread left, a row of words each. Local; blocks."""
        count = max(1, _thread_count(boxes.points))
        left = np.zeros((count, exact.STRIDE // WORD), np.int64)
        _launch(self, boxes, data, name, count=count, flags=flags, results=left.ctypes.data)
        return left


def load(function: pytypes.FunctionType, variant: Variant) -> Loaded:
    """Return the machine code of a variant: from the cache, or compiled now. Local."""

    def compile_now() -> Any:
        from gondwana.kernels.cpu.build import build

        return build(function, variant)

    code = obtain(("kernel", fingerprint(function), repr(variant)), compile_now)
    found: Any = code.about["footprints"]
    footprints = {
        int(slot): Footprint(tuple(f["lo"]), tuple(f["hi"]), f["written"], f["bounded"]) for slot, f in found.items()
    }
    address = linker.link(code)
    return Loaded(linker.callable_at(address, 3), address, footprints, str(code.about["result"]), variant.ndim)


class Boxes:
    """The table of boxes of a domain, kept in memory for the launches that use it."""

    def __init__(self, rows: bytes, count: int, points: int) -> None:
        self._memory = ctypes.create_string_buffer(rows, max(1, len(rows)))
        self._tail = struct.pack(f"2q{WORD * (1 + _AXES)}x", count, ctypes.addressof(self._memory))
        self.points = points

    def header(self, results: int) -> bytes:
        """The first words of an argument block."""
        return (_NO_RESULTS if results == 0 else _header(0, 0, results)) + self._tail


def _launch(loaded: Loaded, boxes: Boxes, data: bytes, name: str, *, count: int, flags: int, results: int = 0) -> None:
    """Run a compiled kernel over boxes on `count` threads. Local; returns when it is done.

    Raises:
        Exception: what the kernel raised.
    """
    content = boxes.header(results) + data
    block = _block_type(len(content)).from_buffer_copy(content)
    if count == 1 and flags == 0:
        loaded.entry(ctypes.addressof(block), 0, 1)
    else:
        run(loaded.address, ctypes.addressof(block), count, flags)
    if block[0]:
        _raise(block, name, loaded.ndim)


def _raise(block: Any, name: str, ndim: int) -> None:
    """Raise the exception of the first point that raised one."""
    if block[RAISED]:
        block[EXCEPTION] = block[RAISED]
        name = f"{name} at {Point(*block[RAISED + 1 : RAISED + 1 + ndim])}"
    raise_from_block(block, name)


@functools.cache
def _block_type(nbytes: int) -> Any:
    """The ctypes type of an argument block of so many bytes (a multiple of a word)."""
    return ctypes.c_int64 * (nbytes // ctypes.sizeof(ctypes.c_int64))


def _thread_count(points: int) -> int:
    """How many threads share a launch over so many points."""
    return 1 if points < _SMALL else threads()
