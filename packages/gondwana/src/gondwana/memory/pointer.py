"""Global pointers: one element anywhere in the memory of a team.

The pointers to one rank's part of a segment with one dtype share what this rank knows of the `Elements` there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import total_ordering
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from gondwana.compiler.types.records import element_dtype, is_record, spelled
from gondwana.errors import KernelError, UsageError
from gondwana.memory.kinds import MemoryKind

if TYPE_CHECKING:
    from gondwana.compiler.types.arguments import Described
    from gondwana.memory.segment import Segment
    from gondwana.teams import Team


_describe: Callable[[np.dtype[Any], tuple[int, ...]], Described] | None = None
"""Makes an argument of compiled code of a pointer; loaded with the first, since most starting ranks have none."""

_PLAIN = "?bBhHiIlLqQfd"
"""Formats of elements that a memoryview reads and writes as Python's numbers, in half of NumPy's time."""


class Words(NamedTuple):
    """The words of some elements for machine code.

    Attributes:
        base: Address of the first element.
        nbytes: Bytes of all elements.
        item: Bytes of an element.
        number: NumPy's number of the dtype.
        counters: Address of `counted`.
    """

    base: int
    nbytes: int
    item: int
    number: int
    counters: int


WORDS = Words(*range(0, 40, 8))
"""The place of each word, in bytes from the first."""
_NONE = -2
"""Stands for the number of a dtype that is not fully described by it, and for the bytes of what is not reached."""

counted = np.zeros(2, np.int64)
"""The number of copies to and from elements that machine code has made, and their bytes."""

_fitting: dict[np.dtype[Any], set[type]] = {}
"""Types of Python's numbers that are known to fit a dtype."""


@total_ordering
class GlobalPtr:
    """Points to an element of a segment on any rank, in any kind of memory. Local; never dereferenced by itself.

    Made by `Segment.pointer` and from other pointers. `+` and `-` count elements; pointers of one rank and segment can
    be subtracted and compared. They can be pickled and sent to any rank of the segment's team, and be arguments of
    compiled code.

    Attributes:
        segment: Segment that contains the element.
        rank: Rank of the segment's team whose part contains it.
        offset: Bytes from the start of that part.
        dtype: Type of an element.
        elements: The elements of that part.

    Example:
        >>> import gondwana as gw
        >>> segment = gw.Segment(gw.world, 64)
        >>> p = segment.pointer(dtype=float)
        >>> (p + 3) - p, (p + 3).offset, p.is_local
        (3, 24, True)
        >>> p.local(2).tolist()
        [0.0, 0.0]
    """

    __slots__ = ("dtype", "elements", "offset", "rank", "segment")

    def __init__(
        self, segment: Segment, rank: int, offset: int, dtype: np.dtype[Any], elements: Elements | None = None
    ) -> None:
        self.segment = segment
        self.rank = rank
        self.offset = offset
        self.dtype = dtype
        self.elements: Elements = elements or segment.elements_of(rank, dtype)

    @property
    def team(self) -> Team:
        """The team that `rank` belongs to."""
        return self.segment.team

    @property
    def kind(self) -> MemoryKind:
        """The memory kind of the element."""
        return self.segment.kind_of(self.rank)

    @property
    def is_local(self) -> bool:
        """Whether loads and stores of this rank reach the element: host memory of this node."""
        return self.rank in self.segment.peers

    @property
    def room(self) -> int:
        """The number of elements from this one, included, up to the end of the rank's part."""
        return (self.segment.nbytes_of(self.rank) - self.offset) // self.dtype.itemsize

    def local(self, count: int = 1) -> npt.NDArray[Any]:
        """Return `count` elements as an ndarray, without a copy. Local.

        Raises:
            UsageError: the elements are out of reach of loads and stores, or not inside the segment.
        """
        self.check(count)
        start, item = self.offset, self.dtype.itemsize
        return self.segment.view(self.rank)[start : start + count * item].view(self.dtype)

    def cast(self, dtype: npt.DTypeLike) -> GlobalPtr:
        """Return a pointer to the same byte with elements of another type. Local."""
        return GlobalPtr(self.segment, self.rank, self.offset, element_dtype(dtype))

    def on(self, rank: int) -> GlobalPtr:
        """Return a pointer to the same byte of the part of another rank. Local; callable in compiled code too.

        If all ranks divide their parts alike, one pointer gives the place of something on every rank. In compiled code
        the rank is checked; the size of its part, like other bounds there, with `GONDWANA_CHECK=1` when it is accessed.

        Args:
            rank: Rank of the team.

        Raises:
            UsageError: the rank does not exist, or its part of the segment ends before that byte.

        Example:
            >>> import gondwana as gw
            >>> slot = gw.Segment(gw.world, 64).pointer(dtype=float) + 2
            >>> right = (gw.world.rank + 1) % gw.world.size
            >>> slot.on(right).offset
            16
            >>> @gw.jit
            ... def announce(value, slot, team):
            ...     for rank in range(team.size):
            ...         gw.put(value, slot.on(rank) + team.rank)
            >>> announce(0.5, slot, gw.world)
        """
        return self.segment.pointer(rank, self.dtype, self.offset)

    def check(self, count: int) -> None:
        """Raise if `count` elements from here are not inside the segment. Local.

        Raises:
            UsageError: some of the elements are not inside the segment.
        """
        end = self.offset + count * self.dtype.itemsize
        if count < 0 or self.offset < 0 or end > self.segment.nbytes_of(self.rank):
            raise UsageError(
                f"{count} elements of {spelled(self.dtype)} at byte {self.offset} of rank {self.rank}: its part of the "
                f"segment has {self.segment.nbytes_of(self.rank)} bytes"
            )

    def __add__(self, count: int) -> GlobalPtr:
        offset = self.offset + int(count) * self.dtype.itemsize
        return GlobalPtr(self.segment, self.rank, offset, self.dtype, self.elements)

    __radd__ = __add__

    @overload
    def __sub__(self, other: GlobalPtr) -> int: ...
    @overload
    def __sub__(self, other: int) -> GlobalPtr: ...
    def __sub__(self, other: GlobalPtr | int) -> GlobalPtr | int:
        if not isinstance(other, GlobalPtr):
            return self + -other
        distance, rest = divmod(self.offset - self._alike(other).offset, self.dtype.itemsize)
        if rest:
            raise UsageError(f"{self!r} - {other!r}: the distance is no whole number of elements")
        return distance

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GlobalPtr):
            return NotImplemented
        return self._place() == other._place()

    def __lt__(self, other: GlobalPtr) -> bool:
        return self.offset < self._alike(other).offset

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[int, int, int, np.dtype[Any]]:
        return self.segment.key, self.rank, self.offset, self.dtype

    def _alike(self, other: GlobalPtr) -> GlobalPtr:
        if (other.segment.key, other.rank, other.dtype) != (self.segment.key, self.rank, self.dtype):
            raise UsageError(f"{self!r} and {other!r}: only pointers into one rank's part with one dtype have an order")
        return other

    def __repr__(self) -> str:
        return f"GlobalPtr(rank {self.rank}, {self.kind.name}, byte {self.offset}, {spelled(self.dtype)})"

    def __reduce__(self) -> tuple[Any, ...]:
        dtype = self.dtype if is_record(self.dtype) else self.dtype.str
        return _arrive, (self.segment.key, self.rank, self.offset, dtype)

    def __gondwana_argument__(self) -> Described:
        """Spec and words for compiled code: address of the segment's table, rank, offset."""
        if not self.kind.host:
            raise KernelError(f"compiled code reaches host memory only, not {self!r}: copy from Python")
        words = (self.segment.table_address, self.rank, self.offset)
        return (_describe or _find_describe())(self.dtype, words)


