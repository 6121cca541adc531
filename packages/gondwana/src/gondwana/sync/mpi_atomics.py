"""Atomic operations through MPI in compiled code; they are complete when they return. Imports Numba.

They work as `atomic_paths.Messages` does from Python: in a domain with compare-and-swap, floats are passed to MPI as
integers, and arithmetic on them is a loop of compare-and-swap.
"""

from __future__ import annotations

from typing import Any

from numba.core import types

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import bits_of, load_word, value_of
from gondwana.compiler.mpi.mpi_overloads import completed_call, datatype_of, mpi_constant
from gondwana.compiler.types.buffers import load_like, on_stack
from gondwana.compiler.types.handle_types import handle_word
from gondwana.memory.pointer_overloads import check_bytes, element_size

_TABLE, _RANK, _OFFSET = 0, 1, 2
_WINDOW = 8

_accumulate = completed_call("Accumulate")
_fetch_and_op = completed_call("Fetch_and_op")
_compare_and_swap = completed_call("Compare_and_swap")

_OPERATIONS = {
    "store": "REPLACE",
    "exchange": "REPLACE",
    "add": "SUM",
    "sub": "SUM",
    "mul": "PROD",
    "min": "MIN",
    "max": "MAX",
    "bit_and": "BAND",
    "bit_or": "BOR",
    "bit_xor": "BXOR",
}


@inlined
def _window_of(target: Any) -> int:
    """Return the MPI window of the segment of a pointer."""
    check_bytes(target, element_size(target))
    window = load_word(handle_word(target, _TABLE) + _WINDOW)
    if window == 0:
        raise ValueError("an atomic operation through MPI got a pointer into a segment that is on one node")
    return window  # type: ignore[no-any-return]


@inlined
def accumulate(window: int, rank: int, offset: int, value: Any, operation: int) -> None:
    """Combine a word with a value at the target."""
    datatype = datatype_of(value)
    _accumulate(on_stack(value), 1, datatype, rank, offset, 1, datatype, operation, window)


@inlined
def _update(target: Any, value: Any, operation: int) -> None:
    accumulate(_window_of(target), handle_word(target, _RANK), handle_word(target, _OFFSET), value, operation)


@inlined
def _fetch(target: Any, value: Any, operation: int) -> Any:
    """Combine a word with a value at the target; return its old value."""
    window, rank = _window_of(target), handle_word(target, _RANK)
    old = on_stack(value)
    _fetch_and_op(on_stack(value), old, datatype_of(value), rank, handle_word(target, _OFFSET), operation, window)
    return load_like(old, value)


@inlined
def _swap(target: Any, expected: Any, value: Any) -> Any:
    """Write an integer if the word equals another; return its old value."""
    window, rank = _window_of(target), handle_word(target, _RANK)
    old, where = on_stack(value), handle_word(target, _OFFSET)
    _compare_and_swap(on_stack(value), on_stack(expected), old, datatype_of(value), rank, where, window)
    return load_like(old, value)


_no_op = mpi_constant("NO_OP")


def _type_for_mpi(kind: Any, swaps: bool) -> Any:
    """Return the type as which MPI gets a word."""
    if not swaps or not isinstance(kind, types.Float):
        return kind
    return types.int32 if kind.bitwidth == 32 else types.int64


def _coders(kind: Any, swaps: bool) -> tuple[Any, Any]:
    """Return functions from a number to the word for MPI, and back."""
    word = _type_for_mpi(kind, swaps)
    if word == kind:
        return inlined(lambda value: kind(value)), inlined(lambda moved: moved)
    encode = inlined(lambda value: word(bits_of(kind(value))))
    return encode, inlined(lambda moved: value_of(types.int64(moved), kind(0)))


def reader(kind: Any, swaps: bool) -> Any:
    """Return the method `load`."""
    encode, decode = _coders(kind, swaps)
    return lambda domain, target: decode(_fetch(target, encode(0), _no_op()))


def writer(kind: Any, swaps: bool) -> Any:
    """Return the method `store`."""
    encode, _ = _coders(kind, swaps)
    replace = mpi_constant("REPLACE")
    return lambda domain, target, value: _update(target, encode(value), replace())


def compare_and_swap(kind: Any) -> Any:
    """Return the method `compare_exchange`."""
    encode, decode = _coders(kind, True)
    return lambda domain, target, expected, value: decode(_swap(target, encode(expected), encode(value)))


def updater(operation: str, kind: Any, swaps: bool, fetches: bool) -> Any:
    """Return the method of an operation that combines a word with a value."""
    combine = _COMBINE.get(operation)
    if _type_for_mpi(kind, swaps) != kind and combine is not None:
        return _loop(combine, kind, fetches)
    encode, decode = _coders(kind, swaps)
    signed = inlined((lambda value: kind(0) - kind(value)) if operation == "sub" else (lambda value: kind(value)))
    op = mpi_constant(_OPERATIONS[operation])
    if fetches:
        return lambda domain, target, value: decode(_fetch(target, encode(signed(value)), op()))
    return lambda domain, target, value: _update(target, encode(signed(value)), op())


def _loop(combine: Any, kind: Any, fetches: bool) -> Any:
    encode, decode = _coders(kind, True)

    def run(domain: Any, target: Any, value: Any) -> Any:
        found = _fetch(target, encode(0), _no_op())
        while True:
            seen = _swap(target, found, encode(combine(decode(found), kind(value))))
            if seen == found:
                return decode(found)
            found = seen

    def run_without_result(domain: Any, target: Any, value: Any) -> None:
        run_inlined(domain, target, value)

    run_inlined = inlined(run)
    return run if fetches else run_without_result


_COMBINE = {
    "add": inlined(lambda old, value: old + value),
    "sub": inlined(lambda old, value: old - value),
    "mul": inlined(lambda old, value: old * value),
    "min": inlined(lambda old, value: value if value < old else old),
    "max": inlined(lambda old, value: value if value > old else old),
}
