"""Machine code that copies between an ndarray and memory of this node (see `rows`). Imports Numba."""

from __future__ import annotations

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word, move_bytes
from gondwana.compiler.ndarrays_native import count_of, data_of, dtype_number_of, is_in_c_order
from gondwana.memory.elements import BASE, ITEM, NBYTES, NUMBER
from gondwana.transfer.rows import ALL, LARGEST, UNFIT


@inlined
def _size(words: int, offset: int, count: int, array: int, written: bool) -> int:
    """Return the bytes to copy if the array and as many elements from an offset on fit each other, else `UNFIT`."""
    found = count_of(array, written)
    # Not `count not in (ALL, found)`, which needs Numba at run time.
    if found < 0 or (count != ALL and count != found) or not is_in_c_order(array):
        return UNFIT
    if dtype_number_of(array) != load_word(words + NUMBER):
        return UNFIT
    size = found * load_word(words + ITEM)
    if size > LARGEST or offset < 0 or offset > load_word(words + NBYTES) - size:
        return UNFIT
    return size  # type: ignore[no-any-return]


def store(words: int, offset: int, count: int, array: int) -> int:
    """Copy the elements of an array to memory; return their bytes, or `UNFIT`."""
    size = _size(words, offset, count, array, False)
    if size > 0:
        move_bytes(load_word(words + BASE) + offset, data_of(array), size)
    return size  # type: ignore[no-any-return]


def load(words: int, offset: int, count: int, array: int) -> int:
    """Copy elements from memory to an array; return their bytes, or `UNFIT`."""
    size = _size(words, offset, count, array, True)
    if size > 0:
        move_bytes(data_of(array), load_word(words + BASE) + offset, size)
    return size  # type: ignore[no-any-return]
