"""Machine code that copies host memory: executing a table of copies, and moving elements from or to an ndarray.

Python source that is compiled once. Imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

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
from gondwana.compiler.memory_order import declare, load_word, move_bytes, store_release
from gondwana.compiler.types.buffers import load_like
from gondwana.memory.pointer import WORDS
from gondwana.transfer.host_copies import ALL, CHUNKS, LARGEST, LOOPS, ROW, UNFIT

_WORD = 8
COUNTS, SOURCES, TARGETS = 3, 3 + LOOPS, 3 + 2 * LOOPS

_AHEAD = 32
"""Elements between a prefetch and its use: faces of 128^2 across the contiguous axis go 1.5 times as fast with it."""
_KEEP_IN_CACHE, _DATA = 3, 1

_BOOL, _BYTE, _UBYTE, _SHORT, _USHORT, _INT, _UINT = (np.dtype(char).num for char in "?bBhHiI")
_LONG, _ULONG, _LONG_LONG, _ULONG_LONG = (np.dtype(char).num for char in "lLqQ")
_FLOAT, _DOUBLE, _COMPLEX_FLOAT, _COMPLEX_DOUBLE = (np.dtype(char).num for char in "fdFD")
_LIKE_BYTE, _LIKE_UBYTE, _LIKE_SHORT, _LIKE_USHORT = np.int8(0), np.uint8(0), np.int16(0), np.uint16(0)
_LIKE_INT, _LIKE_UINT, _LIKE_FLOAT = np.int32(0), np.uint32(0), np.float32(0)


def _prefetcher(write: int) -> Any:
    @intrinsic
    def prefetch(typingctx: Any, address: Any) -> Any:
        """Ask for the cache line at an address, which need not exist."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = declare(builder, "llvm.prefetch.p0i8", kind)
            options = [ir.Constant(number, option) for option in (write, _KEEP_IN_CACHE, _DATA)]
            builder.call(function, [builder.inttoptr(args[0], byte), *options])
            return context.get_dummy_value()

        return types.none(types.int64), codegen

    return prefetch


_will_read, _will_write = _prefetcher(0), _prefetcher(1)


