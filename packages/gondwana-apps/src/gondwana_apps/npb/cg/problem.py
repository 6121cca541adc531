"""The classes of CG (NAS-91-002; NPB 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

RCOND = 0.1
"""The last weight of the sum of outer products that the matrix is; the first is 1."""

STEPS = 25
"""Steps of conjugate gradients in an iteration: always all of them."""


@dataclass(frozen=True)
class CGProblem:
    """The parameters of one class.

    Attributes:
        letter: letter of the class.
        n: rows of the matrix.
        nonzer: elements drawn at random for each of the vectors whose outer products make the matrix.
        iterations: iterations of the power method.
        shift: number subtracted from the diagonal.
        zeta: reference of zeta.
        nonzeros: nonzeros of the matrix, if known.
    """

    letter: str
    n: int
    nonzer: int
    iterations: int
    shift: float
    zeta: float
    nonzeros: int | None = None

    def size_text(self) -> str:
        """The size as the official output has it. Local."""
        return str(self.n)

    def expected_nonzeros(self) -> int:
        """Return the nonzeros, or an estimate: outer products overlap on the diagonal and hardly elsewhere. Local."""
        return self.nonzeros or self.n * ((self.nonzer + 1) ** 2 - self.nonzer)

    def operations(self) -> float:
        """Return the nominal millions of operations of the timed region, by NPB's formula. Local."""
        row = self.nonzer * (self.nonzer + 1)
        return 2e-6 * self.iterations * self.n * (3 + row + STEPS * (5 + row) + 3)


PROBLEMS = {
    problem.letter: problem
    for problem in (
        CGProblem("S", 1_400, 7, 15, 10.0, 8.5971775078648, 78_148),
        CGProblem("W", 7_000, 8, 15, 12.0, 10.362595087124, 508_402),
        CGProblem("A", 14_000, 11, 15, 20.0, 17.130235054029, 1_853_104),
        CGProblem("B", 75_000, 13, 75, 60.0, 22.712745482631, 13_708_072),
        CGProblem("C", 150_000, 15, 75, 110.0, 28.973605592845, 36_121_058),
        CGProblem("D", 1_500_000, 21, 100, 500.0, 52.514532105794),
        CGProblem("E", 9_000_000, 26, 100, 1_500.0, 77.522164599383),
        CGProblem("F", 54_000_000, 31, 100, 5_000.0, 107.3070826433),
    )
}
