"""Exact sums of a thread: running sums in vectors, without rounding errors, and the digits behind them.

Imports Numba. A sum is a fixed-point number that spans all of float64's exponents, in digits of 32 bits held in 64-bit
words, so that up to 2**31 values fit before a carry; it does not depend on their order.

Adding to digits takes ten times as long as reading memory. So numbers are added to few running sums, in vectors and
without rounding errors (see `adding`), which are added to the digits after thousands of numbers. For float64 two sums
hold numbers from some limit down to 2**-83 of it, for float32 one, down to 2**-41. Up to `PIECE` numbers are kept until
it is known that no rest of them is left. If there is one, the rests are added to one more running sum, and so are those
of later numbers until the sums are renewed. If a number is beyond the limit or a rest is left again, the kept numbers
get their own running sums, and the rests then, NaN and infinities go to the digits one by one. So data from 1e-20 to 1
take few vector operations a number; data over hundreds of orders of magnitude go to the digits.

What a kernel does for each number is compiled with it. What is done once for a piece, `finish`, is compiled once for
all kernels: it takes several times as long to compile as a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import call_at, load_word
from gondwana.kernels.exact import FINISH, SPECIAL, VALUES, WORDS
from gondwana.kernels.folding import digits_of
from gondwana.simd import fill
from gondwana.simd.vectors_overloads import VectorType


@intrinsic
def put(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a 64-bit number, or a vector of them, at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], args[1].type.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.none(types.int64, value), codegen


@intrinsic
def _reinterpreted(typingctx: Any, value: Any) -> Any:
    """The float64 with the bits of an integer, or the other way round."""
    kind = types.int64 if value == types.float64 else types.float64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(kind))

    return kind(value), codegen


_SUMS, _LIMIT, _PIECES, WIDE, _PASSED = WORDS + 3, WORDS + 27, WORDS + 28, WORDS + 29, WORDS + 31
"""Words behind the digits of an accumulator: the running sums, the limit of numbers they were made for, how often
`PIECE` numbers were added to them, whether the last of the sums is in use, and what a kernel passes to `finish`."""
BLOCK = 64
"""How many numbers are evaluated before they are added."""
WIDTH = 8
_BITS, _MOST_PIECES = 41, 8
"""Bits of a running sum that one number takes, and pieces until the sums are renewed: these are 512 numbers for each
element, and the sum of all elements of a vector is exact."""
_FIRST, _NEXT = 1.25 * 2.0 ** (52 - _BITS), 2.0 ** (-_BITS - 1)
_NEXT_PIECE = _NEXT**3
_LEAST, _MOST = 2.0**-949, 2.0**1009
_ROUNDS = 3


@intrinsic
def _vector(typingctx: Any, address: Any) -> Any:
    """Read a vector."""
    kind = VectorType(types.float64, WIDTH)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], context.get_value_type(kind).as_pointer()), align=8)

    return kind(address), codegen


_WORDS = ir.VectorType(ir.IntType(64), WIDTH)


def _on_bits(combine: Callable[[Any, Any, Any], Any]) -> Any:
    """A compiled function that combines the bits of two vectors, for `combine(builder, left, right)`."""

    @intrinsic
    def combined(typingctx: Any, left: Any, right: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = combine(builder, *(builder.bitcast(arg, _WORDS) for arg in args))
            return builder.bitcast(words, args[0].type)

        return left(left, right), codegen

    return combined


_either, _changed = _on_bits(ir.IRBuilder.or_), _on_bits(ir.IRBuilder.xor)


def _some_of(bits: int) -> Any:
    """A compiled function that tells whether an element of a vector has one of these bits."""

    @intrinsic
    def some(typingctx: Any, vector: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = builder.and_(builder.bitcast(args[0], _WORDS), ir.Constant(_WORDS, [bits] * WIDTH))
            found = builder.icmp_unsigned("!=", words, ir.Constant(_WORDS, None))
            return builder.icmp_unsigned("!=", builder.bitcast(found, ir.IntType(WIDTH)), ir.IntType(WIDTH)(0))

        return types.boolean(vector), codegen

    return some


_some, _some_moved = _some_of((1 << 63) - 1), _some_of(-1 << 51)


def adding(levels: int, *, keeping: bool) -> Any:
    """A compiled function that adds the next vector of what is kept to running sums.

    Each sum begins as 1.25 times a power of two, so that its last bit has the same weight all the time, and an addition
    rounds the number to this weight; what it loses is exact, and goes to the next sum. This holds for any number as
    long as the first sum stays within 1 and 1.5 times that power: its sign, exponent and first bit do not change.
    """

    @inlined
    def add(total: Any) -> Any:
        state, done, filled, a, b, c, moved, rest = total
        value = _vector(values_at(state) + 8 * done)
        before, a = a, a + value
        moved = _either(moved, _changed(before, a))
        value = value - (a - before)
        if levels >= 2:
            before, b = b, b + value
            value = value - (b - before)
        if levels == 3:
            before, c = c, c + value
            value = value - (c - before)
        if keeping:
            put(values_at(state) + 8 * done, value)
        return state, done + WIDTH, filled, a, b, c, moved, _either(rest, value)

    return add


@inlined
def values_at(state: int) -> int:
    """Where numbers are kept: at the start of a cache line."""
    return (state + 8 * VALUES + 63) & -64


@inlined
def begin(state: int) -> Any:
    """The running sums, nothing that is kept, and what has changed and what is left of nothing."""
    nothing, sums = fill(0.0, WIDTH), state + 8 * _SUMS
    return state, 0, 0, _vector(sums), _vector(sums + 64), _vector(sums + 128), nothing, nothing


@inlined
def _store(place: int, total: Any) -> None:
    put(place, total[3])
    put(place + 64, total[4])
    put(place + 128, total[5])


@inlined
def _passed(state: int, done: int, filled: int) -> Any:
    """The running sums that a kernel has passed on."""
    place = state + 8 * _PASSED
    sums = _vector(place), _vector(place + 64), _vector(place + 128)
    return state, done, filled, *sums, _vector(place + 192), _vector(place + 256)


@inlined
def pass_on(total: Any, last: bool) -> Any:
    """Call `finish` for the numbers that are kept; return the running sums for the next piece."""
    state, done, filled, _, _, _, moved, rest = total
    place = state + 8 * _PASSED
    _store(place, total)
    put(place + 192, moved)
    put(place + 256, rest)
    call_at(load_word(state + 8 * FINISH), state, done, filled, last)
    return begin(state)


_digits_of = inlined(digits_of)


@inlined
def _add_exactly(digits: int, value: float) -> None:
    """Add a float64 to the fixed-point number at an address."""
    if value - value == 0.0:
        number, low, middle, high = _digits_of(_reinterpreted(value))
        first = digits + 8 * number
        put(first, load_word(first) + low)
        put(first + 8, load_word(first + 8) + middle)
        put(first + 16, load_word(first + 16) + high)
    else:
        special = digits + 8 * SPECIAL
        put(special, load_word(special) | (1 if value != value else (2 if value > 0 else 4)))


@inlined
def _renew(state: int, limit: float) -> None:
    """Add the running sums to the digits, and begin new ones for numbers below a limit."""
    scale, before = _FIRST, _reinterpreted(load_word(state + 8 * _LIMIT))
    for level in range(3):
        place = state + 8 * (_SUMS + WIDTH * level)
        _add_exactly(state, (_vector(place) - before * scale).sum())
        put(place, fill(limit * scale, WIDTH))
        scale *= _NEXT
    put(state + 8 * _LIMIT, limit)
    put(state + 8 * _PIECES, 0)
    put(state + 8 * WIDE, 0)


_add, _add_and_keep = adding(3, keeping=False), adding(3, keeping=True)


@inlined
def _resolve(state: int, count: int, within: bool, ordinary: bool) -> None:
    """Add what is kept if the running sums have not taken it.

    Args:
        state: address of the accumulator.
        count: numbers that are kept.
        within: whether no number was too large for the running sums.
        ordinary: whether all numbers are finite.
    """
    most = 0.0
    for i in range(count):
        size = abs(_reinterpreted(load_word(values_at(state) + 8 * i)))
        most = size if size > most else most
    limit = _reinterpreted(_reinterpreted(most) & 0x7FF << 52) * 4.0
    keeps_subnormals = _reinterpreted(count) > 0.0
    rounds = _ROUNDS if ordinary and keeps_subnormals and most < _MOST else 0
    while rounds > 0:
        rounds -= 1
        if not within:
            limit = limit if limit > _LEAST else _LEAST
            _renew(state, limit)
            limit *= _NEXT_PIECE
        total = begin(state)
        while total[1] < count:
            total = _add_and_keep(total)
        _store(state + 8 * _SUMS, total)
        if not _some(total[7]):
            put(state + 8 * WIDE, 1 if within else 0)
            return
        within = False
    for i in range(count):
        _add_exactly(state, _reinterpreted(load_word(values_at(state) + 8 * i)))


def finish(state: int, done: int, filled: int, last: int) -> int:
    """Bring the numbers that are kept to the running sums, and these to the digits after some pieces and at the end.

    All three sums take numbers here, whatever the kernel uses: so it serves all kernels.

    Args:
        state: address of an accumulator, where the running sums of a kernel are (see `pass_on`).
        done: numbers that the kernel has added to them.
        filled: numbers that are kept.
        last: whether no number follows.
    """
    total = _passed(state, done, filled)
    while total[1] < filled:
        total = _add(total)
    a, moved, rest = total[3], total[6], total[7]
    limit = _reinterpreted(load_word(state + 8 * _LIMIT))
    within = limit > 0.0 and not _some_moved(moved)
    if within and not _some(rest):
        _store(state + 8 * _SUMS, total)
    else:
        upper = a.sum()
        _resolve(state, total[1], within, upper - upper == 0.0)
    pieces = load_word(state + 8 * _PIECES) + 1
    put(state + 8 * _PIECES, pieces)
    if last != 0 or pieces == _MOST_PIECES:
        _renew(state, 0.0 if last != 0 else _reinterpreted(load_word(state + 8 * _LIMIT)))
    return 0
