"""`RemoteArray`: data on a domain in memory that this rank reaches by copies only."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np

from gondwana.arrays.array import Array, plain
from gondwana.arrays.base import DomainArray, Position
from gondwana.compiler.types.records import is_record, spelled
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.box import StridedBox
from gondwana.transfer.verbs import copy, get, put


class RemoteArray(DomainArray):
    """Data on a RectDomain of another node, or in the memory of a device of another rank. Local.

    It has the domain, the views and the copies of an `Array`, but no load or store of this rank reaches its elements:
    they move one-sidedly, without any action of the rank that holds them. `copy_from`, `copy`, `fill`, assignments and
    `b[p]` block until the elements have arrived; `copy_from_async` does not. Compiled code and NumPy take copies:
    `kernel(domain, b.copy())`.

    Made by `GlobalArray.block`, `gw.array_at`, `gw.share` and `reference().array()`. The order of accesses by several
    ranks is the caller's.

    Args:
        data: place of the elements; its axes are those of the domain.
        domain: domain of the elements.
    """

    __slots__ = ()
    _data: StridedBox

    def __init__(self, data: StridedBox, domain: RectDomain) -> None:
        self._lie_on(data, domain)

    def _like(self, data: Any, domain: RectDomain) -> Self:
        return type(self)(data, domain)

    @property
    def pointer(self) -> GlobalPtr:
        """The place of the first element: rank, kind of memory, offset."""
        return self._data.location

    def __gondwana_box__(self) -> StridedBox:
        """The place of the elements, for `gw.copy`."""
        return self._data

    def copy(self) -> Array:
        """Return a new array with the same elements and memory order, in private memory. Blocks: a get."""
        fortran = self.ndim > 1 and abs(self.strides[0]) < abs(self.strides[-1])
        here = Array.empty(self._domain, self.dtype, order="F" if fortran else "C")
        copy(self, here).wait()
        return here

    def copy_from(self, other: DomainArray) -> None:
        """Copy the elements at the points that both arrays have: see `DomainArray.copy_from`. Blocks: a put."""
        common = self._domain & other.domain
        if common.is_empty:
            return
        target, source = self.restrict(common), other.restrict(common)
        if source.dtype != target.dtype or target._may_overlap(source):
            source = Array(source.copy().numpy().astype(target.dtype, casting="same_kind", copy=False), common)
        copy(source, target).wait()

    def fill(self, value: Any) -> None:
        """Set all elements to one value. Blocks: a put of as many elements."""
        copy(np.full(self.shape, np.array(value, self.dtype), self.dtype), self).wait()

    def _may_overlap(self, other: DomainArray) -> bool:
        if not isinstance(other, RemoteArray):
            return False
        mine, theirs = self._data.location, other._data.location
        return mine.segment is theirs.segment and mine.rank == theirs.rank

    def _element(self, position: Position) -> Any:
        value = get(self._data[position].location).result()
        return value if is_record(self.dtype) else plain(self.dtype.type(value))

    def __setitem__(self, index: Any, value: Any) -> None:
        position = self._position(index)
        if all(isinstance(part, int) for part in position):
            put(value, self._data[position].location).wait()
        else:
            self._view(position).fill(value)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError(self._out_of_reach("NumPy"))

    def __gondwana_array__(self) -> Any:
        """Refuse: a kernel needs an array that the processor reaches."""
        raise UsageError(self._out_of_reach("a kernel"))

    def __gondwana_argument__(self) -> Any:
        """Refuse: compiled code needs an array that the processor reaches."""
        raise UsageError(self._out_of_reach("compiled code"))

    def _out_of_reach(self, who: str) -> str:
        kind = self._data.location.kind
        place = "on another node" if kind.host else f"in {kind.name} memory"
        return (
            f"{who} cannot take {self!r}: its elements are {place}; fetch them by copy(), work on that Array, and send "
            "results back by copy_from()"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: send its reference(), or its elements by copy()")

    def __repr__(self) -> str:
        pointer = self._data.location
        return f"RemoteArray({spelled(self.dtype)}, {self._domain!r}, rank {pointer.rank}, {pointer.kind.name})"
