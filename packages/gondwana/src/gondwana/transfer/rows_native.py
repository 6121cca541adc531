"""Machine code that copies between an ndarray and memory of this node (see `rows`). Imports Numba."""

from __future__ import annotations

import numpy as np

from gondwana.compiler.cpython_native import (
    bool_object,
    complex_object,
    count_of,
    data_of,
    dtype_number_of,
    float_object,
    integer_object,
    raise_bad_argument,
    unsigned_object,
)
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word, move_bytes, store_release
from gondwana.compiler.types.buffers import load_like
from gondwana.memory.pointer import BASE, COUNTERS, ITEM, NBYTES, NUMBER
from gondwana.transfer.rows import ALL, LARGEST, UNFIT

_BOOL, _BYTE, _UBYTE, _SHORT, _USHORT, _INT, _UINT = (np.dtype(char).num for char in "?bBhHiI")
_LONG, _ULONG, _LONG_LONG, _ULONG_LONG = (np.dtype(char).num for char in "lLqQ")
_FLOAT, _DOUBLE, _COMPLEX_FLOAT, _COMPLEX_DOUBLE = (np.dtype(char).num for char in "fdFD")
_LIKE_BYTE, _LIKE_UBYTE, _LIKE_SHORT, _LIKE_USHORT = np.int8(0), np.uint8(0), np.int16(0), np.uint16(0)
_LIKE_INT, _LIKE_UINT, _LIKE_FLOAT = np.int32(0), np.uint32(0), np.float32(0)


@inlined
def _count(words: int, nbytes: int) -> None:
    """Count a copy and its bytes."""
    counters = load_word(words + COUNTERS)
    store_release(counters, load_word(counters) + 1)
    store_release(counters + 8, load_word(counters + 8) + nbytes)


@inlined
def _size(words: int, offset: int, count: int, array: int, written: bool) -> int:
    """Return the bytes to copy if the array and as many elements from an offset on fit each other, else `UNFIT`."""
    found = count_of(array, written)
    # Not `count not in (ALL, found)`, which needs Numba at run time.
    if found < 0 or (count != ALL and count != found):
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
    if size != UNFIT:
        _count(words, size)
    return size  # type: ignore[no-any-return]


def load(words: int, offset: int, count: int, array: int) -> int:
    """Copy elements from memory to an array; return their bytes, or `UNFIT`."""
    size = _size(words, offset, count, array, True)
    if size > 0:
        move_bytes(data_of(array), load_word(words + BASE) + offset, size)
    if size != UNFIT:
        _count(words, size)
    return size  # type: ignore[no-any-return]


@inlined
def _rare_object(number: int, place: int) -> int:
    if number == _ULONG or number == _ULONG_LONG:  # noqa: SIM109
        return unsigned_object(load_word(place))  # type: ignore[no-any-return]
    if number == _BOOL:
        return bool_object(load_like(place, _LIKE_UBYTE))  # type: ignore[no-any-return]
    if number == _UBYTE:
        return integer_object(load_like(place, _LIKE_UBYTE))  # type: ignore[no-any-return]
    if number == _BYTE:
        return integer_object(load_like(place, _LIKE_BYTE))  # type: ignore[no-any-return]
    if number == _SHORT:
        return integer_object(load_like(place, _LIKE_SHORT))  # type: ignore[no-any-return]
    if number == _USHORT:
        return integer_object(load_like(place, _LIKE_USHORT))  # type: ignore[no-any-return]
    if number == _UINT:
        return integer_object(load_like(place, _LIKE_UINT))  # type: ignore[no-any-return]
    if number == _COMPLEX_FLOAT:
        return complex_object(load_like(place, _LIKE_FLOAT), load_like(place + 4, _LIKE_FLOAT))  # type: ignore[no-any-return]
    return 0


@inlined
def _object(number: int, place: int) -> int:
    """Return a new object of the element of a dtype at an address; 0 without an exception for other dtypes."""
    if number == _DOUBLE:
        return float_object(load_like(place, 0.0))  # type: ignore[no-any-return]
    if number == _LONG or number == _LONG_LONG:  # noqa: SIM109 - `in` would need Numba at run time
        return integer_object(load_word(place))  # type: ignore[no-any-return]
    if number == _FLOAT:
        return float_object(load_like(place, _LIKE_FLOAT))  # type: ignore[no-any-return]
    if number == _INT:
        return integer_object(load_like(place, _LIKE_INT))  # type: ignore[no-any-return]
    if number == _COMPLEX_DOUBLE:
        return complex_object(load_like(place, 0.0), load_like(place + 8, 0.0))  # type: ignore[no-any-return]
    return _rare_object(number, place)  # type: ignore[no-any-return]


def number(words: int, offset: int) -> int:
    """Return the element at an offset as an object of Python; where that is not possible, TypeError is raised."""
    item = load_word(words + ITEM)
    if offset < 0 or offset & (item - 1) != 0 or offset > load_word(words + NBYTES) - item:
        raise_bad_argument()
        return 0
    found = _object(load_word(words + NUMBER), load_word(words + BASE) + offset)
    if found == 0:
        raise_bad_argument()
    else:
        _count(words, item)
    return found  # type: ignore[no-any-return]
