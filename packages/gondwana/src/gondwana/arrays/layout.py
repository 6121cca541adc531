"""The division of a domain over ranks, and the sources of its ghost cells. Pure values, the same on every rank."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from gondwana.arrays.array import MemoryOrder
from gondwana.domains import Domain, IndexSet, Point, PointLike, RectDomain
from gondwana.domains.point import as_point
from gondwana.errors import UsageError

T = TypeVar("T")

Division = Literal["balanced", "ceil"]
"""How an axis is cut: sizes differ by one at most, or all blocks but those at the end are as large as the first."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Ghost cells of one rank that have one owner.

    Attributes:
        owner: rank that owns the cells.
        target: the ghost cells, in the coordinates of the rank that holds them.
        shift: `target + shift` are the owner's cells (not zero across a periodic boundary).
    """

    owner: int
    target: RectDomain
    shift: Point


@dataclass(frozen=True, slots=True)
class _Zone:
    """An interval of one axis as a rank sees it: side (-1 low ghost, 0 own, 1 high ghost), owner's place, shift."""

    side: int
    place: int
    begin: int
    end: int
    shift: int


@dataclass(frozen=True)
class Layout:
    """The division of a dense box into one block a rank: who owns what, known to every rank without communication.

    `Layout.divide` makes one for a number of ranks, `array.layout` is that of a global array. All methods are local.

    Attributes:
        domain: all cells.
        grid: blocks along each axis; rank r has the block whose place is r in row-major order.
        ghost: ghost cells on both sides of each axis.
        periodic: whether an axis closes on itself.
        order: memory order of the blocks.
        division: division of the axes.

    Example:
        >>> import gondwana as gw
        >>> layout = gw.Layout.divide((10, 8), 4, ghost=1)
        >>> layout.grid, layout.owned(1), layout.held(1)
        ((4, 1), RectDomain((3, 0), (6, 8)), RectDomain((2, -1), (7, 9)))
    """

    domain: RectDomain
    grid: tuple[int, ...]
    ghost: tuple[int, ...]
    periodic: tuple[bool, ...]
    order: MemoryOrder
    division: Division = "balanced"

    @classmethod
    def divide(
        cls,
        domain: RectDomain | PointLike,
        ranks: int,
        *,
        ghost: int | Sequence[int] = 0,
        periodic: bool | Sequence[bool] = False,
        grid: Sequence[int] | None = None,
        order: MemoryOrder = "C",
        division: Division = "balanced",
    ) -> Layout:
        """Divide a domain over a number of ranks, as `gw.empty` does. Local.

        Args:
            domain: all cells: a dense RectDomain, or a shape (from the origin).
            ranks: number of ranks that share it, one block each.
            ghost: ghost cells around each block, one width or one an axis.
            periodic: whether the domain closes on itself, for all axes or one an axis.
            grid: blocks along each axis, their product the number of ranks; default: the grid that leaves fewest ranks
                without cells, and among those the one that moves least through ghosts, the contiguous axis cut last.
            order: "C" (last axis contiguous) or "F" (first axis contiguous).
            division: "balanced": remainders go to the first blocks; with more ranks than cells some blocks are empty.
                "ceil": blocks of n cells along an axis that is cut into k have ceil(n/k) cells (HPF's BLOCK); the last
                may have fewer or none.

        Raises:
            UsageError: an argument is illegal.

        Example:
            >>> import gondwana as gw
            >>> gw.Layout.divide((64, 64, 64), 8, ghost=1).grid
            (4, 2, 1)
        """
        box = domain if isinstance(domain, RectDomain) else RectDomain.from_shape(domain)
        if not box.is_dense:
            raise UsageError(
                f"a global array lives on a dense domain, not on {box!r}: divide its coordinates by the stride"
            )
        if box.is_empty:
            raise UsageError(f"a global array needs at least one cell, {box!r} has none")
        if order not in ("C", "F"):
            raise UsageError(f'order={order!r}: the orders are "C" and "F"')
        if division not in ("balanced", "ceil"):
            raise UsageError(f'division={division!r}: legal are "balanced" and "ceil"')
        widths = per_axis("ghost", ghost, box.ndim, int)
        if min(widths) < 0:
            raise UsageError(f"ghost={ghost!r}: give widths of 0 or more")
        closed = per_axis("periodic", periodic, box.ndim, bool)
        blocks = best_grid(box.shape, ranks, widths, order) if grid is None else per_axis("grid", grid, box.ndim, int)
        if math.prod(blocks) != ranks or min(blocks) < 1:
            raise UsageError(
                f"grid={blocks} has {math.prod(blocks)} blocks for {ranks} ranks: "
                "give positive numbers whose product is the number of ranks, or leave it out"
            )
        return cls(box, blocks, widths, closed, order, division)

    def place(self, rank: int) -> tuple[int, ...]:
        """Return the place of a rank's block in the grid."""
        place = []
        for count in reversed(self.grid):
            rank, coordinate = divmod(rank, count)
            place.append(coordinate)
        return tuple(reversed(place))

    def rank(self, place: tuple[int, ...]) -> int:
        """Return the rank whose block is at a place of the grid."""
        rank = 0
        for coordinate, count in zip(place, self.grid, strict=True):
            rank = rank * count + coordinate
        return rank

    def owner(self, point: PointLike) -> int:
        """Return the rank that owns a cell.

        Raises:
            UsageError: the point is not in the domain.

        Example:
            >>> import gondwana as gw
            >>> gw.Layout.divide(10, 4).owner(9)
            3
        """
        cell = as_point(point, self.domain.ndim)
        if cell not in self.domain:
            raise UsageError(f"{cell!r} is not in {self.domain!r}")
        return self.rank(tuple(self._place_of(axis, coordinate) for axis, coordinate in enumerate(cell)))

    @functools.lru_cache(1 << 16)  # noqa: B019  (layouts are few, and values)
    def owned(self, rank: int) -> RectDomain:
        """Return the cells of a rank, perhaps none."""
        bounds = [self._bounds(axis, place) for axis, place in enumerate(self.place(rank))]
        return RectDomain([begin for begin, _ in bounds], [end for _, end in bounds])

    def held(self, rank: int) -> RectDomain:
        """Return the cells of a rank and its ghosts around them; none if it owns none."""
        owned = self.owned(rank)
        return owned if owned.is_empty else owned.accrete(self.ghost)

    def pieces(self, rank: int, *, corners: bool) -> list[Piece]:
        """Return the sources of a rank's ghost cells.

        Blocks thinner than the ghosts have several owners along an axis, and a small periodic domain may come around
        more than once; ghosts outside of a domain that is not periodic have no source.

        Args:
            rank: rank that has the ghosts.
            corners: True: with the cells that lie outside along several axes (all 26 neighbours in three dimensions);
                False: faces only.
        """
        if self.owned(rank).is_empty:
            return []
        place = self.place(rank)
        axes = [self._zones(axis, place[axis]) for axis in range(self.domain.ndim)]
        pieces = []
        for zones in itertools.product(*axes):
            outside = sum(zone.side != 0 for zone in zones)
            if outside == 0 or (outside > 1 and not corners):
                continue
            owner = self.rank(tuple(zone.place for zone in zones))
            target = RectDomain([zone.begin for zone in zones], [zone.end for zone in zones])
            pieces.append(Piece(owner, target, Point(zone.shift for zone in zones)))
        return pieces

    def inner(self, rank: int) -> RectDomain:
        """Return the cells of a rank that are farther than the ghost width from cells of other ranks."""
        owned = self.owned(rank)
        if owned.is_empty:
            return owned
        low, high = [], []
        for axis in range(self.domain.ndim):
            foreign = self.foreign_sides(rank, axis)
            low.append(self.ghost[axis] if -1 in foreign else 0)
            high.append(self.ghost[axis] if 1 in foreign else 0)
        return RectDomain(owned.lo + Point(low), owned.hi - Point(high))

    def foreign_sides(self, rank: int, axis: int) -> set[int]:
        """Return the sides, -1 and 1, of a rank's block along an axis where other ranks own cells that are ghosts."""
        place = self.place(rank)[axis]
        return {zone.side for zone in self._zones(axis, place) if zone.place != place}

    def rim(self, rank: int) -> IndexSet:
        """Return the cells of a rank that are not inner."""
        owned, inner = self.owned(rank), self.inner(rank)
        return Domain.of(owned) - inner if not owned.is_empty else owned

    def _zones(self, axis: int, place: int) -> list[_Zone]:
        begin, end = self._bounds(axis, place)
        width = self.ghost[axis]
        return [
            *self._cut(axis, -1, begin - width, begin),
            _Zone(0, place, begin, end, 0),
            *self._cut(axis, 1, end, end + width),
        ]

    def _cut(self, axis: int, side: int, begin: int, end: int) -> Iterator[_Zone]:
        """Divide an interval outside of a block by owners, going around a periodic axis as often as needed."""
        first, length = self.domain.lo[axis], self.domain.shape[axis]
        if not self.periodic[axis]:
            begin, end = max(begin, first), min(end, first + length)
        while begin < end:
            turn = (begin - first) // length
            place = self._place_of(axis, begin - turn * length)
            stop = min(end, self._bounds(axis, place)[1] + turn * length)
            yield _Zone(side, place, begin, stop, -turn * length)
            begin = stop

    def _bounds(self, axis: int, place: int) -> tuple[int, int]:
        """First and end coordinate of the blocks at one place of an axis."""
        first, length = self.domain.lo[axis], self.domain.shape[axis]
        small, larger = self._sizes(axis)
        begin, end = (small * n + min(larger, n) for n in (place, place + 1))
        return first + min(begin, length), first + min(end, length)

    def _place_of(self, axis: int, coordinate: int) -> int:
        small, larger = self._sizes(axis)
        distance = coordinate - self.domain.lo[axis]
        if distance < larger * (small + 1):
            return distance // (small + 1)
        return larger + (distance - larger * (small + 1)) // small

    def _sizes(self, axis: int) -> tuple[int, int]:
        """Cells of a block along an axis, and the number of first blocks that have one more."""
        length, count = self.domain.shape[axis], self.grid[axis]
        return divmod(length, count) if self.division == "balanced" else (-(-length // count), 0)


STRIDED_FACE = 4.0
"""Cost of a cell of a face across the contiguous axis, against one of another face: each has its own cache line."""


@functools.cache
def best_grid(shape: tuple[int, ...], ranks: int, ghost: tuple[int, ...], order: MemoryOrder) -> tuple[int, ...]:
    """Return the grid that leaves fewest ranks without cells, and then moves least through ghosts. Local.

    Args:
        shape: cells along each axis.
        ranks: number of all blocks.
        ghost: ghost width of each axis.
        order: memory order: cutting the contiguous axis is dearer, since its faces are strided.
    """
    contiguous = len(shape) - 1 if order == "C" else 0

    def cost(grid: tuple[int, ...]) -> tuple[float, ...]:
        busy = math.prod(min(parts, max(n, 1)) for parts, n in zip(grid, shape, strict=True))
        block = [-(-n // parts) for n, parts in zip(shape, grid, strict=True)]
        surface = 0.0
        for axis, parts in enumerate(grid):
            if parts > 1:
                face = max(ghost[axis], 1) * math.prod(block[:axis] + block[axis + 1 :])
                surface += face * (STRIDED_FACE if axis == contiguous else 1.0)
        cut = sum(parts > 1 for parts in grid)
        # Among equals cut the slowest axis: its faces are the most contiguous ones.
        slow_first = grid if order == "C" else grid[::-1]
        return (-busy, surface, cut, *(-parts for parts in slow_first))

    return min(_factorisations(ranks, len(shape)), key=cost)


def _factorisations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ordered ways to write a number as a product."""
    if parts == 1:
        yield (number,)
        return
    for factor in range(1, number + 1):
        if number % factor == 0:
            for rest in _factorisations(number // factor, parts - 1):
                yield (factor, *rest)


def per_axis(name: str, value: Any, ndim: int, kind: type[T]) -> tuple[T, ...]:
    """Return one value for each axis: given once, or as a sequence. Local.

    Args:
        name: name of the argument, for the error.
        value: the argument.
        ndim: number of axes.
        kind: type of a value.

    Raises:
        UsageError: other values, or another number of them.
    """
    values = tuple(value) if isinstance(value, Sequence | np.ndarray) else (value,) * ndim
    plain = kind is bool or not any(isinstance(item, bool | np.bool_) for item in values)
    if len(values) != ndim or not plain or not all(isinstance(item, _ACCEPTED[kind]) for item in values):
        raise UsageError(f"{name}={value!r}: give one {kind.__name__}, or one for each of the {ndim} axes")
    return tuple(kind(item) for item in values)  # type: ignore[call-arg]


_ACCEPTED: dict[type, Any] = {int: int | np.integer, bool: bool | np.bool_}
