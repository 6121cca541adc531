"""The classes of MG (NPB 3.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gondwana_apps.npb.mg.kernels import Smoother

SMOOTHER_A = Smoother(-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0)
SMOOTHER_B = Smoother(-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0)

TOLERANCE = 1e-8
"""Relative tolerance of the norm."""


@dataclass(frozen=True)
class MGProblem:
    """One class.

    Attributes:
        letter: letter of the class.
        cells: number of cells along each side of the cube, a power of two.
        iterations: number of iterations of a V-cycle and a residual.
        smoother: the weights of S.
        norm: official L2 norm of the last residual; None without one.
    """

    letter: str
    cells: int
    iterations: int
    smoother: Smoother
    norm: float | None = None

    @property
    def levels(self) -> int:
        """The number of the finest level; level k has 2^k cells a side."""
        return self.cells.bit_length() - 1

    def size_text(self) -> str:
        """The size as the official output has it. Local."""
        return f"{self.cells}x{self.cells}x{self.cells}"

    def error(self, norm: float) -> float:
        """The relative error of a norm; NaN without an official value. Local."""
        return math.nan if self.norm is None else abs(norm - self.norm) / self.norm

    def verified(self, norm: float) -> bool | None:
        """Whether a norm is right, by the official rule; None without an official value. Local."""
        return None if self.norm is None else self.error(norm) <= TOLERANCE


PROBLEMS = {
    problem.letter: problem
    for problem in (
        MGProblem("S", 32, 4, SMOOTHER_A, 0.5307707005734e-04),
        MGProblem("W", 128, 4, SMOOTHER_A, 0.6467329375339e-05),
        MGProblem("A", 256, 4, SMOOTHER_A, 0.2433365309069e-05),
        MGProblem("B", 256, 20, SMOOTHER_B, 0.1800564401355e-05),
        MGProblem("C", 512, 20, SMOOTHER_B, 0.5706732285740e-06),
        MGProblem("D", 1024, 50, SMOOTHER_B, 0.1583275060440e-09),
        MGProblem("E", 2048, 50, SMOOTHER_B, 0.5630442584711e-10),
        MGProblem("F", 4096, 50, SMOOTHER_B, 0.1889225697989e-10),
    )
}
