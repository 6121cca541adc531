"""Typed atomic operations on the word at an address: for compiled code only.

The type of the value says what the word is: a signed or unsigned integer or a float, of 32 or 64 bits, aligned to its
size. All operations are sequentially consistent, and all that read and write return what the word was. They are LLVM's
instructions where it has them; products and arithmetic of floats are loops of compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.types.points import INT

ORDER = "seq_cst"
_INSTRUCTIONS = {"add": "add", "sub": "sub", "bit_and": "and", "bit_or": "or", "bit_xor": "xor", "exchange": "xchg"}


def is_word(kind: Any) -> bool:
    """Tell whether there are atomic operations on values of this type."""
    return isinstance(kind, types.Integer | types.Float) and kind.bitwidth in (32, 64)


def _bits(kind: Any) -> Any:
    return ir.IntType(kind.bitwidth)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, _bits(kind).as_pointer())


def _to_bits(builder: Any, kind: Any, value: Any) -> Any:
    return builder.bitcast(value, _bits(kind)) if isinstance(kind, types.Float) else value


def _from_bits(builder: Any, kind: Any, bits: Any) -> Any:
    if not isinstance(kind, types.Float):
        return bits
    return builder.bitcast(bits, ir.FloatType() if kind.bitwidth == 32 else ir.DoubleType())


@intrinsic
def atomic_load(typingctx: Any, address: Any, like: Any) -> Any:
    """Read the word at an address; `like` is any value of its type."""
    if not is_word(like):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _pointer(builder, args[0], like)
        return _from_bits(builder, like, builder.load_atomic(where, ORDER, like.bitwidth // 8))

    return like(types.int64, like), codegen


@intrinsic
def atomic_store(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a word."""
    if not is_word(value):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _pointer(builder, args[0], value)
        builder.store_atomic(_to_bits(builder, value, args[1]), where, ORDER, value.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(types.int64, value), codegen


@intrinsic
def compare_exchange(typingctx: Any, address: Any, expected: Any, value: Any) -> Any:
    """Write a word if its bits are those of `expected`; return what it was. Never fails for no reason."""
    if not is_word(value) or expected != value:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _pointer(builder, args[0], value)
        pair = [_to_bits(builder, value, arg) for arg in args[1:]]
        old = builder.extract_value(builder.cmpxchg(where, *pair, ORDER, ORDER), 0)
        return _from_bits(builder, value, old)

    return value(types.int64, value, value), codegen


@intrinsic
def bits_of(typingctx: Any, value: Any) -> Any:
    """Return the bits of a word as a 64-bit integer: integers extended as their type says, floats by zeros."""
    if not is_word(value):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = _to_bits(builder, value, args[0])
        if value.bitwidth == 64:
            return bits
        return (builder.sext if getattr(value, "signed", False) else builder.zext)(bits, INT)

    return types.int64(value), codegen


@intrinsic
def value_of(typingctx: Any, bits: Any, like: Any) -> Any:
    """Return the word with the low bits of a 64-bit integer; `like` is any value of its type."""
    if not is_word(like):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        narrow = args[0] if like.bitwidth == 64 else builder.trunc(args[0], _bits(like))
        return _from_bits(builder, like, narrow)

    return like(types.int64, like), codegen


def _read_modify_write(operation: str) -> Any:
    @intrinsic
    def perform(typingctx: Any, address: Any, value: Any) -> Any:
        is_float = isinstance(value, types.Float)
        if not is_word(value) or (is_float and operation.startswith("bit_")):
            return None

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = _pointer(builder, args[0], value)
            instruction = _instruction(operation, value)
            if instruction:
                old = builder.atomic_rmw(instruction, where, _to_bits(builder, value, args[1]), ORDER)
            else:
                old = _compare_and_swap_loop(builder, where, value, partial(_apply, builder, operation, args[1]))
            return _from_bits(builder, value, old)

        return value(types.int64, value), codegen

    return perform


def _instruction(operation: str, kind: Any) -> str | None:
    """LLVM's name of an operation on words of this type, None if it has none (on floats, for all processors)."""
    if operation == "exchange" or (operation in _INSTRUCTIONS and isinstance(kind, types.Integer)):
        return _INSTRUCTIONS[operation]
    if operation in ("min", "max") and isinstance(kind, types.Integer):
        return operation if kind.signed else f"u{operation}"
    return None


def _apply(builder: Any, operation: str, value: Any, old: Any) -> Any:
    """The new value where there is no instruction. A NaN among the operands of min and max changes nothing."""
    if isinstance(old.type, ir.IntType):
        return builder.mul(old, value)
    if operation in ("min", "max"):
        is_new = builder.fcmp_ordered("<" if operation == "min" else ">", value, old)
        return builder.select(is_new, value, old)
    return {"add": builder.fadd, "sub": builder.fsub, "mul": builder.fmul}[operation](old, value)


def _compare_and_swap_loop(builder: Any, where: Any, kind: Any, combine: Callable[[Any], Any]) -> Any:
    first = builder.load_atomic(where, "monotonic", kind.bitwidth // 8)
    before = builder.basic_block
    again, done = builder.append_basic_block("again"), builder.append_basic_block("done")
    builder.branch(again)
    builder.position_at_end(again)
    old = builder.phi(_bits(kind))
    new = _to_bits(builder, kind, combine(_from_bits(builder, kind, old)))
    outcome = builder.cmpxchg(where, old, new, ORDER, "monotonic")
    old.add_incoming(first, before)
    old.add_incoming(builder.extract_value(outcome, 0), again)
    builder.cbranch(builder.extract_value(outcome, 1), done, again)
    builder.position_at_end(done)
    return old


fetch_add = _read_modify_write("add")
fetch_sub = _read_modify_write("sub")
fetch_mul = _read_modify_write("mul")
fetch_min = _read_modify_write("min")
fetch_max = _read_modify_write("max")
fetch_bit_and = _read_modify_write("bit_and")
fetch_bit_or = _read_modify_write("bit_or")
fetch_bit_xor = _read_modify_write("bit_xor")
exchange = _read_modify_write("exchange")
