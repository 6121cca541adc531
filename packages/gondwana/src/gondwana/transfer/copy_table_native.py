"""Executing a table of copies: Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import declare, load_word, move_bytes
from gondwana.transfer.copy_table import CHUNKS, LOOPS, ROW

_WORD = 8
COUNTS, SOURCES, TARGETS = 3, 3 + LOOPS, 3 + 2 * LOOPS

_AHEAD = 32
"""Elements between a prefetch and its use: faces of 128^2 across the contiguous axis go 1.5 times as fast with it."""
_KEEP_IN_CACHE, _DATA = 3, 1


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
