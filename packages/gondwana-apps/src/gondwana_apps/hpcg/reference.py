"""The reference path: plain kernels, rows in natural order, one exchange before each (HPCG 3.1). None uses threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import solvers
from gondwana_apps.hpcg.problem import LEVELS, System
from gondwana_apps.hpcg.solution import Solution

Vector = NDArray[np.float64]


@gw.jit
def update(halo: Any, vector: Any) -> None:
    """Update the end of a vector, which holds entries of other ranks. Collective over the neighbours."""
    solvers.send(halo, vector)
    halo.plan.wait()
    rows = len(vector) - len(halo.received)
    for place in range(len(halo.received)):
        vector[rows + place] = halo.received[place]


@gw.jit
def multiply(values: Any, columns: Any, x: Any, y: Any) -> None:
    """Compute y = A x."""
    for row in range(len(values)):
        total = 0.0
        for place in range(27):
            total += values[row, place] * x[columns[row, place]]
        y[row] = total


@gw.jit
def smooth(values: Any, columns: Any, diagonal: Any, right: Any, x: Any) -> None:
    """Solve each row for its unknown with the latest of all others: first to last, then last to first (SYMGS)."""
    rows = len(values)
    for step in range(2 * rows):
        row = step if step < rows else 2 * rows - 1 - step
        total = right[row]
        for place in range(27):
            total -= values[row, place] * x[columns[row, place]]
        total += x[row] * diagonal[row]
        x[row] = total / diagonal[row]


@gw.jit
def restrict(fine: Any, right: Any, product: Any, coarse: Any) -> None:
    """Take the residual at the points of the coarser level."""
    for row in range(len(fine)):
        coarse[row] = right[fine[row]] - product[fine[row]]


@gw.jit
def prolong(fine: Any, correction: Any, x: Any) -> None:
    """Add the correction of the coarser level at its points."""
    for row in range(len(fine)):
        x[fine[row]] += correction[row]


@gw.jit
def dot(x: Any, y: Any, rows: int) -> float:
    """The sum of the products of this rank."""
    total = 0.0
    for row in range(rows):
        total += x[row] * y[row]
    return total


@gw.jit
def combine(alpha: float, x: Any, beta: float, y: Any, w: Any, rows: int) -> None:
    """Compute w = alpha x + beta y (WAXPBY)."""
    for row in range(rows):
        w[row] = alpha * x[row] + beta * y[row]


class Reference:
    """Products, smoothing and conjugate gradients as the benchmark defines them. Collective over the team.

    Args:
        system: the problem.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        finest = system.levels[0]
        self._coarse_right = [np.zeros(level.rows) for level in system.levels]
        self._coarse_x = [np.zeros(level.columns) for level in system.levels]
        self._product = [np.zeros(level.rows) for level in system.levels]
        self._r, self._ap = np.zeros(finest.rows), np.zeros(finest.rows)
        self._z, self._p = np.zeros(finest.columns), np.zeros(finest.columns)

    def multiply(self, x: Vector, y: Vector, level: int = 0) -> None:
        """Compute y = A x, and update the end of x, which holds entries of other ranks."""
        matrix = self.system.levels[level].matrix
        update(self.system.levels[level].halo, x)
        multiply(matrix.values, matrix.columns, x, y)

    def precondition(self, right: Vector, x: Vector, level: int = 0) -> None:
        """Approximate the solution x of A x = right by one cycle of multigrid."""
        x[:] = 0.0
        self._smooth(right, x, level)
        if level == LEVELS - 1:
            return
        fine = self.system.levels[level + 1].fine
        coarse_right, coarse_x = self._coarse_right[level + 1], self._coarse_x[level + 1]
        self.multiply(x, self._product[level], level)
        restrict(fine, right, self._product[level], coarse_right)
        self.precondition(coarse_right, coarse_x, level + 1)
        prolong(fine, coarse_x, x)
        self._smooth(right, x, level)

    def _smooth(self, right: Vector, x: Vector, level: int) -> None:
        matrix = self.system.levels[level].matrix
        update(self.system.levels[level].halo, x)
        smooth(matrix.values, matrix.columns, matrix.diagonal, right, x)

    def solve(
        self, right: Vector, x: Vector, iterations: int, tolerance: float = 0.0, *, preconditioned: bool = True
    ) -> Solution:
        """Improve x by conjugate gradients.

        Args:
            right: right-hand side.
            x: start, and result; with space for entries of other ranks.
            iterations: most iterations.
            tolerance: norm of the residual, relative to that at the start, at which to stop.
            preconditioned: whether to precondition by multigrid.
        """
        rows, (r, z, p, ap) = self.system.levels[0].rows, (self._r, self._z, self._p, self._ap)
        p[:rows] = x[:rows]
        self.multiply(p, ap)
        combine(1.0, right, -1.0, ap, r, rows)
        first = norm = math.sqrt(self._dot(r, r))
        rtz, done = 0.0, 0
        while done < iterations and norm > tolerance * first:
            self.precondition(r, z) if preconditioned else z.__setitem__(slice(rows), r)
            before, rtz = rtz, self._dot(r, z)
            combine(1.0, z, rtz / before if done else 0.0, p, p, rows)
            self.multiply(p, ap)
            alpha = rtz / self._dot(p, ap)
            combine(1.0, x, alpha, p, x, rows)
            combine(1.0, r, -alpha, ap, r, rows)
            norm = math.sqrt(self._dot(r, r))
            done += 1
        return Solution(done, first, norm)

    def _dot(self, x: Vector, y: Vector) -> float:
        return float(self.system.team.allreduce(dot(x, y, self.system.levels[0].rows)))
