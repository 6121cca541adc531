"""The division of the levels over ranks. Pure values, the same on every rank."""

from __future__ import annotations

import math
from dataclasses import dataclass

import gondwana as gw

AXES = (0, 1, 2)


@dataclass(frozen=True)
class Division:
    """Blocks of one level.

    A coarse cell lies with its fine ones: the blocks of the coarsest divided level are as equal as can be, and those of
    finer levels the same blocks with twice, four times, ... as many cells along each side.

    Attributes:
        cells: number of cells along each side of the level.
        grid: blocks along each axis; rank r has the block whose place is r in row-major order.
        coarsest: number of cells along each side of the coarsest divided level.
    """

    cells: int
    grid: tuple[int, int, int]
    coarsest: int

    @property
    def ranks(self) -> int:
        """Number of ranks with a block; the later ranks have none."""
        return math.prod(self.grid)

    def place(self, rank: int) -> tuple[int, int, int]:
        """The place of a rank's block in the grid."""
        rest, i = divmod(rank, self.grid[2])
        k, j = divmod(rest, self.grid[1])
        return k, j, i

    def owned(self, rank: int) -> gw.RectDomain:
        """The cells of a rank, perhaps none."""
        if rank >= self.ranks:
            return gw.RectDomain((0,) * 3, (0,) * 3)
        block = gw.RectDomain((0,) * 3, (self.coarsest,) * 3).subblock(self.grid, self.place(rank))
        times = self.cells // self.coarsest
        return gw.RectDomain(block.lo * times, block.hi * times)

    def held(self, rank: int) -> gw.RectDomain:
        """The cells of a rank with a layer of ghosts around them."""
        owned = self.owned(rank)
        return owned if owned.is_empty else owned.accrete(1)


def process_grid(ranks: int) -> tuple[int, int, int]:
    """Blocks along each axis, the slowest first. Local.

    For powers of two as in NPB 3.4: the slowest axis is halved first, then the second one, then the fastest, and
    again. For other numbers the grid of the library, which moves least.
    """
    doublings = ranks.bit_length() - 1
    if ranks != 1 << doublings:
        pz, py, px = gw.Layout.divide((ranks**3,) * 3, ranks, ghost=1).grid
        return pz, py, px
    x = doublings // 3
    y = (doublings - x) // 2
    return 1 << (doublings - x - y), 1 << y, 1 << x


@dataclass(frozen=True)
class Plan:
    """The ranks that work, and the levels on which they do.

    Attributes:
        grid: grid of the blocks.
        coarsest: number of the coarsest level with blocks; if there are several ranks, it and the coarser ones are
            solved by rank 0 alone.
    """

    grid: tuple[int, int, int]
    coarsest: int

    @property
    def ranks(self) -> int:
        """Number of ranks that work."""
        return math.prod(self.grid)

    @classmethod
    def of(cls, levels: int, ranks: int, side: int) -> Plan:
        """Divide levels 1 to `levels`. Local.

        Args:
            levels: number of the finest level.
            ranks: number of ranks; those that would get too small blocks do not work.
            side: average number of cells along each side of blocks from which on a level is divided.
        """
        for working in range(ranks, 1, -1):
            grid = process_grid(working)
            finest = levels - 1
            while finest > 1 and (1 << finest) >= side * max(grid):
                finest -= 1
            if (1 << levels) >= side * max(grid):
                return cls(grid, finest)
        return cls((1, 1, 1), 1)
