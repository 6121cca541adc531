"""Folding the values of a reduction: operations, their start values, and where each thread leaves its result.

Imports Numba. The third word of the argument block points to the results, `STRIDE` bytes a thread. A plain operation
leaves one number there. "fsum" adds exactly into a fixed-point number that spans all of float64's exponents, in digits
of 32 bits held in 64-bit words, so that up to 2**31 values fit before a carry; the sum does not depend on their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.memory_order import load_word
from gondwana.kernels.exact import SPECIAL, STRIDE
from gondwana.kernels.folding import COMBINE, check_no_value, check_value, kind_of, neutral

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
    """Store a 64-bit number at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], args[1].type.as_pointer()))
        return context.get_dummy_value()

    return types.none(types.int64, value), codegen


@intrinsic
def _add_in_any_order(typingctx: Any, a: Any, b: Any) -> Any:
    """A sum that LLVM may reassociate, so that it can use vectors."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(args[0], args[1], flags=["reassoc", "nsz"])

    return types.float64(types.float64, types.float64), codegen


@intrinsic
def _bits(typingctx: Any, value: Any) -> Any:
    """The bits of a float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


_combine = {operation: inlined(function) for operation, function in COMBINE.items()}


@called
def _add_exactly(digits: int, value: float) -> int:
    """Add a float64 to the fixed-point number at an address."""
    bits = _bits(value)
    exponent = (bits >> 52) & 0x7FF
    if exponent == 0x7FF:
        special = digits + 8 * SPECIAL
        code = 1 if value != value else (2 if value > 0 else 4)
        _put(special, load_word(special) | code)
        return digits
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        mantissa |= 1 << 52
        exponent -= 1
    shift = exponent & 31
    low = (mantissa & 0xFFFFFFFF) << shift
    high = ((mantissa >> 32) << shift) + ((low >> 32) & 0xFFFFFFFF)
    low &= 0xFFFFFFFF
    first = digits + 8 * (exponent >> 5)
    if bits < 0:
        _put(first, load_word(first) - low)
        _put(first + 8, load_word(first + 8) - (high & 0xFFFFFFFF))
        _put(first + 16, load_word(first + 16) - (high >> 32))
    else:
        _put(first, load_word(first) + low)
        _put(first + 8, load_word(first + 8) + (high & 0xFFFFFFFF))
        _put(first + 16, load_word(first + 16) + (high >> 32))
    return digits


@dataclass(frozen=True)
class Folding:
    """The functions that a sweep calls (see `sweeps.sweep`), and the dtype of the number that each thread leaves."""

    step: Any
    start: Any
    store: Any
    result: str


def folding(name: str, operation: str | None, kernel: Any, value: Any) -> Folding:
    """Return the folding of the values of a kernel. Local.

    Args:
        name: of the kernel.
        operation: None for a kernel that has no value.
        kernel: compiled.
        value: type of what it returns.

    Raises:
        KernelError: the kernel returns no number, or one that the operation cannot take; or one without an operation.
    """
    if operation is None:
        check_no_value(name, value)
        return _no_folding(kernel)
    check_value(name, value)
    if operation == "fsum":
        return _exact_folding(kernel)
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
        _put(load_word(block + _RESULTS) + thread * STRIDE, total)

    return Folding(step, start, store, str(kind))


def _no_folding(kernel: Any) -> Folding:
    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        kernel(p, *args)
        return total

    return Folding(step, _no_start, _no_store, "")


def _exact_folding(kernel: Any) -> Folding:
    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        return _add_exactly(total, types.float64(kernel(p, *args)))

    @inlined
    def start(block: int, thread: int) -> Any:
        return load_word(block + _RESULTS) + thread * STRIDE

    return Folding(step, start, _no_store, "int64")
