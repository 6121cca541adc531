"""Copies of host memory by machine code: many as a table of integers, and elements in a row from or to an ndarray.

Compiled code executes a table (see `host_copies_native`). NumPy takes longer to prepare a copy between memory of this
node and an ndarray or a number than to make one of 64 KiB. So machine code, which CPython calls as a function, looks at
the array itself (`compiler.native`) and at the words of `memory.Elements`, and copies. What it leaves goes the
general path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native, abi_is_known, pays_off
from gondwana.transfer.box_copy import BoxCopy, ChunkCopy, Copy

LOOPS = 5
"""Strided loops of a row besides its contiguous run: enough for arrays of six axes with a contiguous one."""

ROW = 3 + 3 * LOOPS
"""Integers of a row: source, target, element (0: runs of `counts[-1]` bytes), then counts and strides in bytes."""

CHUNKS = -1
"""In place of an element: chunks at any places. Then follow how many, bytes of each, and the addresses of their offsets
in the source and in the target."""

CopyTable: TypeAlias = npt.NDArray[np.int64]
"""The copies that are executed together, a row of integers each."""

Addresses: TypeAlias = npt.NDArray[np.int64]

_ELEMENTS = (1, 2, 4, 8, 16)
"""Bytes of the elements that compiled code moves one by one; others are runs."""

_NUMPY_BEST = 1 << 14
"""Bytes below which NumPy copies a strided array in less time than it takes to describe it."""

_MODULE = "gondwana.transfer.host_copies_native"
_copy_rows = Native(_MODULE, "copy_rows", 3)
_number = Native(_MODULE, "number", 2, makes_object=True)
_store = Native(_MODULE, "store", 4, objects=1)
_load = Native(_MODULE, "load", 4, objects=1)

UNFIT = -1
"""What is returned where nothing has been copied: this needs the general path, which says what is wrong if it is."""
ALL = -(2**63)
"""In place of a number of elements: all of the array. Other negative numbers are no legal ones."""
LARGEST = 2**21
"""Bytes of the largest copy by machine code: it holds the GIL meanwhile, a fraction of the interpreter's own turns."""


def copy_table(copies: Iterable[Copy]) -> CopyTable:
    """Return copies between addresses as a table; the offsets of `ChunkCopy` must outlive it. Local."""
    rows = [row for copy in copies for row in _rows(copy)]
    rows.sort(key=lambda row: row[2 : 3 + LOOPS])  # those that are alike are executed side by side
    return np.array(rows, np.int64).reshape(len(rows), ROW)


def table_of_runs(sources: Addresses, targets: Addresses, nbytes: Addresses) -> CopyTable:
    """Return copies of runs of bytes from addresses to addresses as a table. Local."""
    table = np.zeros((len(nbytes), ROW), np.int64)
    table[:, 0], table[:, 1] = sources, targets
    table[:, 3 : 2 + LOOPS] = 1
    table[:, 2 + LOOPS] = nbytes
    return table


def execute(table: CopyTable) -> None:
    """Make the copies of a table. Local; the memory that it names must be alive."""
    _copy_rows.call(table.ctypes.data, 0, len(table))


def copy_memory(source: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
    """Copy all elements between arrays of one shape and dtype, strided or not. Local."""
    contiguous = source.flags.c_contiguous and target.flags.c_contiguous
    if contiguous or source.nbytes < _NUMPY_BEST or source.ndim >= LOOPS:
        target[...] = source
    else:
        execute(copy_table([copy_of_memory(source, target)]))


def as_bytes(memory: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of contiguous memory, without a copy. Local."""
    return memory.reshape(-1).view(np.uint8)


def copy_of_memory(source: npt.NDArray[Any], target: npt.NDArray[Any]) -> BoxCopy:
    """Describe the copy of all elements of an array to another of equal shape and dtype. Local."""
    return BoxCopy.of(
        source.shape,
        source.dtype.itemsize,
        source.strides,
        target.strides,
        source=source.ctypes.data,
        target=target.ctypes.data,
    )


def _rows(copy: Copy) -> Iterator[list[int]]:
    if isinstance(copy, ChunkCopy):
        tables = (offsets.ctypes.data for offsets in (copy.source_offsets, copy.target_offsets))
        row = [copy.source, copy.target, CHUNKS, len(copy.source_offsets), copy.run, *tables]
        yield row + [0] * (ROW - len(row))
        return
    element = copy.run if copy.axes and copy.run in _ELEMENTS else 0
    for piece in copy.inner(LOOPS if element else LOOPS - 1):
        axes = piece.axes if element else (*piece.axes, (piece.run, 0, 0))
        counts, sources, targets = zip(*((1, 0, 0),) * (LOOPS - len(axes)) + axes, strict=True)
        if math.prod(counts):
            yield [piece.source, piece.target, element, *counts, *sources, *targets]


class Rows:
    """The two directions, and single numbers. Local.

    `store` and `load` take the address of the words of some elements, an offset from the first one in bytes, a number
    of elements or `ALL`, and an array; they return the bytes that they have copied, or `UNFIT`. `number` takes the
    words and the offset; it returns the element there, or None, or raises TypeError.
    """

    def __init__(self) -> None:
        self._calls = 0
        self.store: Any = self._not_yet
        self.load: Any = self._not_yet
        self.number: Any = self._no_number_yet

    def _not_yet(self, words: int, offset: int, count: int, array: Any) -> int:
        """Leave a copy to NumPy, and later ones to machine code if it pays to load it."""
        self._load_soon()
        return UNFIT

    def _no_number_yet(self, words: int, offset: int) -> None:
        self._load_soon()

    def _load_soon(self) -> None:
        self._calls += 1
        if not pays_off(self._calls, _number, _store, _load):
            return
        self.number = _number.call
        if abi_is_known():
            self.store, self.load = _store.call, _load.call


rows = Rows()
