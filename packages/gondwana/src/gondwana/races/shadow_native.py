"""Machine code that replaces the histories of the words of a box. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.memory_order import load_word, store_release
from gondwana.compiler.types.points import INT
from gondwana.races.shadow import BLOCK

_NUMBERS, _FIRST, _WIDTH, _COUNTS, _STRIDES, _KNOWN, _TABLE, _AT, _OLD = (8 * place for place in BLOCK)
_ROW, _COLUMN, _PART = (_OLD + 8 * place for place in (1, 2, 3))
_NARROW = ir.IntType(32)


@intrinsic  # type: ignore[untyped-decorator]
def _load(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(builder.inttoptr(args[0], _NARROW.as_pointer())), INT)

    return types.int64(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _store(typingctx: Any, address: Any, number: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[1], _NARROW), builder.inttoptr(args[0], _NARROW.as_pointer()))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), codegen


def sweep(block: int) -> int:
    """Give the words of a box their new histories: return 0, or 1 at a word whose history is not in the table.

    Its entries are two words each: a history, and what takes its place. The next call goes on where this one has ended.
    """
    numbers, first, width = load_word(block + _NUMBERS), load_word(block + _FIRST), load_word(block + _WIDTH)
    n0, n1, n2 = load_word(block + _COUNTS), load_word(block + _COUNTS + 8), load_word(block + _COUNTS + 16)
    s0, s1, s2 = load_word(block + _STRIDES), load_word(block + _STRIDES + 8), load_word(block + _STRIDES + 16)
    known, table = load_word(block + _KNOWN), load_word(block + _TABLE)
    row, column, part = load_word(block + _ROW), load_word(block + _COLUMN), load_word(block + _PART)
    last, new = -1, 0
    while row < n0 * n1:
        start = first + (row // n1) * s0 + (row % n1) * s1
        while column < n2:
            place = start + column * s2
            while part < width:
                where = numbers + 4 * (place + part)
                old = _load(where)
                if old != last:
                    entry = 0
                    while entry < known and load_word(table + 16 * entry) != old:
                        entry += 1
                    if entry == known:
                        store_release(block + _AT, place + part)
                        store_release(block + _OLD, old)
                        store_release(block + _ROW, row)
                        store_release(block + _COLUMN, column)
                        store_release(block + _PART, part)
                        return 1
                    last, new = old, load_word(table + 16 * entry + 8)
                _store(where, new)
                part += 1
            part = 0
            column += 1
        column = 0
        row += 1
    return 0
