"""Copies between memory of this node and an ndarray or a number by machine code, which CPython calls as a function.

NumPy takes longer to prepare such a copy than to make one of 64 KiB. So machine code looks at the array itself
(`compiler.native`) and at the words of `memory.Elements`, and copies. What it leaves goes the general path.
"""

from __future__ import annotations

from typing import Any

from gondwana.compiler.native import Native, abi_is_known, pays_off

UNFIT = -1
"""What is returned where nothing has been copied: this needs the general path, which says what is wrong if it is."""
ALL = -(2**63)
"""In place of a number of elements: all of the array. Other negative numbers are no legal ones."""
LARGEST = 2**18
"""Bytes of the largest copy by machine code: it holds the GIL meanwhile, some microseconds."""

_MODULE = "gondwana.transfer.rows_native"


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
        if not pays_off(self._calls):
            return
        self.number = Native(_MODULE, "number", 2, makes_object=True).call
        if abi_is_known():
            self.store = Native(_MODULE, "store", 4, objects=1).call
            self.load = Native(_MODULE, "load", 4, objects=1).call


rows = Rows()
