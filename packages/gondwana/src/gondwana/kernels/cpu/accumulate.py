"""Folding the values of a reduction: operations, their start values, and the places of the threads' results.

Imports Numba. The third word of the argument block points to the results. A plain operation leaves one number a thread.
"fsum" adds exactly into a fixed-point number that spans all of float64's exponents, in digits of 32 bits held in 64-bit
words, so that up to 2**31 values fit before a carry; the sum does not depend on their order.

Adding to digits takes ten times as long as reading memory. So numbers are added to few running sums, in vectors and
without rounding errors (see `_adding`), which are added to the digits after thousands of numbers. For float64 two sums
hold numbers from some limit down to 2**-83 of it, for float32 one, down to 2**-41. Up to `PIECE` numbers are kept until
it is known that no rest of them is left. If there is one, the rests are added to one more running sum, and so are those
of later numbers until the sums are renewed. If a number is beyond the limit or a rest is left again, the kept numbers
get their own running sums, and the rests then, NaN and infinities go to the digits one by one. So data from 1e-20 to 1
take few vector operations a number; data over hundreds of orders of magnitude go to the digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.multithreading.pool import LINE
from gondwana.compiler.types.views import mark_apart
from gondwana.kernels.exact import EXACT, PIECE, SPECIAL, STRIDE, VALUES, WORDS
from gondwana.kernels.folding import COMBINE, check_no_value, check_value, digits_of, kind_of, neutral
from gondwana.simd import fill
from gondwana.simd.vectors_overloads import VectorType

_RESULTS = 16


@inlined
def _no_start(block: int, thread: int) -> int:
    """Start of a sweep that folds nothing."""
    return 0


@inlined
def _no_store(block: int, thread: int, total: int) -> None:
    """End of a sweep that folds nothing."""


@intrinsic
def _put(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a 64-bit number, or a vector of them, at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], args[1].type.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.none(types.int64, value), codegen


@intrinsic
def _add_in_any_order(typingctx: Any, a: Any, b: Any) -> Any:
    """A sum that LLVM may reassociate, so that it can use vectors."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(args[0], args[1], flags=["reassoc", "nsz"])

    return types.float64(types.float64, types.float64), codegen


@intrinsic
def _reinterpreted(typingctx: Any, value: Any) -> Any:
    """The float64 with the bits of an integer, or the other way round."""
    kind = types.int64 if value == types.float64 else types.float64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(kind))

    return kind(value), codegen


_combine = {operation: inlined(function) for operation, function in COMBINE.items()}


_digits_of = inlined(digits_of)


@called
def _add_exactly(digits: int, value: float) -> int:
    """Add a float64 to the fixed-point number at an address."""
    if value - value == 0.0:
        number, low, middle, high = _digits_of(_reinterpreted(value))
        first = digits + 8 * number
        _put(first, load_word(first) + low)
        _put(first + 8, load_word(first + 8) + middle)
        _put(first + 16, load_word(first + 16) + high)
    else:
        special = digits + 8 * SPECIAL
        _put(special, load_word(special) | (1 if value != value else (2 if value > 0 else 4)))
    return digits


_SUMS, _LIMIT, _PIECES, _WIDE = WORDS + 3, WORDS + 27, WORDS + 28, WORDS + 29
"""Words after the digits of an accumulator: the running sums, the limit of numbers they were made for, how often
`PIECE` numbers were added to them, and whether the last of the sums is in use."""
BLOCK = 64
"""Numbers that are evaluated before they are added."""
_WIDTH = 8
_BITS, _MOST_PIECES = 41, 8
"""Bits of a running sum that one number takes, and pieces until the sums are renewed: these are 512 numbers for each
element, and the sum of all elements of a vector is exact."""
_FIRST, _NEXT = 1.25 * 2.0 ** (52 - _BITS), 2.0 ** (-_BITS - 1)
_LEAST, _MOST = 2.0**-949, 2.0**1009
_ROUNDS = 3


@intrinsic
def _vector(typingctx: Any, address: Any) -> Any:
    """Read a vector."""
    kind = VectorType(types.float64, _WIDTH)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], context.get_value_type(kind).as_pointer()), align=8)

    return kind(address), codegen


_WORDS = ir.VectorType(ir.IntType(64), _WIDTH)


