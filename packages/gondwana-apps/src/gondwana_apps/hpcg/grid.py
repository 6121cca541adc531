"""The grid of ranks and the places of a rank's points in the global box (HPCG 3.1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
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
    if not primes:
        return 1, 1, 1
    if len(primes) == 1:
        q, e = primes[0], powers[0]
        return q ** (e // 3 + (e % 3 >= 1)), q ** (e // 3 + (e % 3 >= 2)), q ** (e // 3)
    if len(primes) == 2 and sum(powers) == 2:
        return primes[0], primes[1], 1
    if len(primes) == 2 and sum(powers) == 3:
        return primes[0], primes[1], primes[powers.index(2)]
    if len(primes) == 3 and sum(powers) == 3:
        return primes[0], primes[1], primes[2]
    # `min` keeps the first of those with the same surface, as the benchmark does.
    return min(_triples(primes, powers), key=lambda t: t[0] * t[1] + t[1] * t[2] + t[0] * t[2])


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


def _factors(number: int) -> dict[int, int]:
    """The prime factors of a number and their multiplicities, smallest first."""
    found: dict[int, int] = {}
    prime = 2
    while prime * prime <= number:
        while number % prime == 0:
            found[prime] = found.get(prime, 0) + 1
            number //= prime
        prime += 1
    if number > 1:
        found[number] = found.get(number, 0) + 1
    return found


def _triples(primes: list[int], powers: list[int]) -> Iterator[Triple]:
    """The products of all ways to divide the prime factors in three, in the order of the benchmark."""
    total = math.prod(prime**power for prime, power in zip(primes, powers, strict=True))
    for first in _divisors(primes, powers):
        rest = [power - taken for power, taken in zip(powers, first, strict=True)]
        t1 = _product(primes, first)
        for second in _divisors(primes, rest):
            t2 = _product(primes, second)
            yield t1, t2, total // (t1 * t2)


def _divisors(primes: list[int], powers: list[int]) -> Iterator[tuple[int, ...]]:
    """All exponents up to the given ones but 0, those of the smallest prime counting fastest."""
    for exponents in itertools.product(*(range(power + 1) for power in reversed(powers))):
        if any(exponents):
            yield exponents[::-1]


def _product(primes: list[int], exponents: tuple[int, ...]) -> int:
    return math.prod(prime**power for prime, power in zip(primes, exponents, strict=True))
