"""Machine code of operations on integers, where NumPy's values differ from those of Numba's code or the processor.

Operands have the type of the result; compared ones have 64 bits each, with or without a sign. Imports Numba.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.np import ufunc_db


def _instruction(name: str) -> Callable[..., Any]:
    """A function that emits an instruction that treats integers of all types alike."""
    return lambda builder, kind, *operands: getattr(builder, name)(*operands)


def _is(builder: Any, value: Any, number: int) -> Any:
    return builder.icmp_unsigned("==", value, ir.Constant(value.type, number))


def _divided(builder: Any, kind: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The quotient and the remainder of the processor, and the divisor that was used.

    Zero, and -1, by which the smallest integer cannot be divided, are replaced by 1: then the remainder is right.
    """
    bad = _is(builder, b, 0)
    if kind.signed:
        bad = builder.or_(bad, _is(builder, b, -1))
    by = builder.select(bad, ir.Constant(b.type, 1), b)
    if kind.signed:
        return builder.sdiv(a, by), builder.srem(a, by), by
    return builder.udiv(a, by), builder.urem(a, by), by


def _divmod(builder: Any, kind: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The quotient, rounded down, and the remainder; both are 0 for a division by zero."""
    zero = ir.Constant(a.type, 0)
    quotient, rest, by = _divided(builder, kind, a, b)
    if kind.signed:
        below = builder.and_(
            builder.icmp_signed("!=", rest, zero), builder.icmp_signed("<", builder.xor(rest, by), zero)
        )
        quotient = builder.add(quotient, builder.sext(below, a.type))
        rest = builder.add(rest, builder.select(below, by, zero))
        quotient = builder.select(_is(builder, b, -1), builder.sub(zero, a), quotient)
    return builder.select(_is(builder, b, 0), zero, quotient), rest


def _floordiv(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    return _divmod(builder, kind, a, b)[0]


def _mod(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    return _divmod(builder, kind, a, b)[1]


def _fmod(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    return _divided(builder, kind, a, b)[1]


def _lshift(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    inside = builder.icmp_unsigned("<", b, ir.Constant(b.type, kind.bitwidth))
    count = builder.select(inside, b, ir.Constant(b.type, 0))
    return builder.select(inside, builder.shl(a, count), ir.Constant(a.type, 0))


def _rshift(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    inside = builder.icmp_unsigned("<", b, ir.Constant(b.type, kind.bitwidth))
    last = ir.Constant(b.type, kind.bitwidth - 1)
    if kind.signed:
        return builder.ashr(a, builder.select(inside, b, last))
    count = builder.select(inside, b, ir.Constant(b.type, 0))
    return builder.select(inside, builder.lshr(a, count), ir.Constant(a.type, 0))


def _emit_extreme(builder: Any, sign: str, kinds: Any, args: Any) -> Any:
    """The least or greatest of integers of the same number of bits, each with or without a sign."""
    (kind, found), rest = (kinds[0], args[0]), zip(kinds[1:], args[1:], strict=True)
    for other, value in rest:
        found = builder.select(_compare(builder, (other, kind), sign, value, found), value, found)
        if other != kind:
            kind = types.int64 if sign == "<" else types.uint64
    return found


def _pos(builder: Any, kind: Any, a: Any) -> Any:
    return a


def _abs(builder: Any, kind: Any, a: Any) -> Any:
    if not kind.signed:
        return a
    return builder.select(builder.icmp_signed("<", a, ir.Constant(a.type, 0)), builder.neg(a), a)


def _compare(builder: Any, kinds: Any, sign: str, a: Any, b: Any) -> Any:
    left, right = kinds
    if left.signed == right.signed:
        return (builder.icmp_signed if left.signed else builder.icmp_unsigned)(sign, a, b)
    # Below zero the signed one is the smaller one, whatever the other; else both are unsigned numbers.
    signed = a if left.signed else b
    zero = ir.Constant(signed.type, 0)
    negative = builder.icmp_signed("<", signed, zero)
    below = builder.icmp_signed(sign, *((signed, zero) if left.signed else (zero, signed)))
    return builder.select(negative, below, builder.icmp_unsigned(sign, a, b))


def _power(base: Any, exponent: Any) -> Any:
    """An integer to an integer power, modulo 2**64; a negative power is 1 divided by the power, towards zero."""
    if exponent < 0:
        if base == 1:
            return base
        if base == -1:
            return base if exponent & 1 else -base
        return base - base
    result = base - base + 1
    while exponent:
        if exponent & 1:
            result *= base
        exponent >>= 1
        base *= base
    return result


def _unsigned_power(base: Any, exponent: Any) -> Any:
    """The same without signs."""
    one = np.uint64(1)
    result = one
    while exponent:
        if exponent & one:
            result *= base
        exponent >>= one
        base *= base
    return result


Emit = Callable[..., Any]
ARITHMETIC: dict[Any, Emit] = {
    np.fmod: _fmod,
    **dict.fromkeys((operator.add, operator.iadd, np.add), _instruction("add")),
    **dict.fromkeys((operator.sub, operator.isub, np.subtract), _instruction("sub")),
    **dict.fromkeys((operator.mul, operator.imul, np.multiply), _instruction("mul")),
    **dict.fromkeys((operator.and_, operator.iand, np.bitwise_and), _instruction("and_")),
    **dict.fromkeys((operator.or_, operator.ior, np.bitwise_or), _instruction("or_")),
    **dict.fromkeys((operator.xor, operator.ixor, np.bitwise_xor), _instruction("xor")),
    **dict.fromkeys((operator.floordiv, operator.ifloordiv, np.floor_divide), _floordiv),
    **dict.fromkeys((operator.mod, operator.imod, np.remainder), _mod),
    **dict.fromkeys((operator.lshift, operator.ilshift, np.left_shift), _lshift),
    **dict.fromkeys((operator.rshift, operator.irshift, np.right_shift), _rshift),
    **dict.fromkeys((operator.neg, np.negative), _instruction("neg")),
    **dict.fromkeys((operator.pos, np.positive), _pos),
    **dict.fromkeys((operator.invert, np.invert), _instruction("not_")),
    **dict.fromkeys((abs, np.absolute), _abs),
}
"""Functions that emit the code of integer operations: (builder, type, operands), all of the type of the result."""
COMPARISONS = {
    operator.lt: "<",
    np.less: "<",
    operator.le: "<=",
    np.less_equal: "<=",
    operator.gt: ">",
    np.greater: ">",
    operator.ge: ">=",
    np.greater_equal: ">=",
    operator.eq: "==",
    np.equal: "==",
    operator.ne: "!=",
    np.not_equal: "!=",
}
MINIMA = (min, np.minimum, np.fmin)
MAXIMA = (max, np.maximum, np.fmax)
POWERS = (operator.pow, operator.ipow, builtins.pow, np.power)
DIVMODS = (divmod, np.divmod)
QUOTIENTS = (operator.truediv, operator.itruediv)


def emit(context: Any, builder: Any, original: Any, sig: Any, args: Any) -> Any:
    """The machine code of an operation on integers."""
    kind = sig.args[0]
    if original in COMPARISONS:
        return _compare(builder, sig.args, COMPARISONS[original], *args)
    if original in (*MINIMA, *MAXIMA):
        return _emit_extreme(builder, "<" if original in MINIMA else ">", sig.args, args)
    if original is int:
        return context.cast(builder, args[0], kind, sig.return_type)
    if original in DIVMODS:
        return cgutils.pack_array(builder, _divmod(builder, kind, *args))
    if original in POWERS:
        return _emit_power(context, builder, sig, args)
    return ARITHMETIC[original](builder, kind, *args)


def _emit_power(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, exponent = sig.args
    wide = types.int64 if kind.signed else types.uint64
    base = context.cast(builder, args[0], kind, wide)
    if isinstance(exponent, types.IntegerLiteral) and 0 <= exponent.literal_value <= 0x10000:
        raised = _product(builder, base, exponent.literal_value)
    else:
        count = context.cast(builder, args[1], types.unliteral(exponent), wide)
        power = _power if kind.signed else _unsigned_power
        raised = context.compile_internal(builder, power, wide(wide, wide), (base, count))
    return context.cast(builder, raised, wide, kind)


def _product(builder: Any, base: Any, exponent: int) -> Any:
    """A power with a known exponent, as a product."""
    result = ir.Constant(base.type, 1)
    while exponent:
        if exponent & 1:
            result = builder.mul(result, base)
        exponent >>= 1
        base = builder.mul(base, base)
    return result


def _of_elements(original: Any) -> Emit:
    """A function that emits an operation on the elements of NumPy arrays."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if original in DIVMODS:
            return context.make_tuple(builder, sig.return_type, list(_divmod(builder, sig.args[0], *args)))
        return ARITHMETIC[original](builder, sig.args[0], *args)

    return emit


_INTEGER_CODES = set(np.typecodes["AllInteger"])
_IN_ARRAYS = (np.floor_divide, np.remainder, np.fmod, np.divmod, np.left_shift, np.right_shift)
OWN_IN_ARRAYS = frozenset(
    [*_IN_ARRAYS, *(found for found, code in ARITHMETIC.items() if code in (_floordiv, _mod, _lshift, _rshift))]
)
"""Operations that have our code for the elements of arrays, too."""

for _function in _IN_ARRAYS:
    # Numba divides the smallest integer by -1, which ends the process, and shifts by any number of bits.
    _loops = ufunc_db.get_ufunc_info(_function)
    _loops.update(
        {loop: _of_elements(_function) for loop in _loops if set(loop[:2]) <= set(np.typecodes["AllInteger"])}
    )
