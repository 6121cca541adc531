"""Atomic domains: operations on words of any rank that are atomic with respect to each other."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gondwana.compiler.types.arguments import Described
from gondwana.compiler.types.handles import describe_handle, extend
from gondwana.errors import UsageError
from gondwana.futures import Future
from gondwana.memory.pointer import GlobalPtr
from gondwana.sync.atomic_paths import DTYPES, OPERATIONS, Messages, Number, Path, Processor
from gondwana.teams import Team

extend("gondwana.sync.atomics_overloads")

_WITHOUT_FETCH = ("load", "store", "exchange", "compare_exchange")
NAMES = (*OPERATIONS, *(f"fetch_{name}" for name in OPERATIONS if name not in _WITHOUT_FETCH))
"""The names of all operations."""


class AtomicDomain:
    """A set of atomic operations on words of one type, for the ranks of a team.

    Collective over team to create (blocking). The operations are local: between nodes MPI may need progress of the
    owner of a word, else it takes no part. Since the set is known beforehand, the domain chooses one implementation
    that is correct for all of it: the processor's instructions if the ranks share a node, else MPI's operations, for
    words of the own node too.

    *Exclusive access.* While a domain is used on a word, nothing else may access the word: no other domain, no put,
    get, copy or plain load and store, not even by its owner. Between the two, complete all operations and synchronise,
    for instance by a barrier. Operations that are not in `ops` are refused.

    *Completion and order.* Each operation returns a future, which is ready immediately on a node. Between nodes
    operations are under way until their future is waited for, and a second one may overtake the first until then.
    Completed operations are sequentially consistent, and order the loads and stores around them: of two ranks that each
    `store` a flag of their own and then `load` the other's, at least one sees the other's flag (Dekker), which plain
    stores and loads do not guarantee. In compiled code operations are complete when they return. Integers wrap around;
    the order in which floats are added is not fixed; NaN as an operand of `min` and `max` gives no particular result,
    and `compare_exchange` of floats compares their bits.

    Args:
        dtype: type of a word: int32, uint32, int64, uint64, float32 or float64.
        ops: names of the methods that will be called: `load`, `store`, `exchange`, `compare_exchange`; `add`, `sub`,
            `mul`, `min`, `max`, and for integers `bit_and`, `bit_or`, `bit_xor`; `fetch_add` and so on, which return
            the old value.
        team: the ranks that call them, all with equal arguments.
        path: "cpu" or "mpi" to force an implementation, None for the best one.

    Raises:
        UsageError: there is no such dtype, operation or path, the ranks disagree, or "cpu" is forced between nodes.

    Attributes:
        dtype: type of a word.
        ops: the operations.
        team: the ranks.
        path: "cpu" or "mpi".

    Example:
        >>> import gondwana as gw
        >>> tickets = gw.AtomicDomain("i8", ["fetch_add", "load"], gw.world)
        >>> counter = gw.Segment(gw.world, 8).pointer(rank=0, dtype="i8")
        >>> mine = tickets.fetch_add(counter, 1).result()       # every rank gets another number
        >>> gw.world.barrier()
        >>> tickets.load(counter).result() == gw.world.size
        True
    """

    def __init__(
        self, dtype: npt.DTypeLike, ops: Iterable[str], team: Team, *, path: Literal["cpu", "mpi"] | None = None
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.ops = frozenset([ops] if isinstance(ops, str) else ops)
        self.team = team
        one_node = team.node.size == team.size
        self.path = path or ("cpu" if one_node else "mpi")
        team.agree(self._problem(one_node))
        self._agree()
        self._way: Path = (
            Processor(self.dtype) if self.path == "cpu" else Messages(self.dtype, "compare_exchange" in self.ops)
        )

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

    # -- checks --------------------------------------------------------------------------------------------------

    def _start(self, name: str, target: GlobalPtr, value: Number, expected: Number = 0) -> Future[Any]:
        if name not in self.ops:
            raise UsageError(f"{self!r} was not made for {name}: give all operations when you make it")
        self._check(target)
        plain = name.removeprefix("fetch_")
        return self._way.perform(
            plain, target, self._number(value), self._number(expected), plain != name or plain in _FETCHING
        )

    def _check(self, target: GlobalPtr) -> None:
        item = self.dtype.itemsize
        if target.dtype != self.dtype:
            raise UsageError(f"{target!r} points to {target.dtype}, but {self!r} works on {self.dtype}: cast it")
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
            if self.dtype.itemsize == 4 and math.isfinite(number) and abs(number) > _LARGEST_FLOAT32:
                raise UsageError(f"{value} does not fit {self.dtype}: legal is at most {_LARGEST_FLOAT32:g}")
            return number
        whole = operator.index(value)  # type: ignore[arg-type]
        lowest, highest = self._limits
        if not lowest <= whole <= highest:
            raise UsageError(f"{value} does not fit {self.dtype}: legal is {lowest} to {highest}")
        return whole

    @cached_property
    def _limits(self) -> tuple[int, int]:
        limits = np.iinfo(self.dtype)
        return int(limits.min), int(limits.max)

    def _problem(self, one_node: bool) -> UsageError | None:
        legal = [name for name in NAMES if self.dtype.kind != "f" or "bit" not in name]
        unknown = sorted(self.ops.difference(legal))
        if self.dtype.name not in DTYPES or not self.dtype.isnative:
            return UsageError(f"AtomicDomain of {self.dtype}: legal are {', '.join(DTYPES)}")
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

    def _agree(self) -> None:
        mine = self.dtype.name, sorted(self.ops), self.path
        others = self.team.allgather(mine)
        if any(other != others[0] for other in others):
            rank = next(rank for rank, other in enumerate(others) if other != others[0])
            raise UsageError(
                f"the ranks of {self.team.name} make different atomic domains: {others[0]} on rank 0 and "
                f"{others[rank]} on rank {rank}; give the same arguments on every rank"
            )

    def __repr__(self) -> str:
        return f"AtomicDomain({self.dtype}, {self.team.name}, {self.path})"

    def __gondwana_argument__(self) -> Described:
        """Spec for compiled code; a domain has no words."""
        return describe_handle("atomic_domain", (self.dtype.name, tuple(sorted(self.ops)), self.path), ())


_FETCHING = ("load", "exchange", "compare_exchange")
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