def _mover(bits: int) -> Any:
    @intrinsic
    def move(typingctx: Any, target: Any, source: Any) -> Any:
        """Copy an element from one address to another."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = ir.IntType(bits).as_pointer()
            value = builder.load(builder.inttoptr(args[1], pointer), align=1)
            builder.store(value, builder.inttoptr(args[0], pointer), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), codegen

    return move


def _line_mover(bits: int) -> Any:
    """A compiled function that copies elements of so many bits along a strided line.

    Each element has a cache line of its own on both sides, too far apart for the processor to foresee.
    """
    move = _mover(bits)

    @inlined
    def line(target: int, source: int, count: int, target_stride: int, source_stride: int) -> None:
        for _ in range(count):
            _will_read(source + _AHEAD * source_stride)
            _will_write(target + _AHEAD * target_stride)
            move(target, source)
            target += target_stride
            source += source_stride

    return line


_move_64 = _mover(64)
_line_8, _line_16, _line_32, _line_64, _line_128 = (_line_mover(bits) for bits in (8, 16, 32, 64, 128))


@inlined
def _move_line(target: int, source: int, element: int, count: int, target_stride: int, source_stride: int) -> None:
    """Copy along the innermost loop: a run of bytes, or elements."""
    if element == 0:
        move_bytes(target, source, count)
    elif element == 8:
        _line_64(target, source, count, target_stride, source_stride)
    elif element == 4:
        _line_32(target, source, count, target_stride, source_stride)
    elif element == 16:
        _line_128(target, source, count, target_stride, source_stride)
    elif element == 2:
        _line_16(target, source, count, target_stride, source_stride)
    else:
        _line_8(target, source, count, target_stride, source_stride)


@inlined
def word_at(row: int, word: int) -> int:
    """Read a word of a row by its number."""
    return load_word(row + _WORD * word)  # type: ignore[no-any-return]


@inlined
def _alike(row: int, other: int) -> bool:
    """Whether two rows have the same element and the same counts."""
    for word in range(2, SOURCES):  # noqa: SIM110  (compiled: no generators)
        if word_at(row, word) != word_at(other, word):
            return False
    return True


@inlined
def _copy_group(group: int, size: int) -> None:
    """Execute rows that are alike side by side, line by line.

    Opposite faces across the contiguous axis touch the two ends of the same lines of memory: done together, the second
    finds in the cache what the first has loaded.
    """
    last = LOOPS - 1
    for i in range(word_at(group, COUNTS)):
        for j in range(word_at(group, COUNTS + 1)):
            for k in range(word_at(group, COUNTS + 2)):
                for n in range(word_at(group, COUNTS + 3)):
                    for index in range(size):
                        row = group + _WORD * ROW * index
                        _move_line(
                            word_at(row, 1) + _offset(row, TARGETS, i, j, k, n),
                            word_at(row, 0) + _offset(row, SOURCES, i, j, k, n),
                            word_at(row, 2),
                            word_at(row, COUNTS + last),
                            word_at(row, TARGETS + last),
                            word_at(row, SOURCES + last),
                        )


@inlined
def _copy_row(row: int) -> None:
    """Execute one row. Its words are read once: the compiler cannot know that the copies do not change them."""
    source, target, element = word_at(row, 0), word_at(row, 1), word_at(row, 2)
    last = LOOPS - 1
    count, target_stride, source_stride = (
        word_at(row, COUNTS + last),
        word_at(row, TARGETS + last),
        word_at(row, SOURCES + last),
    )
    lines, next_source, next_target = (
        word_at(row, COUNTS + last - 1),
        word_at(row, SOURCES + last - 1),
        word_at(row, TARGETS + last - 1),
    )
    for i in range(word_at(row, COUNTS)):
        for j in range(word_at(row, COUNTS + 1)):
            for k in range(word_at(row, COUNTS + 2)):
                of_line, to_line = (
                    source + _offset(row, SOURCES, i, j, k, 0),
                    target + _offset(row, TARGETS, i, j, k, 0),
                )
                for _ in range(lines):
                    _move_line(to_line, of_line, element, count, target_stride, source_stride)
                    of_line += next_source
                    to_line += next_target


@inlined
def _offset(row: int, strides: int, i: int, j: int, k: int, n: int) -> int:
    """Bytes from the first element to that of the four outer loop indices."""
    outer = i * word_at(row, strides) + j * word_at(row, strides + 1)
    return outer + k * word_at(row, strides + 2) + n * word_at(row, strides + 3)  # type: ignore[no-any-return]


@inlined
def _copy_chunks(row: int) -> None:
    """Execute a row of chunks at any places."""
    count, length = word_at(row, COUNTS), word_at(row, COUNTS + 1)
    sources, targets = word_at(row, COUNTS + 2), word_at(row, COUNTS + 3)
    if length == _WORD:
        for n in range(count):
            _move_64(word_at(row, 1) + word_at(targets, n), word_at(row, 0) + word_at(sources, n))
    else:
        for n in range(count):
            move_bytes(word_at(row, 1) + word_at(targets, n), word_at(row, 0) + word_at(sources, n), length)


@inlined
def execute_rows(rows: int, first: int, last: int) -> None:
    """Execute rows [first, last) of a table, those that are alike side by side."""
    while first < last:
        group = rows + _WORD * ROW * first
        if word_at(group, 2) == CHUNKS:
            _copy_chunks(group)
            first += 1
            continue
        size = 1
        while first + size < last and _alike(group, group + _WORD * ROW * size):
            size += 1
        if size == 1:
            _copy_row(group)
        else:
            _copy_group(group, size)
        first += size


def copy_rows(rows: int, first: int, last: int) -> int:
    """Execute rows [first, last) of a table."""
    execute_rows(rows, first, last)
    return 0


@inlined
def _count(words: int, nbytes: int) -> None:
    """Count a copy and its bytes."""
    counters = load_word(words + WORDS.counters)
    store_release(counters, load_word(counters) + 1)
    store_release(counters + 8, load_word(counters + 8) + nbytes)


@inlined
def _size(words: int, offset: int, count: int, array: int, written: bool) -> int:
    """Return the bytes to copy if the array and as many elements from an offset on fit each other, else `UNFIT`."""
    found = count_of(array, written)
    # Not `count not in (ALL, found)`, which needs Numba at run time.
    if found < 0 or (count != ALL and count != found):
        return UNFIT
    if dtype_number_of(array) != load_word(words + WORDS.number):
        return UNFIT
    size = found * load_word(words + WORDS.item)
    if size > LARGEST or offset < 0 or offset > load_word(words + WORDS.nbytes) - size:
        return UNFIT
    return size  # type: ignore[no-any-return]


def store(words: int, offset: int, count: int, array: int) -> int:
    """Copy the elements of an array to memory; return their bytes, or `UNFIT`."""
    size = _size(words, offset, count, array, False)
    if size > 0:
        move_bytes(load_word(words + WORDS.base) + offset, data_of(array), size)
    if size != UNFIT:
        _count(words, size)
    return size  # type: ignore[no-any-return]


def load(words: int, offset: int, count: int, array: int) -> int:
    """Copy elements from memory to an array; return their bytes, or `UNFIT`."""
    size = _size(words, offset, count, array, True)
    if size > 0:
        move_bytes(data_of(array), load_word(words + WORDS.base) + offset, size)
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
    item = load_word(words + WORDS.item)
    if offset < 0 or offset & (item - 1) != 0 or offset > load_word(words + WORDS.nbytes) - item:
        raise_bad_argument()
        return 0
    found = _object(load_word(words + WORDS.number), load_word(words + WORDS.base) + offset)
    if found == 0:
        raise_bad_argument()
    else:
        _count(words, item)
    return found  # type: ignore[no-any-return]
