"""Machine code of the operations of atomic domains on words of this node, by number. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types

from gondwana.compiler import atomics
from gondwana.compiler.atomics import bits_of, value_of
from gondwana.compiler.inlining import inlined
from gondwana.sync.atomic_paths import OPERATIONS

LOAD, STORE, ADD, SUB, MUL, MIN, MAX, BIT_AND, BIT_OR, BIT_XOR, EXCHANGE, COMPARE_EXCHANGE = range(len(OPERATIONS))


def _dispatcher(kind: Any) -> Any:
    """Return the function (operation, address, operand, expected) -> old value for words of one type, all as bits."""
    bitwise = _bitwise if isinstance(kind, types.Integer) else _refuse

    def perform(operation: int, address: int, operand: int, expected: int) -> int:
        value = value_of(operand, kind(0))
        old = kind(0)
        if operation == LOAD:
            old = atomics.atomic_load(address, value)
        elif operation == STORE:
            atomics.atomic_store(address, value)
        elif operation == ADD:
            old = atomics.fetch_add(address, value)
        elif operation == SUB:
            old = atomics.fetch_sub(address, value)
        elif operation == MUL:
            old = atomics.fetch_mul(address, value)
        elif operation == MIN:
            old = atomics.fetch_min(address, value)
        elif operation == MAX:
            old = atomics.fetch_max(address, value)
        elif operation == EXCHANGE:
            old = atomics.exchange(address, value)
        elif operation == COMPARE_EXCHANGE:
            old = atomics.compare_exchange(address, value_of(expected, value), value)
        else:
            old = bitwise(operation, address, value)
        return bits_of(old)  # type: ignore[no-any-return]

    return perform


@inlined
def _bitwise(operation: int, address: int, value: Any) -> Any:
    if operation == BIT_AND:
        return atomics.fetch_bit_and(address, value)
    if operation == BIT_OR:
        return atomics.fetch_bit_or(address, value)
    return atomics.fetch_bit_xor(address, value)


@inlined
def _refuse(operation: int, address: int, value: Any) -> Any:
    return value


int32 = _dispatcher(types.int32)
uint32 = _dispatcher(types.uint32)
int64 = _dispatcher(types.int64)
uint64 = _dispatcher(types.uint64)
float32 = _dispatcher(types.float32)
float64 = _dispatcher(types.float64)
