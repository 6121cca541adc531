"""Atomic domains and locks on one rank: every operation against NumPy, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.runtime import progress
from gondwana.sync.atomic_paths import DTYPES
from gondwana.sync.atomics import NAMES

UPDATES = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


def legal(dtype: str) -> list[str]:
    return [name for name in NAMES if not (dtype.startswith("float") and "bit" in name)]


def domain_and_word(dtype: str, ops: Any = None) -> tuple[gw.AtomicDomain, gw.GlobalPtr]:
    domain = gw.AtomicDomain(dtype, legal(dtype) if ops is None else ops, gw.world)
    return domain, gw.Segment(gw.world, 64).pointer(0, dtype) + 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_are_those_of_numpy(dtype: str) -> None:
    domain, word = domain_and_word(dtype)
    memory = word.local()
    for name, ufunc in UPDATES.items():
        if name not in legal(dtype):
            continue
        for old, value in ((7, 3), (3, 7), (5, 5), (0, 1)):
            with np.errstate(over="ignore"):
                expected = ufunc(np.array([old], dtype), np.array([value], dtype)).tolist()
            memory[0] = old
            assert getattr(domain, f"fetch_{name}")(word, value).result() == old
            assert memory.tolist() == expected
            memory[0] = old
            assert getattr(domain, name)(word, value).result() is None
            assert memory.tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_reading_writing_and_swapping(dtype: str) -> None:
    domain, word = domain_and_word(dtype)
    limits = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    for value in (limits.min, limits.max, 0, 1):
        number = value.item() if isinstance(value, np.generic) else value
        domain.store(word, number).wait()
        assert domain.load(word).result() == number == word.local()[0]
        assert domain.exchange(word, 3).result() == number
    assert domain.compare_exchange(word, 4, 9).result() == 3
    assert word.local()[0] == 3
    assert domain.compare_exchange(word, 3, 9).result() == 3
    assert word.local()[0] == 9
    neighbours = (word - 1).local(3)
    assert (neighbours[0], neighbours[2]) == (0, 0)


@gw.jit
def everything(d, p, big, small):
    d.store(p, big)
    a = d.fetch_add(p, small)
    b = d.fetch_sub(p, small)
    c = d.fetch_mul(p, small)
    e = d.fetch_min(p, small)
    f = d.fetch_max(p, big)
    d.add(p, small)
    d.sub(p, big)
    g = d.exchange(p, small)
    h = d.compare_exchange(p, big, small)
    d.mul(p, big)
    d.min(p, big)
    d.max(p, small)
    return (a == big) + (b == big + small) + (c == big) + (e == big * small), f, g, h, d.load(p)


@gw.jit
def bits(d, p):
    d.store(p, 12)
    a = d.fetch_bit_and(p, 10)
    b = d.fetch_bit_or(p, 1)
    c = d.fetch_bit_xor(p, 15)
    d.bit_and(p, 7)
    d.bit_or(p, 16)
    d.bit_xor(p, 1)
    return a, b, c, d.load(p)


@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled_methods(dtype: str) -> None:
    domain, word = domain_and_word(dtype)
    number = np.dtype(dtype).type
    assert everything(domain, word, number(9), number(2)) == (4, 2, 2, 2, 9)
    assert (word - 1).local(3).tolist() == [0, 9, 0]
    if not dtype.startswith("float"):
        assert bits(domain, word) == (12, 8, 9, 22 ^ 1)


def test_integers_wrap_around() -> None:
    domain, word = domain_and_word("uint32")
    domain.sub(word, 1).wait()
    assert domain.fetch_add(word, 2).result() == 2**32 - 1
    assert domain.load(word).result() == 1


def test_several_domains_take_turns_on_one_word() -> None:
    adding, word = domain_and_word("int64", ["fetch_add"])
    reading = gw.AtomicDomain("int64", ["load"], gw.world)
    single = gw.AtomicDomain("int32", ["load"], gw.world)
    for number in range(5):
        assert adding.fetch_add(word, 1).result() == number
        assert reading.load(word).result() == number + 1
        assert single.load(word.cast("int32")).result() == number + 1
        with pytest.raises(UsageError, match="was not made for load"):
            adding.load(word)
        with pytest.raises(UsageError, match="points to int64"):
            single.load(word)


def test_the_declared_operations_only() -> None:
    domain, word = domain_and_word("int64", ["fetch_add"])
    with pytest.raises(UsageError, match="was not made for add"):
        domain.add(word, 1)
    with pytest.raises(KernelError, match="was not made for"):
        everything(domain, word, 1, 2)


class Cell(NamedTuple):
    x: float
    n: np.int32


class Named(NamedTuple):
    name: str


def test_a_field_of_a_record_is_a_word() -> None:
    cell = gw.Segment(gw.world, 32).pointer(dtype=Cell) + 1
    domain = gw.AtomicDomain("i4", "add", gw.world)
    with pytest.raises(UsageError, match=r"points to record\(x: float64, n: int32\), but"):
        domain.add(cell, 1)
    domain.add((cell.cast("f8") + 1).cast("i4"), 3).wait()
    assert cell.local()[0].tolist() == (0.0, 3)


@pytest.mark.parametrize(("dtype", "ops", "path", "what"), [
    ("int16", ["add"], None, "AtomicDomain of int16: legal are int32"),
    ("complex128", ["add"], None, "AtomicDomain of complex128"),
    (Cell, ["add"], None, r"AtomicDomain of record\(x: float64, n: int32\): legal are int32, .*; for a field"),
    (np.dtype([("x", "f8")]), ["add"], None, r"AtomicDomain of record\(x: float64\): legal are int32"),
    (Named, ["add"], None, "dtype=Named: its field 'name' is annotated with <class 'str'>; legal are"),
    (object, ["add"], None, "AtomicDomain of object: legal are int32"),
    (">i8", ["add"], None, "AtomicDomain of >i8"),
    ("float64", ["bit_or"], None, "bit_or"),
    ("int64", ["increment"], None, "increment"),
    ("int64", [], None, "empty"),
    ("int64", ["add"], "gpu", "path 'gpu'"),
])  # fmt: skip
def test_domains_that_cannot_be(dtype: Any, ops: list[str], path: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        gw.AtomicDomain(dtype, ops, gw.world, path=path)


def test_pointers_that_do_not_fit() -> None:
    domain, word = domain_and_word("int64")
    domain.add(word, 1)  # from now on without a look at the segment
    for pointer, what in (
        (word.cast("int32"), "points to int32"),
        (word.cast("u1").__add__(1).cast("int64"), "no aligned word"),
        (word + 100, "no aligned word"),
        (word - 100, "no aligned word"),
    ):
        with pytest.raises(UsageError, match=what):
            domain.load(pointer)
    with pytest.raises(UsageError, match="does not fit"):
        domain.add(word, 2**63)
    with pytest.raises(TypeError):
        domain.add(word, None)
    word.segment.close()
    with pytest.raises(UsageError, match="closed"):
        domain.add(word, 1)


def test_numbers_of_other_types_are_converted() -> None:
    domain, word = domain_and_word("float64")
    for value in (1, np.float32(0.5), True, np.int8(2), 1.5):
        domain.add(word, value)
    assert domain.load(word).result() == 6.0
    assert domain.compare_exchange(word, 6, np.float64(2.25)).result() == 6.0
    assert domain.load(word).result() == 2.25


@pytest.mark.parametrize(("dtype", "value"), [("int32", 2**31), ("uint64", -1), ("uint32", 2**32), ("float32", 1e39)])
def test_numbers_that_do_not_fit(dtype: str, value: float) -> None:
    domain, word = domain_and_word(dtype)
    domain.store(word, 1)
    for call in (domain.store, lambda word, value: domain.compare_exchange(word, value, 1)):
        with pytest.raises(UsageError, match="does not fit"):
            call(word, value)


def test_whole_numbers_are_asked_for() -> None:
    domain, word = domain_and_word("int64")
    with pytest.raises(TypeError):
        domain.add(word, 1.5)
    with pytest.raises(KernelError, match="takes numbers of that type"):
        everything(domain, word, 1.5, 2.5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(3)
    domain = gw.AtomicDomain(dtype, [name for name in legal(dtype) if name != "compare_exchange"], gw.world)
    table = gw.Segment(gw.world, 800).pointer(0, dtype)
    memory = table.local(90)
    for name, ufunc in UPDATES.items():
        if name not in legal(dtype):
            continue
        start = rng.integers(1, 100, 90).astype(dtype)
        indices = rng.integers(0, 40, (20, 3)) * 2 + 5
        values = rng.integers(1, 3, indices.shape).astype(dtype)
        expected = start.copy()
        ufunc.at(expected, indices + 2, values)
        memory[:] = start
        assert domain.batch(name, table + 2, indices, values).result() is None
        assert np.array_equal(memory, expected)
        memory[:] = start
        once = rng.permutation(90)
        old = domain.batch(f"fetch_{name}", table, once, 2).result()
        assert old.dtype == dtype
        assert np.array_equal(old, start[once])
        assert np.array_equal(memory, ufunc(start, np.array(2, dtype)))
    # A word that occurs several times: every addition finds another value.
    memory[:] = 0
    assert sorted(domain.batch("fetch_add", table, [7] * 50, 1).result().tolist()) == list(range(50))
    limits = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    domain.batch("store", table, np.arange(3), np.array([limits.min, 0, limits.max], dtype)).wait()
    assert domain.batch("load", table, [[2, 0]]).result().tolist() == [[limits.max, limits.min]]
    assert domain.batch("exchange", table, [1], 5).result().tolist() == [0]
    assert domain.batch("load", table, []).result().tolist() == []
    assert domain.batch("add", table, [], []).result() is None


def test_batches_are_checked_as_a_whole() -> None:
    domain, word = domain_and_word("int32", ["add", "compare_exchange"])
    domain.add(word, 4)
    for given, what in (
        (("sub", word, [0]), "was not made for sub"),
        (("compare_exchange", word, [0]), "for each word"),
        (("add", word, [0, 15]), "no aligned word"),
        (("add", word, [0, -2]), "no aligned word"),
        (("add", word, [0, 2**40]), "no aligned word"),
        (("add", word, [0.0]), "the indices of a batch are float64"),
        (("add", word, [0, 1], [1, 2**31]), "does not fit"),
        (("add", word, [0], [1.5]), "values of float64 for words of int32"),
        (("add", word.cast("int64"), [0]), "points to int64"),
    ):
        with pytest.raises(UsageError, match=what):
            domain.batch(*given)
    with pytest.raises(ValueError, match="broadcast"):
        domain.batch("add", word, [0, 1], [1, 2, 3])
    assert (word - 1).local(3).tolist() == [0, 4, 0]


def test_forcing_mpi_needs_a_window() -> None:
    domain = gw.AtomicDomain("int64", ["load"], gw.world, path="mpi")
    assert domain.path == "mpi"
    with pytest.raises(UsageError, match="has no MPI window"):
        domain.load(gw.Segment(gw.world, 8).pointer(0, "int64"))


def test_a_lock_on_one_rank() -> None:
    lock = gw.Lock(gw.world)
    assert not lock.held
    with lock:
        assert lock.held
        with pytest.raises(UsageError, match=r"holds Lock .* already"):
            lock.acquire()
        with pytest.raises(UsageError, match=r"holds Lock .* already"):
            lock.try_acquire()
    with pytest.raises(UsageError, match="does not hold it"):
        lock.release()
    assert lock.try_acquire()
    lock.release()
    with progress.callback(), lock:  # nobody has it: nothing to wait for
        pass
