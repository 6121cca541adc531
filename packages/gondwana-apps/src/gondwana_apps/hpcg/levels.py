"""The four levels of the benchmark's problem: matrices, right-hand side and exchanges (HPCG 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.hpcg import problem
from gondwana_apps.hpcg.exchange import Links, link
from gondwana_apps.hpcg.grid import Geometry
from gondwana_apps.hpcg.halo import Halo, connect
from gondwana_apps.hpcg.problem import Matrix

LEVELS = 4


@dataclass
class Level:
    """One level on one rank.

    Attributes:
        geometry: of its points.
        matrix: its rows.
        halo: what is exchanged.
        fine: the row of the finer level under each of its rows; empty on the finest.
    """

    geometry: Geometry
    matrix: Matrix
    halo: Halo
    fine: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Rows of this rank."""
        return self.matrix.rows

    @property
    def columns(self) -> int:
        """Own rows and those of other ranks that they reach: the length of a vector that is multiplied."""
        return self.rows + self.halo.size

    @property
    def global_rows(self) -> int:
        """Rows of all ranks together."""
        nx, ny, nz = self.geometry.shape
        return nx * ny * nz

    @property
    def global_nonzeros(self) -> int:
        """Entries of all ranks together."""
        return problem.nonzeros(self.geometry.shape)


@dataclass
class System:
    """The problem of the benchmark on one rank.

    Attributes:
        team: the ranks that share it.
        levels: the finest first.
        right: right-hand side of the finest level; all ones solve it.
        links: the exchanges of all levels.
    """

    team: gw.Team
    levels: list[Level]
    right: NDArray[np.float64]
    links: Links


def build(team: gw.Team, geometry: Geometry) -> System:
    """Make the problem. Collective over team.

    Args:
        team: all ranks of the grid.
        geometry: of the finest level of this rank.
    """
    levels: list[Level] = []
    fine = np.empty(0, np.int64)
    for _ in range(LEVELS):
        levels.append(_level(geometry, fine))
        fine = problem.coarse_to_fine(geometry)
        geometry = geometry.coarser()
    links = link(team, [level.halo for level in levels])
    return System(team, levels, problem.right_hand_side(levels[0].matrix.counts), links)


def _level(geometry: Geometry, fine: NDArray[np.int64]) -> Level:
    values, points, counts = problem.generate(geometry)
    columns, halo = connect(geometry, points, counts)
    diagonal = np.full(geometry.rows, problem.DIAGONAL)
    return Level(geometry, Matrix(values, columns, counts, diagonal), halo, fine)
