"""What machine code that Python calls sees of an ndarray by its address. Imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.ndarrays import (
    ALIGNED,
    BYTE_ORDER,
    CONTIGUOUS,
    DATA,
    DESCRIPTOR,
    EXTENTS,
    FLAGS,
    LARGEST,
    NATIVE_ORDERS,
    NUMBER,
    RANK,
    WRITABLE,
)
from gondwana.compiler.types.buffers import load_like

_INT, _BYTE = np.int32(0), np.uint8(0)


@inlined
def data_of(array: int) -> int:
    """Return the address of the elements."""
    return load_word(array + DATA)  # type: ignore[no-any-return]


@inlined
def count_of(array: int, written: Any) -> int:
    """Return the number of elements, -1 if they are not contiguous, too many, or to be written and read-only.

    Contiguous in C's order: see `teams.buffers`.
    """
    flags, needed = load_like(array + FLAGS, _INT), WRITABLE | ALIGNED
    if flags & CONTIGUOUS == 0 or (written and flags & needed != needed):
        return -1
    count, extents = 1, load_word(array + EXTENTS)
    for axis in range(load_like(array + RANK, _INT)):
        count *= load_word(extents + 8 * axis)
    return count if count <= LARGEST else -1


@inlined
def dtype_number_of(array: int) -> int:
    """Return NumPy's number of the dtype, -1 if it is not in the machine's byte order."""
    descriptor = load_word(array + DESCRIPTOR)
    order = load_like(descriptor + BYTE_ORDER, _BYTE)
    if order != NATIVE_ORDERS[0] and order != NATIVE_ORDERS[1]:
        return -1
    return load_like(descriptor + NUMBER, _INT)  # type: ignore[no-any-return]
