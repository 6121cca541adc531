"""Executing rows of copies and the handshakes of an exchange: Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.arrays.copies import LOOPS, ROW
from gondwana.jit.memory_order import inlined, load_acquire, load_word, pause, sched_yield, store_release

_WORD = 8
COUNTS, SOURCES, TARGETS = 3, 3 + LOOPS, 3 + 2 * LOOPS

# The words of a link (one neighbour in shared memory), see `exchange`.
ENTER_OUT, ENTER_IN, READY_OUT, READY_IN, FIRST, LAST, PUSHED = range(7)
LINK = 7
# The words at the head of a plan: rounds so far, neighbours, address of the links, of the rows, number of rows of own
# copies.
ROUND, LINKS, LINKS_AT, ROWS_AT, OWN = range(5)
_SPINS_BEFORE_YIELD = 500


@intrinsic  # type: ignore[misc]
def _move_bytes(typingctx: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy a run of bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, byte, ir.IntType(64), ir.IntType(1)])
        name = "llvm.memcpy.p0i8.p0i8.i64"
        module = builder.module
        function = module.globals[name] if name in module.globals else ir.Function(module, kind, name)
        pointers = [builder.inttoptr(address, byte) for address in args[:2]]
        builder.call(function, [*pointers, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen


def _mover(bits: int) -> Any:
    @intrinsic  # type: ignore[misc]
    def move(typingctx: Any, target: Any, source: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = ir.IntType(bits).as_pointer()
            value = builder.load(builder.inttoptr(args[1], pointer), align=1)
            builder.store(value, builder.inttoptr(args[0], pointer), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), codegen

    return move


_move_8, _move_16, _move_32, _move_64, _move_128 = (_mover(bits) for bits in (8, 16, 32, 64, 128))


@inlined
def _move_line(target: int, source: int, element: int, count: int, target_stride: int, source_stride: int) -> None:
    """Copy elements along the innermost loop."""
    if element == 0:
        _move_bytes(target, source, count)
    elif element == 8:
        for i in range(count):
            _move_64(target + i * target_stride, source + i * source_stride)
    elif element == 4:
        for i in range(count):
            _move_32(target + i * target_stride, source + i * source_stride)
    elif element == 16:
        for i in range(count):
            _move_128(target + i * target_stride, source + i * source_stride)
    elif element == 2:
        for i in range(count):
            _move_16(target + i * target_stride, source + i * source_stride)
    else:
        for i in range(count):
            _move_8(target + i * target_stride, source + i * source_stride)


@inlined
def _at(row: int, word: int) -> int:
    return load_word(row + _WORD * word)  # type: ignore[no-any-return]


@inlined
def _copy_row(row: int) -> None:
    source, target, element = _at(row, 0), _at(row, 1), _at(row, 2)
    last = LOOPS - 1
    for i in range(_at(row, COUNTS)):
        for j in range(_at(row, COUNTS + 1)):
            for k in range(_at(row, COUNTS + 2)):
                s = source + i * _at(row, SOURCES) + j * _at(row, SOURCES + 1) + k * _at(row, SOURCES + 2)
                t = target + i * _at(row, TARGETS) + j * _at(row, TARGETS + 1) + k * _at(row, TARGETS + 2)
                for n in range(_at(row, COUNTS + 3)):
                    _move_line(
                        t + n * _at(row, TARGETS + 3),
                        s + n * _at(row, SOURCES + 3),
                        element,
                        _at(row, COUNTS + last),
                        _at(row, TARGETS + last),
                        _at(row, SOURCES + last),
                    )


@inlined
def _copy_rows(rows: int, first: int, last: int) -> None:
    for index in range(first, last):
        _copy_row(rows + _WORD * ROW * index)


def copy_rows(rows: int, first: int, last: int) -> int:
    """Execute rows [first, last) of a program."""
    _copy_rows(rows, first, last)
    return 0


@inlined
def _push(plan: int, current: int) -> int:
    """Write to the neighbours that are ready for this round; return how many are not yet."""
    waiting = 0
    rows = _at(plan, ROWS_AT)
    for n in range(_at(plan, LINKS)):
        link = _at(plan, LINKS_AT) + n * LINK * _WORD
        if _at(link, PUSHED) == current:
            continue
        if load_acquire(_at(link, ENTER_IN)) < current:
            waiting += 1
            continue
        _copy_rows(rows, _at(link, FIRST), _at(link, LAST))
        store_release(_at(link, READY_OUT), current)
        store_release(link + PUSHED * _WORD, current)
    return waiting


def start(plan: int) -> int:
    """Begin a round: say so to the neighbours, copy what stays here, write to those who are ready."""
    current = _at(plan, ROUND) + 1
    store_release(plan + ROUND * _WORD, current)
    for n in range(_at(plan, LINKS)):
        link = _at(plan, LINKS_AT) + n * LINK * _WORD
        store_release(_at(link, ENTER_OUT), current)
    _copy_rows(_at(plan, ROWS_AT), 0, _at(plan, OWN))
    return _push(plan, current)  # type: ignore[no-any-return]


@inlined
def _arrived(plan: int, current: int) -> bool:
    for n in range(_at(plan, LINKS)):
        link = _at(plan, LINKS_AT) + n * LINK * _WORD
        if load_acquire(_at(link, READY_IN)) < current:
            return False
    return True


def finish(plan: int, spins: int) -> int:
    """Go on with a round until all is written and all has arrived: 1, or until `spins` looks were in vain: 0."""
    current = _at(plan, ROUND)
    for look in range(spins):
        if _push(plan, current) == 0 and _arrived(plan, current):
            return 1
        if look < _SPINS_BEFORE_YIELD:
            pause()
        else:
            sched_yield()
    return 0
