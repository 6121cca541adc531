"""The grid of ranks and the places of a rank's points in the global box (HPCG 3.1)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gondwana.errors import UsageError

Triple = tuple[int, int, int]

SMALLEST_RATIO = 0.125
"""Least ratio of the shortest to the longest side, of a local box and of the grid of ranks (HPCG 3.1)."""


@dataclass(frozen=True)
class Zones:
    """The local heights of two zones along z: `lower` for the first `ranks` layers of ranks, `upper` for the others."""

    ranks: int
    lower: int
    upper: int


@dataclass(frozen=True)
class Geometry:
    """The box of one rank among those of all.

    Attributes:
        rank: rank of this box.
        grid: ranks along x, y and z.
        local: points along x, y and z of this rank.
        zones: heights of all layers of ranks.
    """

    rank: int
    grid: Triple
    local: Triple
    zones: Zones

    @property
    def place(self) -> Triple:
        """The place of this rank in the grid."""
        npx, npy, _ = self.grid
        return self.rank % npx, self.rank // npx % npy, self.rank // (npx * npy)

    @property
    def shape(self) -> Triple:
        """Points along x, y and z of the global box."""
        (npx, npy, npz), (nx, ny, _) = self.grid, self.local
        return npx * nx, npy * ny, self._planes_below(npz)

    @property
    def origin(self) -> Triple:
        """The global coordinates of the first point of this rank."""
        (px, py, pz), (nx, ny, _) = self.place, self.local
        return px * nx, py * ny, self._planes_below(pz)

    @property
    def rows(self) -> int:
        """Points of this rank."""
        return math.prod(self.local)

    def coarser(self) -> Geometry:
        """The geometry of every second point along each axis."""
        nx, ny, nz = (side // 2 for side in self.local)
        zones = Zones(self.zones.ranks, self.zones.lower // 2, self.zones.upper // 2)
        return Geometry(self.rank, self.grid, (nx, ny, nz), zones)

    def locate(self, points: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rank that owns each global point, and its number there. Local.

        Args:
            points: numbers `x + gnx*(y + gny*z)`.
        """
        (gnx, gny, _), (npx, npy, _), (nx, ny, _) = self.shape, self.grid, self.local
        x, y, z = points % gnx, points // gnx % gny, points // (gnx * gny)
        below = self.zones.ranks * self.zones.lower
        is_lower = z < below
        height = np.where(is_lower, self.zones.lower, self.zones.upper)
        z = np.where(is_lower, z, z - below)
        layer = z // height + np.where(is_lower, 0, self.zones.ranks)
        owner = x // nx + npx * (y // ny + npy * layer)
        return owner, x % nx + nx * (y % ny + ny * (z % height))

    def _planes_below(self, layer: int) -> int:
        lower = min(layer, self.zones.ranks)
        return lower * self.zones.lower + (layer - lower) * self.zones.upper


def geometry(rank: int, grid: Triple, local: Triple, zones: Zones | None = None) -> Geometry:
    """Place a rank. Local.

    Args:
        rank: rank of the box.
        grid: ranks along x, y and z.
        local: points along x, y and z of a rank; z only without zones.
        zones: heights that differ along z; None: all are alike.
    """
    zones = zones or Zones(grid[2], local[2], local[2])
    layer = rank // (grid[0] * grid[1])
    height = zones.lower if layer < zones.ranks else zones.upper
    return Geometry(rank, grid, (local[0], local[1], height), zones)


def choose_grid(ranks: int) -> Triple:
    """Divide ranks among x, y and z as HPCG 3.1 does: by their prime factors, smallest surface first. Local.

    Example:
        >>> choose_grid(4), choose_grid(12), choose_grid(72)
        ((2, 2, 1), (2, 3, 2), (4, 3, 6))
    """
    factors = _factors(ranks)
    primes, powers = list(factors), list(factors.values())
    if len(primes) <= 1:
        prime, power = (primes or [1])[0], sum(powers)
        return prime ** ((power + 2) // 3), prime ** ((power + 1) // 3), prime ** (power // 3)
    if len(primes) == 2 and sum(powers) == 3:
        return primes[0], primes[1], primes[powers.index(2)]
    divisors = [1]
    for prime, power in factors.items():
        divisors = [divisor * prime**taken for taken in range(power + 1) for divisor in divisors]
    grids = [(x, y, ranks // (x * y)) for x in divisors[1:] for y in divisors[1:] if ranks % (x * y) == 0]
    # `min` keeps the first of those with the same surface, and the order is that of the benchmark.
    return min(grids, key=lambda grid: grid[0] * grid[1] + grid[1] * grid[2] + grid[0] * grid[2])


def check_aspect(what: str, sides: Triple) -> None:
    """Refuse a box that is too long for its width. Local.

    Raises:
        UsageError: the box is too long; the message names the sides and what is legal.
    """
    if min(sides) < SMALLEST_RATIO * max(sides):
        raise UsageError(
            f"hpcg: {what} {'x'.join(map(str, sides))} is too long: the shortest side must be at least 1/8 of the "
            f"longest; {'start another number of ranks or give --npx --npy --npz' if 'ranks' in what else 'change it'}"
        )


def _factors(number: int) -> Counter[int]:
    """The prime factors of a number and their multiplicities, smallest first."""
    found: Counter[int] = Counter()
    prime = 2
    while number > 1:
        if number % prime:
            prime += 1
        else:
            found[prime] += 1
            number //= prime
    return found
