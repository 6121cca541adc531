"""Folding the values of a reduction: operations, their start values, and the places of the threads' results.

Imports Numba. The third word of the argument block points to the results. A plain operation leaves one number a thread.
"fsum" leaves an exact sum: see `exact_native`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.multithreading.pool import LINE
from gondwana.compiler.types.views import mark_apart
from gondwana.kernels.cpu.exact_native import adding_up, put, values_at
from gondwana.kernels.exact import EXACT, STRIDE
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
def _add_in_any_order(typingctx: Any, a: Any, b: Any) -> Any:
    """A sum that LLVM may reassociate, so that it can use vectors."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(args[0], args[1], flags=["reassoc", "nsz"])

    return types.float64(types.float64, types.float64), codegen


_combine = {operation: inlined(function) for operation, function in COMBINE.items()}


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
        return _exact_folding(kernel, narrow=narrow, keep=_placing(scopes, number))
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
        put(load_word(block + _RESULTS) + thread * LINE, total)

    return Folding(step, start, store, str(kind))


def _no_folding(kernel: Any) -> Folding:
    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        kernel(p, *args)
        return total

    return Folding(step, _no_start, _no_store, "")


@inlined
def _exact_start(block: int, thread: int) -> Any:
    """The accumulator of a thread, and how many numbers are added to running sums and how many are kept."""
    # A literal has a type of its own, for which all that takes it would be compiled as well.
    return load_word(block + _RESULTS) + thread * STRIDE, types.int64(0), types.int64(0)


def _exact_folding(kernel: Any, *, narrow: bool, keep: Any) -> Folding:
    @inlined
    def step(total: Any, p: Any, args: Any) -> Any:
        state, done, filled = total
        keep(values_at(state), filled, types.float64(kernel(p, *args)))
        return state, done, filled + 1

    store, settle = adding_up(2 if narrow else 3)
    return Folding(step, _exact_start, store, EXACT, settle)
