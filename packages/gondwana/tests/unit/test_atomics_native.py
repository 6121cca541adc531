"""The atomic operations of compiled code on one word, and on one word by several threads at once."""

from __future__ import annotations

import threading
from typing import Any

import numba
import numpy as np
import pytest

from gondwana.compiler import memory_order as atomics

DTYPES = ("i4", "u4", "i8", "u8", "f4", "f8")
ORACLES = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "mul": lambda old, value: old * value,
    "min": min,
    "max": max,
    "bit_and": lambda old, value: old & value,
    "bit_or": lambda old, value: old | value,
    "bit_xor": lambda old, value: old ^ value,
    "exchange": lambda old, value: value,
}


def compiled(function: Any) -> Any:
    return numba.njit(lambda address, value: function(address, value))


@pytest.mark.parametrize("name", ORACLES)
def test_read_modify_writes(name: str) -> None:
    function = compiled(getattr(atomics, name if name == "exchange" else f"fetch_{name}"))
    for code in DTYPES:
        dtype = np.dtype(code)
        if dtype.kind == "f" and name.startswith("bit_"):
            continue
        lowest = 0 if dtype.kind == "u" else -3
        word = np.zeros(3, dtype)  # neighbours must stay as they are
        for old in (lowest, 5, 3):
            for value in (2, 3, 7):
                word[1] = old
                assert function(word.ctypes.data + dtype.itemsize, dtype.type(value)) == word.dtype.type(old)
                with np.errstate(over="ignore"):
                    assert word[1] == np.asarray(ORACLES[name](dtype.type(old), dtype.type(value)), dtype)
                assert word[0] == word[2] == 0


@pytest.mark.parametrize("code", DTYPES)
def test_extremes_are_compared_with_their_sign(code: str) -> None:
    dtype = np.dtype(code)
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    low, high = (dtype.type(limit) for limit in (limits.min, limits.max))
    word = np.array([low], dtype)
    compiled(atomics.fetch_max)(word.ctypes.data, high)
    assert word[0] == high
    compiled(atomics.fetch_min)(word.ctypes.data, low)
    assert word[0] == low


@pytest.mark.parametrize("code", DTYPES)
def test_loads_stores_and_compare_exchange(code: str) -> None:
    dtype = np.dtype(code)
    word = np.zeros(3, dtype)
    where = word.ctypes.data + dtype.itemsize

    @numba.njit
    def swap(address: int, expected: Any, value: Any) -> Any:
        return atomics.compare_exchange(address, expected, value)

    compiled(atomics.atomic_store)(where, dtype.type(41))
    assert compiled(atomics.atomic_load)(where, dtype.type(0)) == 41
    assert swap(where, dtype.type(40), dtype.type(1)) == 41
    assert word.tolist() == [0, 41, 0]
    assert swap(where, dtype.type(41), dtype.type(1)) == 41
    assert word.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("code", "value"), [("i4", -2), ("u4", 2**32 - 1), ("i8", -(2**63)), ("f4", -1.5), ("f8", 0.1)]
)
def test_bits_travel_as_integers(code: str, value: float) -> None:
    @numba.njit
    def there_and_back(value: Any) -> Any:
        return atomics.value_of(atomics.bits_of(value), value)

    assert there_and_back(np.dtype(code).type(value)) == np.dtype(code).type(value)
    assert numba.njit(lambda value: atomics.bits_of(value))(np.int32(-2)) == -2


@pytest.mark.parametrize("value", [True, 1.5, np.int16(1)])
def test_other_types_are_refused(value: Any) -> None:
    function = atomics.fetch_bit_and if isinstance(value, float) else atomics.fetch_add
    with pytest.raises(numba.core.errors.TypingError):
        compiled(function)(0, value)


@pytest.mark.parametrize("code", DTYPES)
def test_threads_lose_no_update(code: str) -> None:
    dtype = np.dtype(code)
    rounds, threads = 100_000, 3
    words = np.zeros(32, dtype)
    sums, old_values = words[:1], np.zeros(threads)

    @numba.njit(nogil=True)
    def hammer(address: int, one: Any, rounds: int) -> float:
        total = 0.0
        for _ in range(rounds):
            total += float(atomics.fetch_add(address, one))
        return total

    hammer(words[-1:].ctypes.data, dtype.type(1), 1)

    def work(thread: int) -> None:
        old_values[thread] = hammer(sums.ctypes.data, dtype.type(1), rounds)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    count = rounds * threads
    assert sums[0] == count
    assert old_values.sum() == count * (count - 1) // 2
