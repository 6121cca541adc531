"""General index sets: unions of disjoint boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import SupportsIndex, final

from gondwana.domains.index_set import IndexSet
from gondwana.domains.point import PointLike, as_point, check_permutation
from gondwana.domains.progression import join, normal, subtract
from gondwana.domains.rect import RectDomain, make_rect


@final
class Domain(IndexSet):
    """Any finite set of points, kept as disjoint boxes: the result of ``|`` and ``-`` of boxes. Local.

    Made by these operators, by ``Domain.of`` or by ``Domain.from_points``. Boxes that continue each other are merged;
    they are ordered by their first points; a set that is a box is kept as that box.

    Example:
        >>> box = RectDomain((0, 0), (4, 4))
        >>> rim = box - box.shrink(1)
        >>> print(rim)
        [0:0, 0:3] | [1:2, 0:0] | [1:2, 3:3] | [3:3, 0:3]
        >>> rim.size, (1, 1) in rim, rim | box.shrink(1) == box
        (12, False, True)
    """

    __slots__ = ("_ndim", "_rects")
    _ndim: int
    _rects: tuple[RectDomain, ...]

    def __init__(self, *given: object) -> None:
        raise TypeError(
            f"Domain({', '.join(map(repr, given))}): a Domain is made by Domain.of(*boxes), by "
            "Domain.from_points(points), or by | and - of boxes"
        )

    @classmethod
    def of(cls, *sets: IndexSet) -> Domain:
        """Return the union of boxes and domains of one dimension. Local.

        Raises:
            ValueError: no set is given, so that the dimension is unknown, or the dimensions differ.

        Example:
            >>> Domain.of(RectDomain(0, 6), RectDomain(4, 9), RectDomain(20, 30))
            Domain.of(RectDomain(0, 9), RectDomain(20, 30))
        """
        if not sets:
            raise ValueError("Domain.of needs at least one box, an empty one for the empty set: RectDomain(0, (0, 0))")
        rects: list[RectDomain] = []
        for each in sets:
            sets[0]._same_ndim(each)
            rects += _remove(each.rects, rects)
        return _make_domain(rects, sets[0].ndim)

    @classmethod
    def from_points(cls, points: Iterable[PointLike], ndim: int | None = None) -> Domain:
        """Return the set of the given points, in as few boxes as merging finds. Local.

        Args:
            points: points or tuples of one dimension, or integers for one dimension; repetitions do not matter.
            ndim: the dimension, needed only if there may be no points.

        Raises:
            ValueError: the dimensions differ, or there are no points and no ``ndim``.

        Example:
            >>> print(Domain.from_points([(0, 0), (0, 1), (1, 0), (5, 5)]))
            [0:0, 0:1] | [1:1, 0:0] | [5:5, 5:5]
        """
        unique = {as_point(point, ndim) for point in points}
        if not unique and ndim is None:
            raise ValueError("without points the dimension is unknown: give ndim")
        dimension = ndim or len(next(iter(unique)))
        rects = [make_rect([range(c, c + 1) for c in as_point(point, dimension)]) for point in unique]
        return _make_domain(rects, dimension)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._ndim

    @property
    def rects(self) -> tuple[RectDomain, ...]:
        """Disjoint non-empty boxes that make up the set, ordered by their first points; one if the set is a box."""
        return self._rects

    @property
    def is_rectangular(self) -> bool:
        """Whether the set is a box, dense, strided or empty: then ``rects`` has at most one element."""
        return len(self._rects) <= 1

    @property
    def bounding_box(self) -> RectDomain:
        """The smallest dense box that contains the set."""
        return _hull(self._rects, self._ndim).bounding_box

    def translate(self, offset: PointLike) -> Domain:
        """Return the set moved by ``offset``; ``domain + offset`` is the same. Local.

        Example:
            >>> print(Domain.of(RectDomain(0, 2), RectDomain(5, 7)) + 10)
            [10:11] | [15:16]
        """
        steps = as_point(offset, self._ndim)
        return _make_domain([rect.translate(steps) for rect in self._rects], self._ndim)

    def permute(self, axes: Sequence[SupportsIndex]) -> Domain:
        """Return the set whose axis ``i`` is axis ``axes[i]`` of this one, as ``numpy.transpose`` does. Local.

        Example:
            >>> print(Domain.from_points([(0, 1), (5, 7)]).permute((1, 0)))
            [1:1, 0:0] | [7:7, 5:5]
        """
        order = check_permutation(axes, self._ndim)
        return _make_domain([rect.permute(order) for rect in self._rects], self._ndim)

    def __and__(self, other: IndexSet) -> Domain:
        if not isinstance(other, IndexSet):
            return NotImplemented
        self._same_ndim(other)
        return intersection(self, other)

    def __repr__(self) -> str:
        rects = self._rects or (_hull((), self._ndim),)
        return f"Domain.of({', '.join(map(repr, rects))})"

    def __str__(self) -> str:
        return " | ".join(map(str, self._rects)) or str(_hull((), self._ndim))


def union(a: IndexSet, b: IndexSet) -> Domain:
    """Return the points of either set; both of one dimension. Local."""
    return _make_domain([*a.rects, *_remove(b.rects, a.rects)], a.ndim)


def intersection(a: IndexSet, b: IndexSet) -> Domain:
    """Return the points of both sets; both of one dimension. Local."""
    return _make_domain([common for p in a.rects for q in b.rects if (common := p & q)], a.ndim)


def difference(a: IndexSet, b: IndexSet) -> Domain:
    """Return the points of ``a`` that are not in ``b``; both of one dimension. Local."""
    return _make_domain(_remove(a.rects, b.rects), a.ndim)


def _make_domain(rects: Iterable[RectDomain], ndim: int) -> Domain:
    """Return the domain of disjoint non-empty boxes, merged and ordered."""
    domain = object.__new__(Domain)
    domain._ndim = ndim
    domain._rects = _merge(list(rects), ndim)
    return domain


def _remove(rects: Iterable[RectDomain], holes: Iterable[RectDomain]) -> list[RectDomain]:
    pieces = list(rects)
    for hole in holes:
        pieces = [rest for piece in pieces for rest in _cut(piece, hole)]
    return pieces


def _cut(rect: RectDomain, hole: RectDomain) -> Iterator[RectDomain]:
    """Give the parts of a box outside another: slabs off the first axis, full in the others, then off the next."""
    common = (rect & hole).axes
    if not common[0]:
        yield rect
        return
    for axis, (whole, part) in enumerate(zip(rect.axes, common, strict=True)):
        for piece in subtract(whole, part):
            yield make_rect((*common[:axis], piece, *rect.axes[axis + 1 :]))


def _hull(rects: Sequence[RectDomain], ndim: int) -> RectDomain:
    """Return the smallest box, strided if possible, that contains the boxes."""
    if not rects:
        return make_rect([range(0)] * ndim)
    axes = []
    for ranges in zip(*[rect.axes for rect in rects], strict=True):
        start = min([r.start for r in ranges])
        step = gcd(*[r.start - start for r in ranges], *[r.step for r in ranges if r.stop - r.start > 1])
        axes.append(normal(start, max([r.stop for r in ranges]), step or 1))
    return make_rect(axes)


def _merge(rects: list[RectDomain], ndim: int) -> tuple[RectDomain, ...]:
    """Return the same set in fewer boxes, ordered by their first points."""
    if len(rects) < 2:
        return tuple(rects)
    hull = _hull(rects, ndim)
    if hull.size == sum([rect.size for rect in rects]):
        return (hull,)
    for axis in reversed(range(ndim)):
        rects = _merge_along(rects, axis)
    # Points are ordered by component, their coordinates as lists lexicographically.
    return tuple(sorted(rects, key=lambda rect: [r.start for r in rect.axes]))


def _merge_along(rects: list[RectDomain], axis: int) -> list[RectDomain]:
    """Join boxes that continue each other along one axis and agree in all others."""
    groups: dict[tuple[range, ...], list[RectDomain]] = {}
    for rect in rects:
        groups.setdefault(rect.axes[:axis] + rect.axes[axis + 1 :], []).append(rect)
    if len(groups) == len(rects):
        return rects
    merged = []
    for group in groups.values():
        group.sort(key=lambda rect: rect.axes[axis].start)
        run = group[0]
        for rect in group[1:]:
            joined = join(run.axes[axis], rect.axes[axis])
            if joined is None:
                merged.append(run)
                run = rect
            else:
                run = make_rect((*run.axes[:axis], joined, *run.axes[axis + 1 :]))
        merged.append(run)
    return merged