def _find_describe() -> Callable[[np.dtype[Any], tuple[int, ...]], Described]:
    global _describe
    from gondwana.compiler.types.arguments import describe_handle, dtype_name

    _describe = lambda dtype, words: describe_handle("global_ptr", (dtype_name(dtype),), words)  # noqa: E731
    return _describe


def _arrive(key: int, rank: int, offset: int, dtype: str | np.dtype[Any]) -> GlobalPtr:
    """Rebuild a pointer that another rank has sent."""
    from gondwana.memory.segment import find

    return GlobalPtr(find(key), rank, offset, np.dtype(dtype))


class Elements:
    """All whole elements of a dtype in one rank's part of a segment, prepared for the verbs. Local.

    The pointers to them share it, so that a put of one number needs no look-up. Until loads and stores of this rank
    have reached them for the first time, and when the segment is closed, there are none.

    Args:
        dtype: Type of an element.

    Attributes:
        array: The elements, None unless they are reached.
        item: Bytes of an element.
        view: The elements by index, None unless they are reached and single numbers.
        mask: Bits that are zero in the offset of an element from the start of the part.
        shift: Bits by which that offset becomes the index.
        fitting: Types of Python's numbers that are known to fit the dtype.
        domain: Atomic domain that has reached them last: it is made for their dtype and their rank.
        words: Address of the `Words` for machine code.
    """

    __slots__ = (
        "_table", "array", "domain", "fitting", "item", "mask", "shift", "view", "words",
    )  # fmt: skip

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.item: int = dtype.itemsize
        self.mask, self.shift = self.item - 1, self.item.bit_length() - 1
        self.fitting = _fitting.setdefault(dtype, set())
        self.close()

    def close(self) -> None:
        """Make them unreachable for all verbs. Local."""
        self.array: npt.NDArray[Any] | None = None
        self.view: Any = None
        self.domain: object = None
        self._table = _UNREACHED
        self.words: int = _UNREACHED.ctypes.data

    def reach(self, array: npt.NDArray[Any]) -> None:
        """Make them accessible to all verbs. Local.

        Args:
            array: The elements, a contiguous array of one axis.
        """
        dtype = array.dtype
        number = dtype.num if dtype.isnative and dtype.kind in "biufc" else _NONE
        words = Words(array.ctypes.data, array.nbytes, self.item, number, counted.ctypes.data)
        self._table = np.array(words, np.int64)
        self.words = self._table.ctypes.data
        self.array = array
        plain = dtype.isnative and dtype.char in _PLAIN
        self.view = array.data if plain else array if dtype.isbuiltin == 1 else None


_UNREACHED = np.array(Words(0, _NONE, 8, _NONE, counted.ctypes.data), np.int64)
"""The words of elements that are not reached: nothing fits."""
