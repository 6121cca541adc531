"""Where NumPy's ABI has what machine code wants to know of an array, which gets its address: the `id` of the object.

To ask the array in Python takes as long as a short message.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from gondwana.compiler.native import DATA_AT

DATA, RANK, EXTENTS, DESCRIPTOR, FLAGS = DATA_AT, DATA_AT + 8, DATA_AT + 16, DATA_AT + 40, DATA_AT + 48
"""Where in an ndarray are: the address of its elements, its number of axes, the address of their extents, of its dtype,
and its flags."""
NUMBER, BYTE_ORDER = DATA_AT + 12, DATA_AT + 10
"""Where in a dtype are its number and its byte order."""
CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
"""Flags of an array: contiguous in C's order, aligned, and writable."""
NATIVE_ORDERS = tuple(b"=|")

LARGEST = 2**31 - 1
"""The most elements of an array that machine code takes: MPI counts with 32 bits."""


@functools.cache
def abi_is_known() -> bool:
    """Return whether arrays and dtypes are in memory as this module says. Local."""
    array = np.zeros((2, 3), np.int16)
    transposed = array.T
    at, descriptor = id(array), id(array.dtype)

    def word(address: int) -> int:
        return ctypes.c_int64.from_address(address).value

    def integer(address: int) -> int:
        return ctypes.c_int32.from_address(address).value

    return (
        (word(at + DATA), integer(at + RANK), word(at + DESCRIPTOR)) == (array.ctypes.data, 2, descriptor)
        and [word(word(at + EXTENTS) + 8 * axis) for axis in range(2)] == [2, 3]
        and integer(at + FLAGS) & (CONTIGUOUS | ALIGNED | WRITABLE) == CONTIGUOUS | ALIGNED | WRITABLE
        and integer(id(transposed) + FLAGS) & CONTIGUOUS == 0
        and integer(descriptor + NUMBER) == array.dtype.num
        and ctypes.c_uint8.from_address(descriptor + BYTE_ORDER).value == NATIVE_ORDERS[0]
    )
