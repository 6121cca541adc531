"""The elements of one dtype in memory that loads and stores of this rank reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_PLAIN = "?bBhHiIlLqQfd"
"""Formats whose elements a memoryview reads and writes as Python's numbers, in half of NumPy's time."""

BASE, NBYTES, ITEM, NUMBER, COUNTERS = range(0, 40, 8)
"""Where in `words` are the address of the first element, the bytes of all, of one, NumPy's number of the dtype, and the
address of `counted`."""
_NONE = -2
"""The number where that of the dtype does not say all of it; no bytes are left in a closed segment."""

counted = np.zeros(2, np.int64)
"""The copies to and from elements that machine code has made, and their bytes."""


class Elements:
    """All whole elements of a dtype in one rank's part of a segment: what a verb needs of them. Local.

    The pointers to them share it, so that a put of one number looks nothing up.

    Args:
        array: the elements, a contiguous array of one axis.

    Attributes:
        array: the elements.
        item: bytes of an element.
        view: the elements by index; None: the segment is closed, or elements are not single numbers.
        mask: bits that are zero in the offset of an element from the start of the part.
        shift: bits by which that offset becomes the index.
        fitting: types of Python's numbers that are known to fit the dtype.
        domain: the atomic domain that has reached them last: it is made for their dtype and their rank.
        words: address of what machine code needs of them.
    """

    __slots__ = (
        "_table", "array", "domain", "fitting", "item", "mask", "shift", "view", "words",
    )  # fmt: skip

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array
        self.item: int = array.dtype.itemsize
        plain = array.dtype.isnative and array.dtype.char in _PLAIN
        self.view: Any = array.data if plain else array if array.dtype.isbuiltin == 1 else None
        self.mask, self.shift = self.item - 1, self.item.bit_length() - 1
        self.fitting: set[type] = set()
        self.domain: object = None
        number = array.dtype.num if array.dtype.isnative and array.dtype.kind in "biufc" else _NONE
        counters = counted.ctypes.data
        self._table = np.array([array.ctypes.data, array.nbytes, self.item, number, counters], np.int64)
        self.words: int = self._table.ctypes.data

    def close(self) -> None:
        """Let no verb reach them any more. Local."""
        self.view = None
        self.array = self.array[:0]
        self._table[NBYTES // 8] = _NONE
