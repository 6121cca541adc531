"""The two implementations of atomic operations on host memory: the processor's, on memory of this node, and MPI's.

A domain uses one of them for all of its operations, since neither is atomic with respect to the other. Operations on
device memory are performed by its owner, see `device_atomics`.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.compiler import externs
from gondwana.compiler.native import Native
from gondwana.compiler.reports import orders
from gondwana.errors import UsageError
from gondwana.futures import DONE, Future, Polled, ready
from gondwana.memory.pointer import GlobalPtr
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import READS, UPDATES, WRITES
from gondwana.teams import BAND, BOR, BXOR, MAX, MIN, PROD, SUM, Op
from gondwana.teams.windows import Epoch, Window

OPERATIONS = (
    "load", "store", "add", "sub", "mul", "min", "max", "bit_and", "bit_or", "bit_xor", "exchange", "compare_exchange",
)  # fmt: skip
"""All operations; those that combine a word with an operand exist as `fetch_...` too."""

NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}
"""What machine code calls them."""

DTYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")
"""Names of the types of words."""

Number = int | float
_Array = npt.NDArray[Any]
_Indices = npt.NDArray[np.int64]


class Path(Protocol):
    """Performs operations on words of one type."""

    def perform(self, operation: str, target: GlobalPtr, operand: Number, expected: Number, fetch: bool) -> Future[Any]:
        """Start an operation; its result is the old value if `fetch`, else None. Local."""
        ...

    def batch(self, operation: str, target: GlobalPtr, indices: _Indices, operands: _Array, fetch: bool) -> Future[Any]:
        """Start one operation on each of the words `target + indices[i]`; the result is an array of old values. Local.

        Args:
            operation: but not "compare_exchange".
            target: the word from which indices count.
            indices: of one axis, inside the segment.
            operands: as many, of the dtype of the words.
            fetch: whether the old values are the result.
        """
        ...


class Processor:
    """Atomic instructions on memory that this node shares. Operations are complete when they return.

    Args:
        dtype: of the words.
        names: the operations that there will be, those that fetch included.

    Attributes:
        operations: of each name, its number for `call_at`, whether its result is the old value, and two functions: from
            a number to the signed 64-bit integer with its bits, and back; None: it is that.
    """

    def __init__(self, dtype: np.dtype[Any], names: Iterable[str] = ()) -> None:
        self._dtype = dtype
        self.to_bits, self.from_bits = coding = _coder(dtype)
        self.operations = {name: (NUMBERS[name.removeprefix("fetch_")], fetches(name), *coding) for name in names}
        self._native = Native("gondwana.sync.atomics_native", dtype.name, 4, brief=True)
        self._native_at = Native("gondwana.sync.atomics_native", f"{dtype.name}_at", 5, makes_object=True)
        self._native_batch = Native("gondwana.sync.atomics_native", f"{dtype.name}_batch", 6)

    @functools.cached_property
    def call(self) -> Callable[[int, int, Number, Number], int]:
        """The machine code: it takes the number of an operation, an address, bits of the operand and the expected."""
        return self._native.call  # type: ignore[no-any-return]

    @functools.cached_property
    def call_at(self) -> Callable[[int, int, int, Number, Number], int]:
        """The machine code for the word at an offset, if there is one; else it raises TypeError.

        It takes the address of the words of `Elements`, the offset, the number of an operation, and the bits of the
        operand and of the expected value; and returns those of the old value.
        """
        return self._native_at.call  # type: ignore[no-any-return]

    @functools.cached_property
    def call_batch(self) -> Callable[[int, int, int, int, int, int], int]:
        """The machine code for many words, all numbers being 64-bit integers.

        It takes the number of an operation, the address from which indices count, how many there are, and the addresses
        of the indices, of the bits of the operands, and of the bits of the old values, 0 for none.
        """
        return self._native_batch.call  # type: ignore[no-any-return]

    def perform(self, operation: str, target: GlobalPtr, operand: Number, expected: Number, fetch: bool) -> Future[Any]:
        """Perform the operation; it is complete when this returns."""
        bits = (operand, expected) if self.to_bits is None else (self.to_bits(operand), self.to_bits(expected))
        old = self.call(NUMBERS[operation], _address(target), *bits)
        return ready(old if self.from_bits is None else self.from_bits(old)) if fetch else DONE

    def batch(self, operation: str, target: GlobalPtr, indices: _Indices, operands: _Array, fetch: bool) -> Future[Any]:
        """Perform the operations; they are complete when this returns."""
        bits = np.dtype(f"i{self._dtype.itemsize}")
        words = np.ascontiguousarray(operands.view(bits), np.int64)
        old = np.empty(indices.size if fetch else 0, np.int64)
        places = words.ctypes.data, old.ctypes.data if fetch else 0
        self.call_batch(NUMBERS[operation], _address(target), indices.size, indices.ctypes.data, *places)
        return ready(old.astype(bits).view(self._dtype)) if fetch else DONE


class Messages:
    """MPI's atomic operations on memory of any node, including this one.

    MPI's compare-and-swap takes integers only, and only operations on one type are atomic with respect to each other.
    So in a domain of floats with compare-and-swap all operations are those of integers, and arithmetic is a loop of
    compare-and-swap.

    Args:
        dtype: of the words.
        swaps: whether the domain has compare-and-swap.
    """

    def __init__(self, dtype: np.dtype[Any], swaps: bool) -> None:
        self._dtype = dtype
        self._word = np.dtype(f"i{dtype.itemsize}") if dtype.kind == "f" and swaps else dtype

    def perform(self, operation: str, target: GlobalPtr, operand: Number, expected: Number, fetch: bool) -> Future[Any]:
        """Start the operation; it is complete when the future is, which flushes."""
        window = target.segment.window
        if window is None:
            raise UsageError(
                f"{target!r} is in a segment of {target.team.name}, which is on one node and has no MPI window, but "
                "this domain works through MPI: make the segment over the team of the domain, or the domain with "
                'path="cpu" over a team of one node'
            )
        value = np.array([operand], self._dtype)
        if operation == "compare_exchange":
            return self._swap(window, target, value, np.array([expected], self._dtype))
        if self._word != self._dtype and operation in _ARITHMETIC:
            return self._loop(window, target, value, _ARITHMETIC[operation], fetch)
        if operation == "sub":
            value = np.negative(value)
        word, op = value.view(self._word), _MPI[operation]
        if not fetch:
            return _pending(window.accumulate(target.rank, target.offset, word, op))
        old = np.empty_like(word)
        return _pending(window.fetch_and_op(target.rank, target.offset, word, old, op), old.view(self._dtype))

    def batch(self, operation: str, target: GlobalPtr, indices: _Indices, operands: _Array, fetch: bool) -> Future[Any]:
        """Start the operations one after the other, without waiting in between; one flush completes many."""
        pairs = zip(indices.tolist(), operands.tolist(), strict=True)
        started = [self.perform(operation, target + index, operand, 0, fetch) for index, operand in pairs]

        def finish() -> None:
            for future in started:
                future.wait()

        def olds() -> _Array | None:
            found = [future.result() for future in started]
            return np.array(found, self._dtype) if fetch else None

        return Polled(lambda: all(future.done() for future in started), finish, olds)

    def _swap(self, window: Window, target: GlobalPtr, value: _Array, expected: _Array) -> Future[Any]:
        old = np.empty_like(value)
        words = [array.view(self._word) for array in (value, expected, old)]
        return _pending(window.compare_and_swap(target.rank, target.offset, *words), old)

    def _loop(self, window: Window, target: GlobalPtr, value: _Array, combine: Any, fetch: bool) -> Future[Any]:
        """Repeat compare-and-swap until no other rank interferes; complete when it returns."""
        found = np.empty_like(value)
        word = found.view(self._word)
        window.fetch_and_op(target.rank, target.offset, np.zeros_like(word), word, "NO_OP").wait()
        while True:
            new = combine(found, value).astype(self._dtype)
            seen = np.array([self._swap(window, target, new, found).result()], self._dtype)
            if seen.view(self._word) == found.view(self._word):
                return ready(found[0].item()) if fetch else DONE
            found = seen


def _address(target: GlobalPtr) -> int:
    """Where a word is in this process."""
    base = target.segment.bases[target.rank]
    if base == 0:
        if target.rank in target.segment.peers:
            target.segment.view(target.rank)  # raises: it could not be mapped
        raise UsageError(f"{target!r} is not in host memory of this node: this domain works only there")
    return base + target.offset


def fetches(name: str) -> bool:
    """Return whether the result of an operation is the old value. Local."""
    return name.startswith("fetch_") or name in ("load", "exchange", "compare_exchange")


def _pending(epoch: Epoch, old: _Array | None = None) -> Future[Any]:
    return Polled(lambda: epoch.done, epoch.wait, None if old is None else old.item)


_MPI: dict[str, Op | str] = {
    "load": "NO_OP",
    "store": "REPLACE",
    "exchange": "REPLACE",
    "add": SUM,
    "sub": SUM,
    "mul": PROD,
    "min": MIN,
    "max": MAX,
    "bit_and": BAND,
    "bit_or": BOR,
    "bit_xor": BXOR,
}

REDUCTIONS = {op: name for name, op in _MPI.items() if isinstance(op, Op) and name != "sub"}
"""The operations of reductions that are operations on words, too."""

_ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _coder(dtype: np.dtype[Any]) -> tuple[Callable[[Any], int] | None, Callable[[int], Number] | None]:
    """Return functions from numbers to the signed 64-bit integers with their bits, and back; None: they are these."""
    if dtype.kind == "f":
        number, word = struct.Struct(dtype.char), struct.Struct("i" if dtype.itemsize == 4 else "q")
        mask = 2 ** (8 * dtype.itemsize) - 1
        unsigned = struct.Struct("I" if dtype.itemsize == 4 else "Q")
        return (
            lambda value: word.unpack(number.pack(value))[0],
            lambda bits: number.unpack(unsigned.pack(bits & mask))[0],
        )
    if dtype.name == "uint64":
        return lambda value: value - 2**64 if value >= 2**63 else value, lambda bits: bits & (2**64 - 1)
    return None, None


_RESULTS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


def reported(way: Path, name: str, target: GlobalPtr, operand: Number, expected: Number, *, fetch: bool) -> Future[Any]:
    """Perform an operation on a word of host memory, and report it. Local; blocks until it is complete.

    The race detector knows from the value that an operation has found which other operation it comes behind. So each
    one is made one that returns the old value.

    Args:
        way: what performs it.
        name: name of it, without `fetch_`.
        target: the word.
        operand: the value that it is given.
        expected: the value expected there, for "compare_exchange".
        fetch: whether the old value is the result.
    """
    one = reporter
    assert one is not None
    place = target.segment.key, target.team.world_ranks[target.rank], target.offset
    if name != "load":
        one.add(Kind.INTEND, *place)
    one.flush()
    found = way.perform("exchange" if name == "store" else name, target, operand, expected, True).result()
    numbers = np.array([found, operand, expected], target.dtype)
    report_done(place, name, numbers, fetch=fetch)
    return ready(found) if fetch else DONE


def report_done(place: tuple[int, int, int], name: str, numbers: npt.NDArray[Any], *, fetch: bool) -> None:
    """Report an operation on a word of host memory that has been announced, and sends it. Local.

    Args:
        place: key of the segment, or address of its table; rank in the world; offset.
        name: name of the operation, without `fetch_`.
        numbers: what it has found, what it was given, and what it expected.
        fetch: whether what it has found is its result.
    """
    one = reporter
    assert one is not None
    old, given, expected = numbers[:1], numbers[1:2], numbers[2:]
    what = READS if name == "load" else WRITES if name == "store" else UPDATES | WRITES | (READS if fetch else 0)
    if name in _RESULTS:
        with np.errstate(all="ignore"):
            new = _RESULTS[name](old, given).astype(old.dtype)
    elif name == "load" or (name == "compare_exchange" and old != expected):
        new, what = old, what & ~WRITES
    else:
        new = given
    one.add(Kind.ATOMIC, *place, old.itemsize, _bits(new), _bits(old), what, site=one.site(f"atomic {name}"))
    one.flush()


def _report_compiled(
    table: int, rank: int, offset: int, number: int, fetch: int, found: int, operand: int, expected: int
) -> None:
    """Report an operation of compiled code, which calls this; `number` is that of the dtype and of the operation."""
    kind, operation = divmod(number, len(OPERATIONS))
    dtype = np.dtype(DTYPES[kind])
    numbers = np.array([found, operand, expected], np.int64).astype(f"i{dtype.itemsize}").view(dtype)
    try:
        report_done((table, orders.world_rank(table, rank), offset), OPERATIONS[operation], numbers, fetch=bool(fetch))
    finally:
        assert reporter is not None
        reporter.exclusive.release()


REPORT = externs.provide("atomic", ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)(_report_compiled))
"""The name by which machine code calls `_report_compiled`."""


def _bits(value: np.ndarray[Any, Any]) -> int:
    return int(value.view(f"i{value.itemsize}")[0])