def _on_bits(combine: Callable[[Any, Any, Any], Any]) -> Any:
    """A compiled function that combines the bits of two vectors by `combine(builder, left, right)`."""

    @intrinsic
    def combined(typingctx: Any, left: Any, right: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = combine(builder, *(builder.bitcast(arg, _WORDS) for arg in args))
            return builder.bitcast(words, args[0].type)

        return left(left, right), codegen

    return combined


_either, _changed = _on_bits(ir.IRBuilder.or_), _on_bits(ir.IRBuilder.xor)


def _some_of(bits: int) -> Any:
    """A compiled function that returns whether an element of a vector has one of these bits."""

    @intrinsic
    def some(typingctx: Any, vector: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = builder.and_(builder.bitcast(args[0], _WORDS), ir.Constant(_WORDS, [bits] * _WIDTH))
            found = builder.icmp_unsigned("!=", words, ir.Constant(_WORDS, None))
            return builder.icmp_unsigned("!=", builder.bitcast(found, ir.IntType(_WIDTH)), ir.IntType(_WIDTH)(0))

        return types.boolean(vector), codegen

    return some


_some, _some_moved = _some_of((1 << 63) - 1), _some_of(-1 << 51)


def _placing(scopes: int, number: int) -> Any:
    """A compiled function that stores a number at an address and index outside of the arrays of a kernel."""

    @intrinsic
    def keep(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first = builder.inttoptr(args[0], args[2].type.as_pointer())
            stored = builder.store(args[2], builder.gep(first, [args[1]]))
            mark_apart(builder, stored, scopes, number)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, types.float64), codegen

    return keep


def _adding(levels: int, *, keeping: bool) -> Any:
    """A compiled function that adds the next vector of kept numbers to running sums.

    Each sum begins as 1.25 times a power of two, so that its last bit has the same weight all the time, and an addition
    rounds the number to this weight; the rest is exact, and goes to the next sum. This holds for any number as
    long as the first sum stays within 1 and 1.5 times that power: its sign, exponent and first bit do not change.
    """

    @inlined
    def add(total: Any) -> Any:
        state, done, filled, a, b, c, moved, rest = total
        value = _vector(_values(state) + 8 * done)
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
            _put(_values(state) + 8 * done, value)
        return state, done + _WIDTH, filled, a, b, c, moved, _either(rest, value)

    return add


@inlined
def _values(state: int) -> int:
    """The address of the kept numbers: at the start of a cache line."""
    return (state + 8 * VALUES + 63) & -64


@inlined
def _begin(state: int) -> Any:
    """The running sums, no kept numbers, and no changes and rests so far."""
    nothing, sums = fill(0.0, _WIDTH), state + 8 * _SUMS
    return state, 0, 0, _vector(sums), _vector(sums + 64), _vector(sums + 128), nothing, nothing


@inlined
def _store_sums(total: Any) -> None:
    state, _, _, a, b, c, _, _ = total
    sums = state + 8 * _SUMS
    _put(sums, a)
    _put(sums + 64, b)
    _put(sums + 128, c)


@called
def _renew(state: int, limit: float) -> int:
    """Add the running sums to the digits, and begin new ones for numbers below a limit."""
    scale, before = _FIRST, _reinterpreted(load_word(state + 8 * _LIMIT))
    for level in range(3):
        place = state + 8 * (_SUMS + _WIDTH * level)
        _add_exactly(state, (_vector(place) - before * scale).sum())
        _put(place, fill(limit * scale, _WIDTH))
        scale *= _NEXT
    _put(state + 8 * _LIMIT, limit)
    _put(state + 8 * _PIECES, 0)
    _put(state + 8 * _WIDE, 0)
    return 0


def _adding_slowly(levels: int) -> Any:
    """A compiled function that adds the kept numbers if the running sums have not taken them.

    `within` is true if no number was too large for them, `ordinary` if all are finite.
    """
    add = _adding(levels, keeping=True)

    @called
    def resolve(state: int, count: int, within: bool, ordinary: bool) -> int:
        most = 0.0
        for i in range(count):
            most = max(most, abs(_reinterpreted(load_word(_values(state) + 8 * i))))
        limit = _reinterpreted(_reinterpreted(most) & 0x7FF << 52) * 4.0
        keeps_subnormals = _reinterpreted(count) > 0.0
        for _ in range(_ROUNDS if ordinary and keeps_subnormals and most < _MOST else 0):
            if not within:
                limit = max(limit, _LEAST)
                _renew(state, limit)
                limit *= _NEXT**levels
            total = _begin(state)
            while total[1] < count:
                total = add(total)
            _store_sums(total)
            if not _some(total[7]):
                _put(state + 8 * _WIDE, int(within))
                return 0
            within = False
        for i in range(count):
            _add_exactly(state, _reinterpreted(load_word(_values(state) + 8 * i)))
        return 0

    return resolve


@dataclass(frozen=True)
class Folding:
    """The functions that a sweep calls (see `sweeps.sweep`), and the dtype of the number of each thread.

    A function `settle(total)`, if present, must be called after `BLOCK` steps, or fewer at the end of a row.
    """

    step: Any
    start: Any
    store: Any
    result: str
    settle: Any = None


def folding(name: str, operation: str | None, kernel: Any, value: Any, scopes: int, number: int) -> Folding:
    """Return the folding of the values of a kernel. Local.

    Args:
        name: name of the kernel.
        operation: operation that folds the values; None for a kernel without values.
        kernel: the compiled kernel.
        value: type of its result.
        scopes: number of arrays that overlap no other.
        number: number of the compilation.

    Raises:
        KernelError: the kernel returns no number, or one that the operation cannot take; or one without an operation.
    """
    if operation is None:
        check_no_value(name, value)
        return _no_folding(kernel)
    check_value(name, value)
    if operation == "fsum":
        narrow = isinstance(value, types.Float) and value.bitwidth <= 32
        return _exact_folding(kernel, 2 if narrow else 3, _placing(scopes, number))
    kind = kind_of(value)
    identity = neutral(operation, kind)
    combine = _add_in_any_order if operation == "sum" and kind == types.float64 else _combine[operation]

    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        return combine(total, kind(kernel(p, *args)))

    @inlined
    def start(block: int, thread: int) -> Any:
        return kind(identity)

    @inlined
    def store(block: int, thread: int, total: Any) -> None:
        _put(load_word(block + _RESULTS) + thread * LINE, total)

    return Folding(step, start, store, str(kind))


def _no_folding(kernel: Any) -> Folding:
    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        kernel(p, *args)
        return total

    return Folding(step, _no_start, _no_store, "")


def _exact_folding(kernel: Any, levels: int, keep: Any) -> Folding:
    add_narrow, add = _adding(levels - 1, keeping=False), _adding(levels, keeping=False)
    resolve = _adding_slowly(levels)

    @inlined
    def start(block: int, thread: int) -> Any:
        return _begin(load_word(block + _RESULTS) + thread * STRIDE)

    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        state, done, filled, a, b, c, moved, rest = total
        keep(_values(state), filled, types.float64(kernel(p, *args)))
        return state, done, filled + 1, a, b, c, moved, rest

    @inlined
    def check(total: Any) -> Any:
        while total[1] < total[2]:
            total = add(total)
        state, done, _, a, _, _, moved, rest = total
        limit = _reinterpreted(load_word(state + 8 * _LIMIT))
        within = limit > 0.0 and not _some_moved(moved)
        if within and not _some(rest):
            _store_sums(total)
        else:
            upper = a.sum()
            resolve(state, done, within, upper - upper == 0.0)
        pieces = load_word(state + 8 * _PIECES) + 1
        _put(state + 8 * _PIECES, pieces)
        if pieces == _MOST_PIECES:
            _renew(state, _reinterpreted(load_word(state + 8 * _LIMIT)))
        return _begin(state)

    @inlined
    def settle(total: Any) -> Any:
        state, done, filled, a, b, c, moved, rest = total
        if filled % _WIDTH:  # a vector stored in two parts would have to wait for both when it is read
            _put(_values(state) + 8 * filled, fill(0.0, _WIDTH))
            total = state, done, (filled + _WIDTH) & -_WIDTH, a, b, c, moved, rest
        if total[2] - done < BLOCK:
            return total
        if load_word(state + 8 * _WIDE) == 0:
            for _ in range(BLOCK // _WIDTH):
                total = add_narrow(total)
        else:
            for _ in range(BLOCK // _WIDTH):
                total = add(total)
        return check(total) if total[1] > PIECE - 2 * BLOCK else total

    @inlined
    def store(block: int, thread: int, total: Any) -> None:
        check(total)
        _renew(total[0], 0.0)

    return Folding(step, start, store, EXACT, settle)
