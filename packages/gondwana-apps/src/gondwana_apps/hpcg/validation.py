"""The benchmark's tests of an optimised path, and stricter ones (HPCG 3.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gondwana_apps.hpcg.problem import System
from gondwana_apps.hpcg.solver import Optimised

Vector = NDArray[np.float64]

EXPECTED_PLAIN, EXPECTED_PRECONDITIONED = 12, 2
LARGEST_VARIANCE = 1e-6
STRICT = 1e-12
"""Departure from symmetry relative to the form itself that our own test allows: rounding of long sums."""

_SCALE = 1e6
_SPECIAL = 9
"""The number of first rows, whose diagonals become distinct eigenvalues."""
_TOLERANCE, _MOST = 1e-12, 50


@dataclass
class Spectral:
    """TestCG: conjugate gradients need as many iterations as the matrix has distinct eigenvalues.

    Attributes:
        plain: iterations and scaled residual of each run without preconditioner.
        preconditioned: the same with it.
    """

    plain: list[tuple[int, float]] = field(default_factory=list)
    preconditioned: list[tuple[int, float]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether no run took more iterations than expected."""
        return self.most(self.plain) <= EXPECTED_PLAIN and self.most(self.preconditioned) <= EXPECTED_PRECONDITIONED

    @staticmethod
    def most(runs: Sequence[tuple[int, float]]) -> int:
        """The most iterations of a run."""
        return max(iterations for iterations, _ in runs)


@dataclass(frozen=True)
class Symmetry:
    """TestSymmetry: departures scaled as the benchmark does, and relative to the form itself.

    Attributes:
        multiply, precondition: departures of the product and of the multigrid cycle, scaled; at most 1 is a pass.
        strict: larger departure, relative.
        residual: largest difference of A times ones and the right-hand side; 0 is expected.
    """

    multiply: float = math.nan
    precondition: float = math.nan
    strict: float = math.nan
    residual: float = math.nan

    @property
    def passed(self) -> bool:
        """Whether both scaled departures are at most 1."""
        return self.multiply <= 1.0 and self.precondition <= 1.0


@dataclass(frozen=True)
class Norms:
    """TestNorms: the scaled residuals of all sets agree."""

    mean: float = math.nan
    variance: float = math.nan

    @property
    def passed(self) -> bool:
        """Whether the variance is small; a NaN is not."""
        return self.variance < LARGEST_VARIANCE


def spectral(solver: Optimised) -> Spectral:
    """Run TestCG. Collective over the team."""
    system = solver.system
    geometry, original = system.levels[0].geometry, system.levels[0].matrix.diagonal
    diagonal, right = original * _SCALE, system.right * _SCALE
    special = np.arange(_SPECIAL)
    owners, rows = geometry.locate(special)
    own = owners == geometry.rank
    diagonal[rows[own]] = right[rows[own]] = (special[own] + 2.0) * _SCALE
    found = Spectral()
    solver.replace_diagonal(diagonal)
    for runs, preconditioned in ((found.plain, False), (found.preconditioned, True)):
        for _ in range(2):
            x = np.zeros(len(right))
            solution = solver.solve(right, x, _MOST, _TOLERANCE, preconditioned=preconditioned)
            runs.append((solution.iterations, solution.scaled))
    solver.replace_diagonal(original)
    return found


def symmetry(solver: Optimised) -> Symmetry:
    """Run TestSymmetry with random vectors. Collective over the team."""
    system = solver.system
    rows = system.levels[0].rows
    generator = np.random.default_rng(system.levels[0].geometry.rank)
    x, y = 1.0 + generator.random(rows), 1.0 + generator.random(rows)
    # |A| is taken as twice the diagonal, and the norms are squared, as in the benchmark.
    unit = 2.0 * 52.0 * _dot(system, x, x) * _dot(system, y, y) * np.finfo(np.float64).eps
    departures, relative = [], []
    apply: tuple[Callable[[Vector, Vector], None], ...] = (solver.multiply, solver.precondition)
    for operator in apply:
        image_x, image_y = np.zeros(rows), np.zeros(rows)
        operator(x, image_x)
        operator(y, image_y)
        forward, backward = _dot(system, x, image_y), _dot(system, y, image_x)
        departures.append(abs(forward - backward) / unit)
        relative.append(abs(forward - backward) / abs(forward))
    product = np.zeros(rows)
    solver.multiply(np.ones(rows), product)
    worst = max(system.team.allgather(float(np.abs(product - system.right).max())))
    return Symmetry(float(departures[0]), float(departures[1]), float(max(relative)), worst)


def norms(residuals: Sequence[float]) -> Norms:
    """Run TestNorms. Local.

    Example:
        >>> norms([0.1, 0.1, 0.1])
        Norms(mean=0.1, variance=0.0)
    """
    first = residuals[0]
    # Differences, so that the variance of equal numbers is exactly 0.
    mean = first + sum(value - first for value in residuals) / len(residuals)
    return Norms(mean, sum((value - mean) ** 2 for value in residuals) / len(residuals))


def _dot(system: System, x: Vector, y: Vector) -> float:
    return float(system.team.allreduce(float(x @ y)))
