"""Launching compiled kernels on host memory: versions by argument specs, argument blocks, threads."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
import types as pytypes
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler import linker
from gondwana.compiler.cache import ObjectCode, fingerprint
from gondwana.compiler.debugging.errors import raise_from_block
from gondwana.compiler.function import obtain
from gondwana.compiler.multithreading.pool import LINE, run, threads
from gondwana.compiler.native import Native
from gondwana.compiler.types.arguments import WORD, array_specs
from gondwana.compiler.types.footprint import Footprint
from gondwana.compiler.types.records import named_dtype
from gondwana.domains import Point
from gondwana.kernels import exact
from gondwana.kernels.intermediate import intermediates
from gondwana.kernels.variant import Order, Variant
from gondwana.runtime.placement import topology

EXCEPTION, RAISED = 1, 5
_AXES = 4
HEADER_WORDS = RAISED + 1 + _AXES
"""Status, exception, address of the results, number of boxes, address of the boxes; from `RAISED` on the exception of
the first point that raised one, and the coordinates of the point."""

Launch = Callable[..., None]
"""Runs a kernel; a float that it is given replaces the last argument."""

_take = Native("gondwana.kernels.cpu.exact_native", "take", 4)
_header = struct.Struct("3q").pack
_NO_RESULTS = _header(0, 0, 0)
PLANES = 3
"""Planes of an intermediate of a pair that are kept: before, at and after the point of the second kernel."""

_BOX = 72
"""Bytes of a box in the table of a pair."""
TILING = 2 * _BOX
"""Bytes of the boxes in the table of a pair, the domain and the interior; the words of its tiling come after them."""

_CACHE = 1 << 19
"""Bytes of the second-level cache of a core if the system does not say."""
_PAGE = 4096
LEAD = 16
"""Elements of a row of scratch memory before the first one that the second kernel computes, chosen so that most of its
vectors are aligned."""
_ROWS, _SHORTEST = 12, 64
"""Rows of a tile of a pair, with those at its edges, that must fit into the cache with its columns; and the fewest
columns of a tile."""

_WORTH_WAKING = 1 << 16
"""Points from which on launches that are prepared run on all threads, since waking these takes some 40 us."""
_SMALL = 4096
"""Domains of fewer points run on one thread: waking the others costs more than they gain."""


@dataclass(frozen=True)
class Loaded:
    """A compiled variant in this process.

    Attributes:
        entry: the C function `(block, thread, threads)`.
        address: address of the entry.
        footprints: footprint on each array slot that it uses.
        result: dtype of a reduction's numbers, "" for other kernels.
        ndim: axes of the points.
    """

    entry: Any
    address: int
    footprints: dict[int, Footprint]
    result: str
    ndim: int

    def table(self, rows: bytes, count: int, points: int) -> Boxes:
        """Keep the boxes of a domain (see `variant.box_table`) for the launches that use it. Local."""
        return Boxes(rows, count, points)

    def run(self, boxes: Boxes, data: bytes, name: str, flags: int) -> None:
        """Run the kernel over boxes. Local; returns when it is done."""
        if boxes.points:
            _launch(self, boxes, data, name, count=_thread_count(boxes.points), flags=flags)

    def prepared(self, boxes: Boxes, data: bytes, name: str, flags: int, anew: Launch | None = None) -> Launch:
        """Return what runs the kernel over boxes again and again. Local.

        Args:
            boxes: boxes of the domain.
            data: bytes of the arguments.
            name: name of the kernel.
            flags: see `pool.run`.
            anew: what Python calls instead, if the kernel may have changed since.
        """
        return Prepared(self, boxes, data, name, flags, anew)

    def results(self, boxes: Boxes, data: bytes, name: str, flags: int) -> npt.NDArray[np.int64]:
        """Run a reduction over boxes and return the result of each thread, a row of words each. Local; blocks."""
        count = max(1, _thread_count(boxes.points))
        is_exact = self.result == exact.EXACT
        left = np.zeros((count, (exact.STRIDE if is_exact else LINE) // WORD), np.int64)
        if is_exact:
            left[:, exact.TAKE] = _take.address
        _launch(self, boxes, data, name, count=count, flags=flags, results=left.ctypes.data)
        return left


class Prepared:
    """A launch with its argument block in memory, to be repeated: arguments as for `Loaded.prepared`.

    Python runs it on all threads if that is worth it; machine code calls the entry with the block, on its thread.

    Attributes:
        words: address of the entry, of the block and of the last argument; and whether Python does not leave the launch
            to machine code. Empty if machine code cannot do what the flags ask for.
    """

    def __init__(self, loaded: Loaded, boxes: Boxes, data: bytes, name: str, flags: int, anew: Launch | None) -> None:
        self._loaded, self._boxes, self._name, self._flags, self._anew = loaded, boxes, name, flags, anew
        self._content = boxes.header(0) + data
        self._block = _block_type(len(self._content)).from_buffer_copy(self._content)
        at, self._last = ctypes.addressof(self._block), len(self._content) - WORD
        self._address, self._large = at, bool(flags) or boxes.points >= _WORTH_WAKING
        self.words = () if flags else (loaded.address, at, at + self._last, self._large or anew is not None)

    def __call__(self, *last: float) -> None:
        """Run the kernel. Local; returns when it is done.

        Args:
            *last: another value of its last argument, a float.
        """
        if self._anew is not None:
            return self._anew(*last)
        if last:
            struct.pack_into("d", self._block, self._last, *last)
        if self._large:
            data = bytes(self._block)[HEADER_WORDS * WORD :]
            return self._loaded.run(self._boxes, data, self._name, self._flags)
        self._loaded.entry(self._address, 0, 1)
        return self.check()

    def check(self) -> None:
        """Raise the exception that the kernel has left in the block, if any."""
        if self._block[0]:
            failed = type(self._block).from_buffer_copy(self._block)
            ctypes.memmove(self._block, self._content, len(self._content))
            _raise(failed, self._name, self._loaded.ndim)


def load(function: pytypes.FunctionType, variant: Variant) -> Loaded:
    """Return the machine code of a variant: from the cache, or compiled now. Local."""

    def compile_now() -> Any:
        from gondwana.kernels.cpu.build import build

        return build(function, variant)

    key = "kernel", fingerprint(function), repr(variant)
    return _linked(obtain(key, compile_now, "gondwana.kernels.cpu.build.build"), variant)


@dataclass(frozen=True)
class Half:
    """One kernel of a pair.

    Attributes:
        function: the kernel.
        contract: whether its multiply-adds may be fused.
        reassociate: whether its floating-point operations may be reordered.
        inside: kernel that replaces it in the interior, None without one.
    """

    function: pytypes.FunctionType
    contract: bool
    reassociate: bool
    inside: Half | None = None

    def key(self) -> tuple[str, ...]:
        """The parts of the name of its machine code in the cache."""
        own = fingerprint(self.function), repr((self.contract, self.reassociate))
        return own if self.inside is None else (*own, "inside", *self.inside.key())


def load_pair(halves: tuple[Half, Half], count: int, variant: Variant) -> LoadedPair:
    """Return the machine code of two kernels in one sweep: from the cache, or compiled now. Local.

    Args:
        halves: the kernels.
        count: number of the arguments in `variant` that belong to the first.
        variant: arguments of both.
    """

    def compile_now() -> Any:
        from gondwana.kernels.cpu.build import build_pair

        return build_pair(halves, count, variant)

    key = "pair", *halves[0].key(), *halves[1].key(), str(count), repr(variant)
    code = obtain(key, compile_now, "gondwana.kernels.cpu.build.build_pair")
    sizes = tuple(np.dtype(dtype).itemsize for dtype, _ in intermediates(variant.specs).values())
    return LoadedPair(
        **vars(_linked(code, variant)),
        sizes=sizes,
        itemsizes=tuple(named_dtype(spec.dtype).itemsize for spec in array_specs(variant.specs)),
        order=variant.order,
    )


def footprints_about(footprints: dict[int, Footprint]) -> dict[str, object]:
    """Return the footprints of a kernel by slot, as JSON values to keep beside its machine code. Local."""
    return {str(slot): footprint.about() for slot, footprint in footprints.items()}


def _linked(code: ObjectCode, variant: Variant) -> Loaded:
    found: Any = code.about["footprints"]
    footprints = {int(slot): Footprint.from_about(about) for slot, about in found.items()}
    address = linker.link(code)
    return Loaded(linker.callable_at(address, 3), address, footprints, str(code.about["result"]), variant.ndim)


@dataclass(frozen=True)
class LoadedPair(Loaded):
    """Two kernels in one sweep, in this process.

    Attributes:
        sizes: bytes of an element of each intermediate.
        itemsizes: bytes of an element of each array, by slot.
        order: order of the loops, which gives the innermost axis.
    """

    sizes: tuple[int, ...]
    itemsizes: tuple[int, ...]
    order: Order

    def table(self, rows: bytes, count: int, points: int) -> Boxes:
        """Keep the box of a domain, and that of the interior, with the tiling and the planes of each thread. Local."""
        return TiledBox(rows, points, self._tile_bytes(), sum(self.sizes))

    def _tile_bytes(self) -> int:
        """Bytes that a row and column of a tile keep in the cache: planes of the intermediates and of the arrays."""
        march = 0 if self.order == "C" else -1
        held = sum((f.hi[march] - f.lo[march] + 1) * self.itemsizes[slot] for slot, f in self.footprints.items())
        return PLANES * sum(self.sizes) + held


class Boxes:
    """The table of boxes of a domain, kept in memory for the launches that use it.

    Attributes:
        exclusive: lock held by a launch, if two of them must not run at once.
    """

    exclusive: AbstractContextManager[object] = nullcontext()

    def __init__(self, rows: bytes, count: int, points: int) -> None:
        self._memory = ctypes.create_string_buffer(rows, max(1, len(rows)))
        self._tail = struct.pack(f"2q{WORD * (1 + _AXES)}x", count, ctypes.addressof(self._memory))
        self.points = points

    def header(self, results: int) -> bytes:
        """The first words of an argument block."""
        return (_NO_RESULTS if results == 0 else _header(0, 0, results)) + self._tail


class TiledBox(Boxes):
    """A box divided into tiles, and the memory where threads keep planes of intermediates.

    Args:
        rows: the box, and that of the interior, perhaps zeros; see `variant.box_table`.
        points: number of its points.
        kept: bytes that a row and column of a tile should keep in the cache.
        size: bytes of the elements of all intermediates at a point.
    """

    def __init__(self, rows: bytes, points: int, kept: int, size: int) -> None:
        lines, columns = struct.unpack_from("2q", rows, 4 * WORD)
        most = max(1, _cache_size() // kept)
        beside = -(-columns // max(_SHORTEST, most // _ROWS - LEAD - 1))
        width = _up(LEAD + -(-columns // beside) + 1, LEAD)
        across = -(-lines // max(1, min(lines, most // width - 2)))
        plane = (-(-lines // across) + 2) * width
        each = _up(PLANES * plane * size, _PAGE)
        self.exclusive = threading.Lock()  # another thread of Python may launch the same pair
        self._scratch = np.empty(threads() * each + _PAGE, np.uint8)
        first = _up(self._scratch.ctypes.data, _PAGE)
        super().__init__(rows + struct.pack("6q", first, each, across, beside, width, plane), 1, points)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


@functools.cache
def _cache_size() -> int:
    """Bytes of a core's own cache that a tile may take."""
    return topology.caches().get("L2", _CACHE) // 2


def _launch(loaded: Loaded, boxes: Boxes, data: bytes, name: str, *, count: int, flags: int, results: int = 0) -> None:
    """Run a compiled kernel over boxes on `count` threads. Local; returns when it is done.

    Raises:
        Exception: exception of the kernel.
    """
    content = boxes.header(results) + data
    block = _block_type(len(content)).from_buffer_copy(content)
    with boxes.exclusive:
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
    """The ctypes type of an argument block of `nbytes` bytes (a multiple of a word)."""
    return ctypes.c_int64 * (nbytes // ctypes.sizeof(ctypes.c_int64))


def _thread_count(points: int) -> int:
    """The number of threads that share a launch over `points` points."""
    return 1 if points < _SMALL else threads()
