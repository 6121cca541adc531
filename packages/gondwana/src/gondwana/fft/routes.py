"""The ways of a transform: divisions of the box, on each of which the axes that are whole are transformed.

Pure values, the same on every rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gondwana.arrays.layout import factorisations


@dataclass(frozen=True)
class Stage:
    """One division, and what is transformed there.

    Attributes:
        grid: blocks along each axis.
        axes: axes that are transformed.
    """

    grid: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The axes in the order of memory, the contiguous one last: lines of the transformed axes lie close together.

        The last axis stays the last, so that copies between two divisions move rows.
        """
        last = len(self.grid) - 1
        others = [axis for axis in range(last) if axis not in self.axes]
        return (*others, *sorted(set(self.axes) - {last}), last)


Route: TypeAlias = tuple[Stage, ...]
"""The stages from space to wave numbers; the inverse goes through them backwards."""

_Ways: TypeAlias = dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], Route]]


def routes(
    shape: Sequence[int], home: tuple[int, ...], axes: tuple[int, ...], *, real: bool, transposed: bool
) -> list[Route]:
    """Return the routes that move least, the best one for each number of stages, the best of all first. Local.

    Args:
        shape: elements of the spectrum along each axis.
        home: grid of the array in space.
        axes: axes that are transformed.
        real: whether the array is real: the last of the axes is then transformed first.
        transposed: whether the result stays where the last stage leaves it; False: it returns to the first division.

    Example:
        >>> routes((8, 8, 8), (2, 1, 1), (0, 1, 2), real=False, transposed=False)
        [(Stage(grid=(1, 2, 1), axes=(0, 2)), Stage(grid=(2, 1, 1), axes=(1,)))]
    """
    if len(shape) == 1:
        return [(Stage(home, axes),)]  # one axis is whole on the first rank only
    nothing = (0,) * (3 + len(shape))
    grids = list(factorisations(math.prod(home), len(shape)))

    def cost(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
        """Elements of the largest block, which a copy moves, and the blocks it comes from; then, prefer slow axes."""
        block = math.prod(-(-n // parts) for n, parts in zip(shape, after, strict=True))
        peers = math.prod(-(-many // few) for many, few in zip(before, after, strict=True))
        return (block, peers, int(after[-1] > 1), *(-parts for parts in after)) if before != after else nothing

    def whole(grid: tuple[int, ...], left: tuple[int, ...]) -> tuple[int, ...]:
        """The axes that can be transformed next."""
        found = tuple(axis for axis in left if grid[axis] == 1)
        return () if real and left == axes and axes[-1] not in found else found

    # The cheapest way to each grid with the axes that are left there, for one number of stages after the other.
    ways: _Ways = {(grid, axes): (cost(home, grid), ()) for grid in grids if whole(grid, axes)}
    found: list[tuple[tuple[int, ...], Route]] = []
    while ways:
        ended: list[tuple[tuple[int, ...], Route]] = []
        further: _Ways = {}
        for (grid, before), (spent, stages) in ways.items():
            done = whole(grid, before)
            route, left = (*stages, Stage(grid, done)), tuple(axis for axis in before if axis not in done)
            if not left:
                ended.append((spent if transposed else _sum(spent, cost(grid, home)), route))
            for other in grids:
                if whole(other, left):
                    way = _sum(spent, cost(grid, other)), route
                    if (other, left) not in further or way[0] < further[other, left][0]:
                        further[other, left] = way
        found += sorted(ended, key=lambda way: way[0])[:1]
        ways = further
    return [route for _, route in sorted(found, key=lambda way: way[0])]


def _sum(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(first, second, strict=True)))
