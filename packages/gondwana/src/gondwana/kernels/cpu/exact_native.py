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

A kernel adds its numbers in blocks, so that the processor reads memory while it adds. What is done once for a piece, or
with one sum more than most numbers need, is compiled once for all kernels (`take`): it takes several times as long to
compile as a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import call_at, load_word
from gondwana.kernels.exact import PIECE, SPECIAL, TAKE, VALUES, WORDS
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


_SUMS, _LIMIT, _PIECES, _WIDE, _TAKEN, _DONE = WORDS + 3, WORDS + 27, WORDS + 28, WORDS + 29, WORDS + 31, WORDS + 71
"""Words behind the digits of an accumulator: the running sums before the present piece, the limit of numbers they were
made for, how often `PIECE` numbers were added to them, whether the last of the sums is in use, the sums with what is
taken of the present piece, what has changed and what is left, and how many numbers are taken."""
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


def _adding(levels: int, *, keeping: bool = False) -> Any:
    """A compiled function that adds what is kept, up to a number, to running sums.

    Each sum begins as 1.25 times a power of two, so that its last bit has the same weight all the time, and an addition
    rounds the number to this weight; what it loses is exact, and goes to the next sum. This holds for any number as
    long as the first sum stays within 1 and 1.5 times that power: its sign, exponent and first bit do not change.
    """

    @inlined
    def add(state: int, first: int, count: int, total: Any) -> Any:
        a, b, c, moved, rest = total
        for done in range(first, count, WIDTH):
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
            rest = _either(rest, value)
        return a, b, c, moved, rest

    return add


@inlined
def values_at(state: int) -> int:
    """Where numbers are kept: at the start of a cache line."""
    return (state + 8 * VALUES + 63) & -64


@inlined
def _begin(state: int) -> Any:
    """The running sums before a piece, and what has changed and what is left of nothing."""
    nothing, sums = fill(0.0, WIDTH), state + 8 * _SUMS
    return _vector(sums), _vector(sums + 64), _vector(sums + 128), nothing, nothing


@inlined
def _store(place: int, total: Any) -> None:
    put(place, total[0])
    put(place + 64, total[1])
    put(place + 128, total[2])


@inlined
def _taken(state: int) -> Any:
    """The running sums with what is taken of a piece, what has changed and what is left."""
    place = state + 8 * _TAKEN
    sums = _vector(place), _vector(place + 64), _vector(place + 128)
    return *sums, _vector(place + 192), _vector(place + 256)


@inlined
def _keep_taken(state: int, done: int, total: Any) -> int:
    place = state + 8 * _TAKEN
    _store(place, total)
    put(place + 192, total[3])
    put(place + 256, total[4])
    put(state + 8 * _DONE, done)
    return done


@inlined
def _pass_on(state: int, filled: int, levels: int, last: bool) -> int:
    """Call `take`, at the address in the accumulator; return how many numbers are kept after it."""
    return call_at(load_word(state + 8 * TAKE), state, filled, levels, last)  # type: ignore[no-any-return]


@functools.cache
def adding_up(levels: int) -> tuple[Any, Any]:
    """The functions `store` and `settle` of a `Folding`.

    The first adds what is left at the end of a sweep, the second a block if there is one, and passes on a piece that is
    full.

    Args:
        levels: running sums that hold most numbers of the kernel's type; the last is used once it is needed.
    """
    add = _adding(levels - 1)

    @inlined
    def settle(total: Any) -> Any:
        state, done, filled = total
        if filled % WIDTH:  # a vector that is stored in two parts would have to wait for both when it is read
            put(values_at(state) + 8 * filled, fill(0.0, WIDTH))
            filled = (filled + WIDTH) & -WIDTH
        if filled - done >= BLOCK:
            is_wide = load_word(state + 8 * _WIDE) != 0
            if not is_wide:
                done = _keep_taken(state, done + BLOCK, add(state, done, done + BLOCK, _taken(state)))
            if is_wide or done > PIECE - 2 * BLOCK:
                done = filled = _pass_on(state, filled, levels, False)
        return state, done, filled

    @inlined
    def store(block: int, thread: int, total: Any) -> None:
        _pass_on(total[0], total[2], levels, True)

    return store, settle


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
    put(state + 8 * _WIDE, 0)


_add_1, _add_2, _add_3, _add_and_keep = _adding(1), _adding(2), _adding(3), _adding(3, keeping=True)


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
        total = _add_and_keep(state, 0, count, _begin(state))
        _store(state + 8 * _SUMS, total)
        if not _some(total[4]):
            put(state + 8 * _WIDE, 1 if within else 0)
            return
        within = False
    for i in range(count):
        _add_exactly(state, _reinterpreted(load_word(values_at(state) + 8 * i)))


def take(state: int, filled: int, levels: int, last: int) -> int:
    """Add numbers that are kept to running sums; finish the piece if there is no room for more, and at the end.

    Args:
        state: address of an accumulator.
        filled: numbers that are kept, whole vectors.
        levels: running sums that hold most numbers of the kernel's type; the last is used once it is needed.
        last: whether no number follows.

    Returns:
        Numbers that are still kept: all, or none.
    """
    done, total = load_word(state + 8 * _DONE), _taken(state)
    used = levels if load_word(state + 8 * _WIDE) != 0 else levels - 1
    if used == 1:
        total = _add_1(state, done, filled, total)
    elif used == 2:
        total = _add_2(state, done, filled, total)
    else:
        total = _add_3(state, done, filled, total)
    if last != 0 or filled > PIECE - 2 * BLOCK:
        _finish(state, filled, total, last)
        return _keep_taken(state, 0, _begin(state))  # type: ignore[no-any-return]
    return _keep_taken(state, filled, total)  # type: ignore[no-any-return]


@inlined
def _finish(state: int, filled: int, total: Any, last: int) -> None:
    """Bring a piece to the running sums, and these to the digits after some pieces and at the end."""
    upper, moved, rest = total[0], total[3], total[4]
    limit = _reinterpreted(load_word(state + 8 * _LIMIT))
    within = limit > 0.0 and not _some_moved(moved)
    if within and not _some(rest):
        _store(state + 8 * _SUMS, total)
    else:
        one = upper.sum()
        _resolve(state, filled, within, one - one == 0.0)
    pieces = load_word(state + 8 * _PIECES) + 1
    put(state + 8 * _PIECES, pieces)
    if last != 0 or pieces == _MOST_PIECES:
        _renew(state, 0.0 if last != 0 else _reinterpreted(load_word(state + 8 * _LIMIT)))
