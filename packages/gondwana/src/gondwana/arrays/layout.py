"""The division of a domain over ranks, and the sources of its ghost cells. Pure values, the same on every rank."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import MemoryOrder
from gondwana.arrays.cuts import Cuts, balanced_widths, checked_cuts, per_axis
from gondwana.domains import Domain, IndexSet, Point, PointLike, RectDomain
from gondwana.domains.point import as_point
from gondwana.errors import UsageError

Division = Literal["balanced", "ceil"]
"""How an axis is cut: sizes differ by one at most, or all blocks but those at the end are as large as the first."""


_LARGEST_TABLE = 1 << 20
"""Most coordinates of an axis whose owners are looked up in a table, in a tenth of the time of a search."""


Points: TypeAlias = "npt.NDArray[np.integer[Any]] | tuple[npt.NDArray[np.integer[Any]], ...]"
"""Coordinates of many points: an array whose last axis is that of the coordinates, or an array for each axis."""


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
        division: division of the axes that have no cuts.
        cuts: widths of the blocks along each axis, None for an axis without; None: no axis has any.

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
    cuts: Cuts | None = None

    @classmethod
    def divide(
        cls,
        domain: RectDomain | PointLike,
        ranks: int,
        *,
        ghost: int | Sequence[int] = 0,
        periodic: bool | Sequence[bool] = False,
        grid: Sequence[int] | None = None,
        cuts: Sequence[Sequence[int] | None] | None = None,
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
            cuts: for each axis the widths of its blocks, 0 or more cells each, which add up to its extent; None for an
                axis that `division` cuts. The grid has as many blocks along an axis as it has widths.
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
            >>> uneven = gw.Layout.divide((10, 8), 4, cuts=((7, 3), None))
            >>> uneven.grid, uneven.owned(3)
            ((2, 2), RectDomain((7, 4), (10, 8)))
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
        given = None if cuts is None else checked_cuts(cuts, box.shape)
        if grid is not None:
            blocks = per_axis("grid", grid, box.ndim, int)
        elif given is None:
            blocks = best_grid(box.shape, ranks, widths, order)
        else:
            blocks = best_grid(
                box.shape, ranks, widths, order, tuple(None if axis is None else len(axis) for axis in given)
            )
        if math.prod(blocks) != ranks or min(blocks) < 1:
            raise UsageError(
                f"grid={blocks} has {math.prod(blocks)} blocks for {ranks} ranks: "
                "give positive numbers whose product is the number of ranks, or leave it out"
            )
        if given and any(axis is not None and len(axis) != n for axis, n in zip(given, blocks, strict=True)):
            raise UsageError(f"grid={blocks} and cuts={cuts!r}: give as many widths as blocks, or leave out the grid")
        return cls(box, blocks, widths, closed, order, division, given)

    def _repr_html_(self) -> str:
        from gondwana.arrays import drawing

        return drawing.shown(self)

    def balanced(self, weights: Sequence[npt.ArrayLike | None]) -> Layout:
        """Return the layout with the same grid whose blocks have weights as equal as possible. Local.

        Each axis is cut on its own: the largest weight of a block along it is the smallest that is possible.

        Args:
            weights: for each axis the weight of each of its coordinates, 0 or more; None: the axis stays as it is.

        Raises:
            UsageError: a weight is negative, their sum is not finite, or their number is another one.

        Example:
            >>> import gondwana as gw
            >>> gw.Layout.divide(8, 2).balanced([[9, 1, 1, 1, 1, 1, 1, 1]]).cuts
            ((1, 7),)
        """
        if not isinstance(weights, Sequence) or len(weights) != self.domain.ndim:
            raise UsageError(
                f"balanced got weights of type {type(weights).__name__}: give a list with the weights of the "
                f"coordinates along each of the {self.domain.ndim} axes, or None"
            )
        cuts = [
            self._widths(axis) if given is None else balanced_widths(axis, given, length, parts)
            for axis, (given, length, parts) in enumerate(zip(weights, self.domain.shape, self.grid, strict=True))
        ]
        return dataclasses.replace(self, cuts=tuple(cuts) if any(cuts) else None)

    def staggered(self, *axes: int) -> Layout:
        """Return the layout of what lies between the cells along some axes: faces, edges or nodes. Local.

        Along each of the axes, face i lies between the cells i - 1 and i and belongs to the owner of cell i. Where the
        domain ends, there is one face more than cells: it belongs to the last block that has cells. A periodic axis has
        as many faces as cells, since its last face is the first one. Everything else is as in this layout, so arrays of
        both have the same blocks but for that last face.

        Args:
            *axes: one for the faces across an axis (the velocity along it in a grid of Arakawa's type C); two for the
                edges along the third axis in three dimensions; all for the nodes.

        Raises:
            UsageError: an axis does not exist, or is given twice.

        Example:
            >>> import gondwana as gw
            >>> cells = gw.Layout.divide((8, 4), 2, ghost=1, periodic=(False, True))
            >>> cells.owned(1), cells.staggered(0).owned(1), cells.staggered(1) == cells
            (RectDomain((4, 0), (8, 4)), RectDomain((4, 0), (9, 4)), True)
        """
        if len(set(axes)) < len(axes) or not set(axes) <= set(range(self.domain.ndim)):
            raise UsageError(f"staggered{axes}: give axes from 0 to {self.domain.ndim - 1}, each once")
        high, cuts = list(self.domain.hi), list(self.cuts or (None,) * self.domain.ndim)
        for axis in axes:
            if not self.periodic[axis]:
                widths = self.widths(axis)
                widths[max(place for place, width in enumerate(widths) if width)] += 1
                high[axis], cuts[axis] = high[axis] + 1, tuple(widths)
        domain = RectDomain(self.domain.lo, high)
        return dataclasses.replace(self, domain=domain, cuts=tuple(cuts) if any(cuts) else None)

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

    @overload
    def owner(self, point: Points) -> npt.NDArray[np.int32]: ...  # type: ignore[overload-overlap]  # arrays come first
    @overload
    def owner(self, point: PointLike) -> int: ...
    def owner(self, point: PointLike | Points) -> int | npt.NDArray[np.int32]:
        """Return the rank that owns a cell, or those that own each of many. Local.

        Coordinates along a periodic axis may lie outside of the domain: they go around it.

        Args:
            point: a point; or many: an ndarray of integers whose last axis has a coordinate for each axis of the
                domain, or a tuple of one ndarray for each axis.

        Returns:
            The rank; for many points an ndarray of int32 with their shape, to be given to `gw.migrate`.

        Raises:
            UsageError: a point is not in the domain; the message has the first one.

        Example:
            >>> import gondwana as gw, numpy as np
            >>> layout = gw.Layout.divide(10, 4, periodic=True)
            >>> layout.owner(9), layout.owner(np.array([[0], [5], [9], [10]]))
            (3, array([0, 1, 3, 0], dtype=int32))
        """
        many = _coordinates_of(point, self.domain.ndim)
        if many is None:
            cell = as_point(point, self.domain.ndim)
            inside = Point(map(self._around, range(len(cell)), cell))
            if inside not in self.domain:
                raise UsageError(f"{cell!r} is not in {self.domain!r}")
            return self.rank(tuple(map(self._place_of, range(len(cell)), inside)))
        found = np.zeros(many[0].shape, np.int32)
        for axis, values in enumerate(many):
            first, end = self.domain.lo[axis], self.domain.hi[axis]
            if values.size and (values.min() < first or values.max() >= end):
                values = self._around(axis, values)
                if not self.periodic[axis]:
                    bad = np.flatnonzero((values < first) | (values >= end))[0]
                    cell = Point(int(one.flat[bad]) for one in many)
                    raise UsageError(f"{cell!r}, point {bad} of {values.size}, is not in {self.domain!r}")
            if self.grid[axis] > 1:
                found *= self.grid[axis]
                found += self._places(axis, values - first)
        return found

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

    def _around(self, axis: int, coordinate: Any) -> Any:
        """Coordinates of the same cells within the domain, along a periodic axis."""
        first, length = self.domain.lo[axis], self.domain.shape[axis]
        return (coordinate - first) % length + first if self.periodic[axis] else coordinate

    def widths(self, axis: int) -> list[int]:
        """Return the widths of the blocks along an axis. Local."""
        return [end - begin for begin, end in (self._bounds(axis, place) for place in range(self.grid[axis]))]

    def _bounds(self, axis: int, place: int) -> tuple[int, int]:
        """First and end coordinate of the blocks at one place of an axis."""
        first, length = self.domain.lo[axis], self.domain.shape[axis]
        widths = self._widths(axis)
        if widths is not None:
            end = sum(widths[: place + 1])
            return first + end - widths[place], first + end
        small, larger = self._sizes(axis)
        begin, end = (small * n + min(larger, n) for n in (place, place + 1))
        return first + min(begin, length), first + min(end, length)

    def _place_of(self, axis: int, coordinate: int) -> int:
        distance = coordinate - self.domain.lo[axis]
        widths = self._widths(axis)
        if widths is not None:
            return bisect.bisect_right(list(itertools.accumulate(widths)), distance)
        small, larger = self._sizes(axis)
        if distance < larger * (small + 1):
            return distance // (small + 1)
        return larger + (distance - larger * (small + 1)) // small

    def _places(self, axis: int, distances: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int32]:
        """The places along an axis of coordinates, given from the start of the domain."""
        ends = [self._bounds(axis, place)[1] - self.domain.lo[axis] for place in range(self.grid[axis])]
        if ends[-1] > _LARGEST_TABLE:
            return np.searchsorted(ends, distances, "right").astype(np.int32)
        table = np.repeat(np.arange(len(ends), dtype=np.int32), np.diff(ends, prepend=0))
        places: npt.NDArray[np.int32] = table[distances]
        return places

    def _widths(self, axis: int) -> tuple[int, ...] | None:
        """The cuts of an axis, if it has any."""
        return None if self.cuts is None else self.cuts[axis]

    def _sizes(self, axis: int) -> tuple[int, int]:
        """Cells of a block along an axis, and the number of first blocks that have one more."""
        length, count = self.domain.shape[axis], self.grid[axis]
        return divmod(length, count) if self.division == "balanced" else (-(-length // count), 0)


STRIDED_FACE = 4.0
"""Cost of a cell of a face across the contiguous axis, against one of another face: each has its own cache line."""


@functools.cache
def best_grid(
    shape: tuple[int, ...],
    ranks: int,
    ghost: tuple[int, ...],
    order: MemoryOrder,
    given: tuple[int | None, ...] | None = None,
) -> tuple[int, ...]:
    """Return the grid that leaves fewest ranks without cells, and then moves least through ghosts. Local.

    Args:
        shape: cells along each axis.
        ranks: number of all blocks.
        ghost: ghost width of each axis.
        order: memory order: cutting the contiguous axis is dearer, since its faces are strided.
        given: blocks along each axis, None where the number is free.

    Raises:
        UsageError: the numbers of blocks that are given do not fit the number of ranks.
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

    wanted = given or (None,) * len(shape)
    grids = factorisations(ranks, len(shape))
    fitting = [grid for grid in grids if all(n in (None, parts) for n, parts in zip(wanted, grid, strict=True))]
    if not fitting:
        raise UsageError(
            f"cuts with {' x '.join('any' if n is None else str(n) for n in wanted)} blocks for {ranks} ranks: give "
            "numbers of widths whose product is the number of ranks, or divides it if an axis has none"
        )
    return min(fitting, key=cost)


def factorisations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ordered ways to write a number as a product."""
    if parts == 1:
        yield (number,)
        return
    for factor in range(1, number + 1):
        if number % factor == 0:
            for rest in factorisations(number // factor, parts - 1):
                yield (factor, *rest)


def _coordinates_of(points: Any, ndim: int) -> tuple[npt.NDArray[np.integer[Any]], ...] | None:
    """The coordinates of many points along each axis; None for a single point."""
    if isinstance(points, tuple | list) and points and all(isinstance(one, np.ndarray) and one.ndim for one in points):
        many = tuple(points)
    elif isinstance(points, np.ndarray) and points.ndim > 1 and points.shape[-1] == ndim:
        many = tuple(points[..., axis] for axis in range(ndim))
    elif isinstance(points, np.ndarray) and points.ndim > 1:
        many = ()
    else:
        return None
    if len(many) != ndim or len({one.shape for one in many}) != 1 or any(one.dtype.kind not in "iu" for one in many):
        raise UsageError(
            f"owner of {_spelled(points)}: give integers, an ndarray whose last axis has {ndim} coordinates or a tuple "
            f"of {ndim} ndarrays of one shape"
        )
    return many


def _spelled(points: Any) -> str:
    parts = [points] if isinstance(points, np.ndarray) else points
    return " and ".join(f"an array of {part.dtype} of shape {part.shape}" for part in parts)
