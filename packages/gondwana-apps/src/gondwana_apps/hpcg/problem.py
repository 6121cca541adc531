"""The benchmark's problem: matrices, right-hand side and exchanges of four levels (HPCG 3.1).

A row has an entry for each of 27 points, 26 on the diagonal and -1 beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import solvers
from gondwana_apps.hpcg.columns import local_columns
from gondwana_apps.hpcg.grid import Geometry

LEVELS = 4
WIDTH = 27
"""Places for the entries of a row."""
DIAGONAL = 26.0


@dataclass
class Matrix:
    """The rows of one rank, as an unstructured matrix: places of a row without an entry have the value 0 in its column.

    Attributes:
        values: values of the entries (float64, rows x 27).
        columns: local numbers of their columns (uint32, rows x 27); from `rows` on, those of other ranks.
        counts: numbers of entries of each row (uint8).
        diagonal: diagonal element of each row (float64).
    """

    values: NDArray[np.float64]
    columns: NDArray[np.uint32]
    counts: NDArray[np.uint8]
    diagonal: NDArray[np.float64]

    @property
    def rows(self) -> int:
        """Rows of this rank."""
        return len(self.counts)


@dataclass
class Level:
    """One level on one rank.

    Attributes:
        geometry: geometry of its points.
        matrix: rows of the level.
        halo: entries of vectors that the level needs from other ranks.
        fine: the row of the finer level under each of its rows; empty on the finest.
    """

    geometry: Geometry
    matrix: Matrix
    halo: solvers.Halo
    fine: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Rows of this rank."""
        return self.matrix.rows

    @property
    def columns(self) -> int:
        """Own rows and those of other ranks that they reach: the length of a vector that is multiplied."""
        return self.rows + len(self.halo.received)


@dataclass
class System:
    """The problem of the benchmark on one rank.

    Attributes:
        team: the ranks that share it.
        levels: levels, the finest first.
        right: right-hand side of the finest level; all ones solve it.
    """

    team: gw.Team
    levels: list[Level]
    right: NDArray[np.float64]


def build(team: gw.Team, geometry: Geometry) -> System:
    """Make the problem. Collective over team.

    Args:
        team: all ranks of the grid.
        geometry: geometry of the finest level of this rank.
    """
    levels: list[Level] = []
    fine = np.empty(0, np.int64)
    for _ in range(LEVELS):
        values, points, counts = generate(geometry)
        columns, owners, numbers = local_columns(geometry, points, counts)
        matrix = Matrix(values, columns, counts, np.full(geometry.rows, DIAGONAL))
        levels.append(Level(geometry, matrix, solvers.connect(team, owners, numbers), fine))
        fine = coarse_to_fine(geometry)
        geometry = geometry.coarser()
    return System(team, levels, right_hand_side(levels[0].matrix.counts))


@gw.jit
def fill(values: Any, points: Any, counts: Any, sides: Any, origin: Any, shape: Any) -> None:
    """Write the rows of a box, with the global numbers of their columns in ascending order."""
    row = 0
    for z in range(origin[2], origin[2] + sides[2]):
        for y in range(origin[1], origin[1] + sides[1]):
            for x in range(origin[0], origin[0] + sides[0]):
                own = x + shape[0] * (y + shape[1] * z)
                count = 0
                for oz in range(max(z - 1, 0), min(z + 2, shape[2])):
                    for oy in range(max(y - 1, 0), min(y + 2, shape[1])):
                        for ox in range(max(x - 1, 0), min(x + 2, shape[0])):
                            point = ox + shape[0] * (oy + shape[1] * oz)
                            points[row, count] = point
                            values[row, count] = 26.0 if point == own else -1.0
                            count += 1
                counts[row] = count
                for place in range(count, 27):
                    points[row, place] = own
                    values[row, place] = 0.0
                row += 1


def generate(geometry: Geometry) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.uint8]]:
    """Make the rows of a rank: values, global numbers of the columns, and entries of each row. Local."""
    rows = geometry.rows
    values, points = np.empty((rows, WIDTH)), np.empty((rows, WIDTH), np.int64)
    counts = np.empty(rows, np.uint8)
    fill(values, points, counts, geometry.local, geometry.origin, geometry.shape)
    return values, points, counts


def right_hand_side(counts: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The right-hand side for which all ones solve the system: 27 - entries. Local."""
    return DIAGONAL + 1.0 - counts.astype(np.float64)


def coarse_to_fine(fine: Geometry) -> NDArray[np.int64]:
    """The number of the fine point under each coarse one. Local."""
    nx, ny, nz = fine.local
    z, y, x = np.meshgrid(*(np.arange(0, side, 2) for side in (nz, ny, nx)), indexing="ij")
    return (x + nx * (y + ny * z)).ravel()


def nonzeros(shape: tuple[int, int, int]) -> int:
    """Entries of the matrix of a global box.

    Example:
        >>> nonzeros((104, 104, 104))
        29791000
    """
    return (3 * shape[0] - 2) * (3 * shape[1] - 2) * (3 * shape[2] - 2)
