"""Atomic domains: operations on words of any rank that are atomic with respect to each other."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gondwana.compiler.types.arguments import Described, describe_handle
from gondwana.compiler.types.records import element_dtype, is_record, spelled
from gondwana.errors import UsageError
from gondwana.futures import DONE, Completed, Future, ready
from gondwana.memory.pointer import GlobalPtr
from gondwana.runtime.races import reporter
from gondwana.sync.atomic_paths import (
    DTYPES,
    OPERATIONS,
    REDUCTIONS,
    Messages,
    Number,
    Path,
    Processor,
    fetches,
    reported,
)
from gondwana.sync.device_atomics import Owners
from gondwana.teams import Team
from gondwana.teams.ops import Operation, named

_WITHOUT_FETCH = ("load", "store", "exchange", "compare_exchange")
NAMES = (*OPERATIONS, *(f"fetch_{name}" for name in OPERATIONS if name not in _WITHOUT_FETCH))
"""The names of all operations."""


class AtomicDomain:
    """A set of atomic operations on words of one type, for the ranks of a team.

    Collective over team to create (blocking). The operations are local: between nodes MPI may need progress of the
    owner of a word, else it takes no part. Since the set is known beforehand, the domain chooses one implementation
    that is correct for all of it: the processor's instructions if the ranks share a node, else MPI's operations, for
    words of the own node too.

    *Device memory.* Operations on words of a GPU are kernels, launched by this rank where its GPU reaches the word by
    atomic instructions; else, as between nodes, by the rank that owns the word: inside its user-level progress, as
    remote calls are. They come after the kernels that the launching rank has launched before, and those of one rank in
    their order. Atomic operations of other kernels are access by something else, see below. On a fake device the owner
    performs them on the host. Compiled code refuses words of devices.

    *Exclusive access.* While a domain is used on a word, nothing else may access the word: no other domain, no put,
    get, copy or plain load and store, not even by its owner. Between the two, complete all operations and synchronise,
    for instance by a barrier. Operations that are not in `ops` are refused.

    *Completion and order.* Each operation returns a future, which is ready immediately on a node. Between nodes
    operations are under way until their future is waited for, and a second one may overtake the first until then. Those
    on words of a device are under way until this rank makes progress, and where the owner performs them, their futures
    cannot be waited for inside callbacks.
    Completed operations are sequentially consistent, and order the loads and stores around them: of two ranks that each
    `store` a flag of their own and then `load` the other's, at least one sees the other's flag (Dekker), which plain
    stores and loads do not guarantee. In compiled code operations are complete when they return. Integers wrap around;
    the order in which floats are added is not fixed; NaN as an operand of `min` and `max` gives no particular result,
    and `compare_exchange` of floats compares their bits.

    Args:
        dtype: type of a word: int32, uint32, int64, uint64, float32 or float64.
        ops: names of the methods that will be called: `load`, `store`, `exchange`, `compare_exchange`; `add`, `sub`,
            `mul`, `min`, `max`, and for integers `bit_and`, `bit_or`, `bit_xor`; `fetch_add` and so on, which return
            the old value. Also `gw.MAX`, "max" or mpi4py's `MPI.MAX` as in reductions: `gw.SUM` is `add`, `gw.PROD`
            `mul`, `gw.BAND` `bit_and`.
        team: the ranks that call them, all with equal arguments.
        path: "cpu" or "mpi" to force an implementation for host memory, None for the best one.

    Raises:
        UsageError: there is no such dtype, operation or path, the ranks disagree, or "cpu" is forced between nodes.

    Attributes:
        dtype: type of a word.
        ops: the operations.
        team: the ranks.
        path: "cpu" or "mpi", for host memory.
        reported: whether the race detector hears of its operations, if there is one.

    Example:
        >>> import gondwana as gw
        >>> tickets = gw.AtomicDomain("i8", ["fetch_add", "load"], gw.world)
        >>> counter = gw.Segment(gw.world, 8).pointer(rank=0, dtype="i8")
        >>> mine = tickets.fetch_add(counter, 1).result()       # every rank gets another number
        >>> gw.world.barrier()
        >>> tickets.load(counter).result() == gw.world.size
        True
    """

    reported = True

    def __init__(
        self,
        dtype: npt.DTypeLike,
        ops: Operation | Iterable[Operation],
        team: Team,
        *,
        path: Literal["cpu", "mpi"] | None = None,
    ) -> None:
        try:
            self.dtype = element_dtype(dtype)
        except (UsageError, TypeError) as error:
            team.agree(error)
        self.ops = frozenset(map(_method, ops if isinstance(ops, Iterable) and not isinstance(ops, str) else [ops]))
        self.team = team
        one_node = team.node.size == team.size
        self.path = path or ("cpu" if one_node else "mpi")
        team.agree(self._problem(one_node))
        team.expect_same("atomic domains", dtype=self.dtype.name, ops=sorted(self.ops), path=self.path)
        self._direct = Processor(self.dtype, self.ops) if self.path == "cpu" else None
        self._operations = {} if self._direct is None else self._direct.operations
        self._on_host: Path = self._direct or Messages(self.dtype, "compare_exchange" in self.ops)
        self._on_devices: Path = Owners(self.dtype)
        self._plain = (int, float) if self.dtype.kind == "f" else (int,)
        self._lowest, self._highest = _limits(self.dtype)
        self._unlimited = self.dtype == np.int64  # machine code takes these, and refuses others

    # -- reading and writing -------------------------------------------------------------------------------------

    def load(self, target: GlobalPtr) -> Future[Any]:
        """Read a word. Local; non-blocking."""
        return self._start("load", target, 0)

    def store(self, target: GlobalPtr, value: Number) -> Future[None]:
        """Write a word. Local; non-blocking."""
        return self._start("store", target, value)

    def exchange(self, target: GlobalPtr, value: Number) -> Future[Any]:
        """Write a word; the result is its old value. Local; non-blocking."""
        return self._start("exchange", target, value)

    def compare_exchange(self, target: GlobalPtr, expected: Number, value: Number) -> Future[Any]:
        """Write a word if it equals `expected`; the result is its old value, `expected` on success. Local."""
        return self._start("compare_exchange", target, value, expected)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def add(self, target: GlobalPtr, value: Number) -> Future[None]:
        """Add to a word. Local; non-blocking."""
        return self._start("add", target, value)

    def sub(self, target: GlobalPtr, value: Number) -> Future[None]:
        """Subtract from a word. Local; non-blocking."""
        return self._start("sub", target, value)

    def mul(self, target: GlobalPtr, value: Number) -> Future[None]:
        """Multiply a word. Local; non-blocking."""
        return self._start("mul", target, value)

    def min(self, target: GlobalPtr, value: Number) -> Future[None]:
        """Set a word to the minimum of itself and `value`. Local; non-blocking."""
        return self._start("min", target, value)

    def max(self, target: GlobalPtr, value: Number) -> Future[None]:
        """Set a word to the maximum of itself and `value`. Local; non-blocking."""
        return self._start("max", target, value)

    def bit_and(self, target: GlobalPtr, value: int) -> Future[None]:
        """Clear the bits of a word that are 0 in `value`. Local; non-blocking."""
        return self._start("bit_and", target, value)

    def bit_or(self, target: GlobalPtr, value: int) -> Future[None]:
        """Set the bits of `value` in a word. Local; non-blocking."""
        return self._start("bit_or", target, value)

    def bit_xor(self, target: GlobalPtr, value: int) -> Future[None]:
        """Flip the bits of `value` in a word. Local; non-blocking."""
        return self._start("bit_xor", target, value)

    # -- the same, with the old value as result ------------------------------------------------------------------

    def fetch_add(self, target: GlobalPtr, value: Number) -> Future[Any]:
        """Add to a word; the result is its old value. Local; non-blocking."""
        return self._start("fetch_add", target, value)

    def fetch_sub(self, target: GlobalPtr, value: Number) -> Future[Any]:
        """Subtract from a word; the result is its old value. Local; non-blocking."""
        return self._start("fetch_sub", target, value)

    def fetch_mul(self, target: GlobalPtr, value: Number) -> Future[Any]:
        """Multiply a word; the result is its old value. Local; non-blocking."""
        return self._start("fetch_mul", target, value)

    def fetch_min(self, target: GlobalPtr, value: Number) -> Future[Any]:
        """Set a word to the minimum of itself and `value`; the result is its old value. Local; non-blocking."""
        return self._start("fetch_min", target, value)

    def fetch_max(self, target: GlobalPtr, value: Number) -> Future[Any]:
        """Set a word to the maximum of itself and `value`; the result is its old value. Local; non-blocking."""
        return self._start("fetch_max", target, value)

    def fetch_bit_and(self, target: GlobalPtr, value: int) -> Future[Any]:
        """Clear the bits of a word that are 0 in `value`; the result is its old value. Local; non-blocking."""
        return self._start("fetch_bit_and", target, value)

    def fetch_bit_or(self, target: GlobalPtr, value: int) -> Future[Any]:
        """Set the bits of `value` in a word; the result is its old value. Local; non-blocking."""
        return self._start("fetch_bit_or", target, value)

    def fetch_bit_xor(self, target: GlobalPtr, value: int) -> Future[Any]:
        """Flip the bits of `value` in a word; the result is its old value. Local; non-blocking."""
        return self._start("fetch_bit_xor", target, value)

    # -- many words at once --------------------------------------------------------------------------------------

    def batch(
        self, operation: str, target: GlobalPtr, indices: npt.ArrayLike, values: npt.ArrayLike = 0
    ) -> Future[npt.NDArray[Any] | None]:
        """Do one operation on each of many words of one rank, as `numpy.ufunc.at` does. Local; non-blocking.

        Each word is updated atomically, the batch as a whole is not, and its order is not fixed. On a node this costs
        some ten nanoseconds a word, where a call for each word costs some 400.

        Args:
            operation: the name of a method, such as "add" or "fetch_max", but not "compare_exchange".
            target: the word from which `indices` count.
            indices: which words: an array of integers, in which a word may occur several times.
            values: what each is combined with, or one number for all; of no use to "load".

        Returns:
            The future of the old values, an array of the shape of `indices`, if the operation returns such; else of
            None.

        Raises:
            UsageError: the domain was not made for the operation, an index leaves the segment, or a value does not fit
                the dtype. No word has been changed.

        Example:
            >>> import gondwana as gw
            >>> table = gw.Segment(gw.world, 32).pointer(dtype="i8")
            >>> gw.AtomicDomain("i8", "add", gw.world).batch("add", table, [3, 0, 3], [10, 1, 5]).wait()
            >>> table.local(4).tolist()
            [1, 0, 0, 15]
        """
        self._check_made_for(operation)
        if operation == "compare_exchange":
            raise UsageError("a batch of compare_exchange is not possible: call it for each word")
        places = np.asarray(indices)
        if places.size and places.dtype.kind not in "iu":
            raise UsageError(f"the indices of a batch are {places.dtype}: give integers")
        operands = np.broadcast_to(self._numbers(values), places.shape).ravel()
        where = np.ascontiguousarray(places.ravel(), np.int64)
        for index in (where.min(), where.max()) if where.size else ():
            self._check(target + index)
        fetch = fetches(operation)
        if reporter is not None:
            started = (
                self._start(operation, target + at, n) for at, n in zip(where.tolist(), operands.tolist(), strict=True)
            )
            found = [one.result() for one in started]
            return ready(np.array(found, self.dtype).reshape(places.shape) if fetch else None)
        done = self._way_to(target).batch(operation.removeprefix("fetch_"), target, where, operands, fetch)
        return done.then(lambda old: old.reshape(places.shape)) if fetch else done

    # -- checks --------------------------------------------------------------------------------------------------

    def _start(self, name: str, target: GlobalPtr, value: Number, expected: Number = 0) -> Future[Any]:
        # The fast path: numbers that fit, for a word of this node that an operation of this domain has reached before.
        elements = target.elements
        if (
            elements.domain is self
            and (found := self._operations.get(name)) is not None
            and (self._unlimited or self._fit(value, expected))
        ):
            operation, fetch, to_bits, from_bits = found
            if to_bits is not None:
                value, expected = to_bits(value), to_bits(expected)
            try:
                old = self._call_at(elements.words, target.offset, operation, value, expected)
            except (OverflowError, TypeError):
                pass  # the general path says what is wrong
            else:
                if not fetch:
                    return DONE
                done: Completed[Any] = Completed()  # as `ready`, without the time of a call
                done._value = old if from_bits is None else from_bits(old)
                return done
        return self._start_any(name, target, value, expected)

    def _start_any(self, name: str, target: GlobalPtr, value: Number, expected: Number) -> Future[Any]:
        self._check_made_for(name)
        self._check(target)
        plain = name.removeprefix("fetch_")
        way = self._way_to(target)
        if reporter is not None and self.reported and target.kind.host:
            return reported(way, plain, target, self._number(value), self._number(expected), fetch=fetches(name))
        started = way.perform(plain, target, self._number(value), self._number(expected), fetches(name))
        if way is self._direct:
            target.segment.typed(target.rank, self.dtype)  # from now on operations know the way there
            target.elements.domain = self
        return started

    def _way_to(self, target: GlobalPtr) -> Path:
        return self._on_host if target.kind.host else self._on_devices

    def _fit(self, value: Number, expected: Number) -> bool:
        """Return whether both are Python's numbers that are words."""
        numbers = value, expected
        return all(number.__class__ in self._plain and self._lowest <= number <= self._highest for number in numbers)

    @cached_property
    def _call_at(self) -> Callable[[int, int, int, Number, Number], int]:
        """Machine code for words of this node."""
        assert self._direct is not None
        return self._direct.call_at

    def _check_made_for(self, name: str) -> None:
        if name not in self.ops:
            raise UsageError(f"{self!r} was not made for {name}: give all operations when you make it")

    def _check(self, target: GlobalPtr) -> None:
        item = self.dtype.itemsize
        if target.dtype != self.dtype:
            raise UsageError(
                f"{target!r} points to {spelled(target.dtype)}, but {self!r} works on {self.dtype}: cast it"
            )
        if target.offset % item or not 0 <= target.offset <= target.segment.nbytes_of(target.rank) - item:
            raise UsageError(f"{target!r}: no aligned word of {item} bytes inside the segment")
        if target.team is not self.team and target.team.world_ranks[target.rank] not in self._members:
            raise UsageError(f"{target!r} belongs to no rank of {self.team.name}, the team of {self!r}")

    @cached_property
    def _members(self) -> frozenset[int]:
        return frozenset(self.team.world_ranks)

    def _number(self, value: Number) -> Number:
        """Return a value as a Python number that fits the type of a word."""
        if self.dtype.kind == "f":
            number = float(value)
            if math.isfinite(number) and abs(number) > self._highest:
                raise UsageError(f"{value} does not fit {self.dtype}: legal is at most {self._highest:g}")
            return number
        whole = operator.index(value)  # type: ignore[arg-type]
        if not self._lowest <= whole <= self._highest:
            raise UsageError(f"{value} does not fit {self.dtype}: legal is {self._lowest} to {self._highest}")
        return whole

    def _numbers(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return values as an array of the type of a word."""
        given = np.asarray(values)
        if given.size and given.dtype.kind not in ("biuf" if self.dtype.kind == "f" else "biu"):
            raise UsageError(f"values of {given.dtype} for words of {self.dtype}: give numbers of that kind")
        for value in (given.min(), given.max()) if given.size else ():
            self._number(value)
        return given.astype(self.dtype)

    def _problem(self, one_node: bool) -> UsageError | None:
        legal = [name for name in NAMES if self.dtype.kind != "f" or "bit" not in name]
        unknown = sorted(map(str, self.ops.difference(legal)))
        if self.dtype.name not in DTYPES or not self.dtype.isnative:
            field = "; for a field of a record: its type, and pointers cast to it" if is_record(self.dtype) else ""
            return UsageError(f"AtomicDomain of {spelled(self.dtype)}: legal are {', '.join(DTYPES)}{field}")
        if unknown or not self.ops:
            return UsageError(
                f"AtomicDomain of {self.dtype} with ops {unknown or 'that are empty'}: legal are {', '.join(legal)}"
            )
        if self.path not in ("cpu", "mpi"):
            return UsageError(f'AtomicDomain with path {self.path!r}: legal are "cpu", "mpi" and None')
        if self.path == "cpu" and not one_node:
            return UsageError(
                f'AtomicDomain with path "cpu" over {self.team.name}, which spans several nodes: give "mpi" or None'
            )
        return None

    def __repr__(self) -> str:
        return f"AtomicDomain({self.dtype}, {self.team.name}, {self.path})"

    def __gondwana_argument__(self) -> Described:
        """Spec for compiled code; a domain has no words."""
        return describe_handle("atomic_domain", (self.dtype.name, tuple(sorted(self.ops)), self.path), ())


def _method(op: Operation) -> str:
    """The name of the method that does what an operation of a reduction does; other names unchanged."""
    common = None if op in NAMES else named(op)
    return str(op) if common is None else REDUCTIONS.get(common, str(op))


def _limits(dtype: np.dtype[Any]) -> tuple[Number, Number]:
    """The lowest and the highest number that is a word of a type."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
