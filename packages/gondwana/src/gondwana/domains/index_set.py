"""The common base of boxes and unions of boxes: the algebra of finite sets of points."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self, SupportsIndex, TypeGuard, overload

from gondwana.domains.point import Offset, Point, PointLike, as_point, is_integer

if TYPE_CHECKING:  # Domain and RectDomain stand on this module
    from gondwana.domains.domain import Domain
    from gondwana.domains.rect import RectDomain


class IndexSet(ABC):
    """A finite, immutable set of points of one dimension: a RectDomain or a Domain. Local.

    Sets of both classes mix in every operation and are compared as sets: a Domain equals the RectDomain of the same
    points. ``|`` and ``-`` give a Domain; ``&`` of two boxes is a box. ``<=`` is inclusion, as for Python's sets.
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars then leave `np.int64(2) * box` to us

    @property
    @abstractmethod
    def ndim(self) -> int:
        """The number of axes."""

    @property
    @abstractmethod
    def rects(self) -> tuple[RectDomain, ...]:
        """Disjoint non-empty boxes that make up the set, ordered by their first points."""

    @property
    @abstractmethod
    def bounding_box(self) -> RectDomain:
        """The smallest dense box that contains the set."""

    @abstractmethod
    def translate(self, offset: PointLike) -> Self:
        """Return the set moved by ``offset``."""

    @abstractmethod
    def permute(self, axes: Sequence[SupportsIndex]) -> Self:
        """Return the set whose axis ``i`` is axis ``axes[i]`` of this one."""

    @property
    def size(self) -> int:
        """The number of points, exact however large."""
        return sum([rect.size for rect in self.rects])

    @property
    def is_empty(self) -> bool:
        """Whether the set has no points."""
        return not self.rects

    def issubset(self, other: IndexSet) -> bool:
        """Return whether every point is also in ``other``. Local.

        Raises:
            ValueError: ``other`` has another dimension.
        """
        return (self & other).size == self.size

    def issuperset(self, other: IndexSet) -> bool:
        """Return whether every point of ``other`` is also here. Local.

        Raises:
            ValueError: ``other`` has another dimension.
        """
        return other.issubset(self)

    def isdisjoint(self, other: IndexSet) -> bool:
        """Return whether no point is in both sets. Local.

        Raises:
            ValueError: ``other`` has another dimension.
        """
        return (self & other).is_empty

    def __and__(self, other: IndexSet) -> IndexSet:
        if not isinstance(other, IndexSet):
            return NotImplemented
        from gondwana.domains.domain import intersection

        self._same_ndim(other)
        return intersection(self, other)

    def __or__(self, other: IndexSet) -> Domain:
        if not isinstance(other, IndexSet):
            return NotImplemented
        from gondwana.domains.domain import union

        self._same_ndim(other)
        return union(self, other)

    @overload
    def __sub__(self, other: IndexSet) -> Domain: ...
    @overload
    def __sub__(self, other: PointLike) -> Self: ...
    def __sub__(self, other: IndexSet | PointLike) -> Domain | Self:
        if not isinstance(other, IndexSet):
            return self.translate(-as_point(other, self.ndim)) if is_point_like(other) else NotImplemented
        from gondwana.domains.domain import difference

        self._same_ndim(other)
        return difference(self, other)

    def __add__(self, offset: PointLike) -> Self:
        return self.translate(offset) if is_point_like(offset) else NotImplemented

    __radd__ = __add__

    def __contains__(self, point: object) -> bool:
        if not isinstance(point, tuple) and (self.ndim > 1 or not is_integer(point)):
            raise TypeError(f"a set of points contains points or tuples of {self.ndim} integers, not {point!r}")
        p = as_point(point, self.ndim)
        return any(all(map(range.__contains__, rect.axes, p)) for rect in self.rects)

    def __iter__(self) -> Iterator[Point]:
        for rect in self.rects:
            yield from rect

    def __len__(self) -> int:
        size = self.size
        if size > sys.maxsize:
            raise OverflowError(f"{size} points are more than len() can say: use .size")
        return size

    def __bool__(self) -> bool:
        return not self.is_empty

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexSet):
            return NotImplemented
        if self.ndim != other.ndim or self.size != other.size:
            return False
        return self.rects == other.rects or self.issubset(other)

    def __hash__(self) -> int:
        # A property that equal sets share, however they are cut into boxes.
        box = self.bounding_box
        return hash((box.lo, box.hi, self.size))

    def __le__(self, other: IndexSet) -> bool:
        return self.issubset(other) if isinstance(other, IndexSet) else NotImplemented

    def __lt__(self, other: IndexSet) -> bool:
        return self.size < other.size and self.issubset(other) if isinstance(other, IndexSet) else NotImplemented

    def __ge__(self, other: IndexSet) -> bool:
        return other.issubset(self) if isinstance(other, IndexSet) else NotImplemented

    def __gt__(self, other: IndexSet) -> bool:
        return other < self if isinstance(other, IndexSet) else NotImplemented

    def _same_ndim(self, other: IndexSet) -> None:
        if self.ndim != other.ndim:
            raise ValueError(f"{self} has {self.ndim} dimensions and {other} has {other.ndim}: both need the same")


def is_point_like(value: object) -> TypeGuard[tuple[int, ...] | Offset | SupportsIndex]:
    """Return whether operators take ``value`` for a point: a tuple, an offset or an integer. Local."""
    return isinstance(value, tuple | Offset) or is_integer(value)
