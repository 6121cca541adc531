"""`RemoteArray`: data on a domain in memory that this rank reaches by copies only."""

from __future__ import annotations

from typing import Any, NoReturn, final

from gondwana.arrays.base import DomainArray, Position
from gondwana.arrays.strided import Strided
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.memory.pointer import GlobalPtr


@final
class RemoteArray(DomainArray):
    """Data on a RectDomain of another node, or in the memory of a device. Local.

    It has the domain, the views and the copies of an `Array`, but no load or store of this rank reaches its elements:
    they move one-sidedly, without any action of the rank that holds them. `copy_from`, `copy`, `fill`, assignments and
    `b[p]` block until the elements are there; `copy_from_async` does not. Compiled code and NumPy take copies:
    `kernel(domain, b.copy())`.

    Made by `GlobalArray.block`, `gw.array_at`, `gw.share` and `reference().array()`. The order of accesses by several
    ranks is the caller's.

    Args:
        data: where the elements are; its axes are those of the domain.
        domain: where they are in the array.
    """

    __slots__ = ()
    _data: Strided

    def __init__(self, data: Strided, domain: RectDomain) -> None:
        self._lie_on(data, domain)

    def _like(self, data: Any, domain: RectDomain) -> RemoteArray:
        return RemoteArray(data, domain)

    @property
    def pointer(self) -> GlobalPtr:
        """Where the first element lies: rank, kind of memory, offset."""
        return self._data.pointer

    def _element(self, position: Position) -> Any:
        raise UsageError(self._out_of_reach("an index"))

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError(self._out_of_reach("NumPy"))

    def __gondwana_array__(self) -> NoReturn:
        """A kernel needs an array that the processor reaches."""
        raise UsageError(self._out_of_reach("a kernel"))

    def __gondwana_argument__(self) -> NoReturn:
        """Compiled code needs an array that the processor reaches."""
        raise UsageError(self._out_of_reach("compiled code"))

    def _out_of_reach(self, who: str) -> str:
        kind = self.pointer.kind
        place = "on another node" if kind.host else f"in {kind.name} memory"
        return (
            f"{who} cannot take {self!r}: its elements are {place}; fetch them by copy(), work on that Array, and send "
            "results back by copy_from()"
        )

    def __repr__(self) -> str:
        return f"RemoteArray({self.dtype}, {self._domain!r}, rank {self.pointer.rank}, {self.pointer.kind.name})"
