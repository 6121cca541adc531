"""Machine code of the operations of atomic domains on words of this node, by number. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types

from gondwana.compiler import memory_order as atomics
from gondwana.compiler.cpython_native import integer_object, raise_bad_argument
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import bits_of, load_word, store_release, value_of
from gondwana.memory.pointer import WORDS
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


def _checker(perform: Any, size: int) -> Any:
    """Return the function that performs one operation on an element if there is one at an offset.

    The old value, as bits, is an integer object. Where there is no element, TypeError is raised.
    """
    one = inlined(perform)

    def perform_at(words: int, offset: int, operation: int, operand: int, expected: int) -> int:
        if offset < 0 or offset & (size - 1) != 0 or offset > load_word(words + WORDS.nbytes) - size:
            raise_bad_argument()
            return 0
        old = one(operation, load_word(words + WORDS.base) + offset, operand, expected)
        return integer_object(old)  # type: ignore[no-any-return]

    return perform_at


def _batcher(perform: Any, size: int) -> Any:
    """Return the function that performs one operation on many words; operands, indices and old values are integers."""
    one = inlined(perform)

    def batch(operation: int, base: int, count: int, indices: int, operands: int, olds: int) -> int:
        for place in range(0, 8 * count, 8):
            old = one(operation, base + size * load_word(indices + place), load_word(operands + place), 0)
            if olds != 0:
                store_release(olds + place, old)
        return 0

    return batch


int32 = _dispatcher(types.int32)
uint32 = _dispatcher(types.uint32)
int64 = _dispatcher(types.int64)
uint64 = _dispatcher(types.uint64)
float32 = _dispatcher(types.float32)
float64 = _dispatcher(types.float64)

int32_at = _checker(int32, 4)
uint32_at = _checker(uint32, 4)
int64_at = _checker(int64, 8)
uint64_at = _checker(uint64, 8)
float32_at = _checker(float32, 4)
float64_at = _checker(float64, 8)

int32_batch = _batcher(int32, 4)
uint32_batch = _batcher(uint32, 4)
int64_batch = _batcher(int64, 8)
uint64_batch = _batcher(uint64, 8)
float32_batch = _batcher(float32, 4)
float64_batch = _batcher(float64, 8)
