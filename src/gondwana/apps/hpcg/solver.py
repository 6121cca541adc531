"""Conjugate gradients of the optimised path, compiled as one function: no iteration needs the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.apps.hpcg import split
from gondwana.apps.hpcg.levels import System
from gondwana.apps.hpcg.native import nanoseconds
from gondwana.apps.hpcg.solution import Solution, Times
from gondwana.apps.hpcg.sweeps import cycle, dot, multiply

Vector = NDArray[np.float64]

TOTAL, DOT, COMBINE, MULTIPLY, REDUCE, PRECONDITION = range(6)
"""Places of the times, in the order of the fields of `Times`."""
_BLOCK = 512
"""Rows of which x, r and their sum are updated together: they stay in the nearest cache."""


@gw.jit
def reduce(team: Any, part: float, ticks: Any) -> float:
    """Sum up over the ranks. Collective over team."""
    started = nanoseconds()
    total = gw.allreduce(team, part, "sum")
    ticks[REDUCE] += nanoseconds() - started
    return total  # type: ignore[no-any-return]


@gw.jit
def advance(alpha: float, p: Any, ap: Any, x: Any, r: Any) -> float:
    """Compute x += alpha p and r -= alpha Ap; return this rank's part of r.r."""
    total = 0.0
    rows = len(p)
    for start in range(0, rows, _BLOCK):
        end = min(start + _BLOCK, rows)
        for row in range(start, end):
            x[row] += alpha * p[row]
            r[row] -= alpha * ap[row]
        total += dot(r[start:end], r[start:end], end - start)
    return total


@gw.jit
def solve(
    m: Any, links: Any, team: Any, right: Any, x: Any, work: Any, iterations: int, tolerance: float, cycles: bool,
    ticks: Any,
) -> tuple[int, float, float]:  # fmt: skip
    """Improve x by conjugate gradients: return the iterations, and the norms of the first and last residual.

    The product of the start and those of the iterations are one call, because the compiler makes a copy for each.
    """
    r, z, t, p, ap = work
    rows = len(x)
    started = since = nanoseconds()
    for row in range(rows):
        p[row] = x[row]
    done, first, norm, rtz = -1, 0.0, 0.0, 1.0
    while done < iterations:
        now = nanoseconds()
        ticks[COMBINE] += now - since
        curvature = multiply(m, links, p, ap)
        since = nanoseconds()
        ticks[MULTIPLY] += since - now
        if done < 0:
            part = subtract(right, ap, r)
        else:
            alpha = rtz / reduce(team, curvature, ticks)
            now = nanoseconds()
            ticks[DOT] += now - since
            part = advance(alpha, p, ap, x, r)
            since = now
        now = nanoseconds()
        ticks[COMBINE] += now - since
        norm = reduce(team, part, ticks) ** 0.5
        since = nanoseconds()
        ticks[DOT] += since - now
        first = norm if done < 0 else first
        done += 1
        if done == iterations or norm <= tolerance * first:
            break
        if cycles:
            cycle(m, links, r, z, t)
        else:
            z[:rows] = r[:rows]
        now = nanoseconds()
        ticks[PRECONDITION] += now - since
        before, rtz = rtz, reduce(team, dot(r, z, rows), ticks)
        since = nanoseconds()
        ticks[DOT] += since - now
        beta = rtz / before if done > 0 else 0.0
        for row in range(rows):
            p[row] = z[row] + beta * p[row]
    ticks[TOTAL] += nanoseconds() - started
    return done, first, norm


@gw.jit
def subtract(right: Any, ap: Any, r: Any) -> float:
    """Compute r = right - Ap; return this rank's part of r.r."""
    for row in range(len(ap)):
        r[row] = right[row] - ap[row]
    return dot(r, r, len(ap))


class Optimised:
    """Products, smoothing and conjugate gradients, faster. Collective over the team.

    It takes other matrices than the reference, made from the same rows, and works in natural order, so that the
    iterations are those of the reference up to rounding.

    Args:
        system: the problem.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.matrices = split.split(system)
        rows, all_rows = system.levels[0].rows, int(self.matrices.first[-1])
        # The finest level comes first, so that r and z are the first parts of vectors of all levels.
        self._work = tuple(np.zeros(size) for size in (all_rows, all_rows, all_rows, rows, rows))

    @property
    def nbytes(self) -> int:
        """Bytes of what the reference path does not have."""
        return self.matrices.nbytes + sum(vector.nbytes for vector in self._work)

    def replace_diagonal(self, diagonal: Vector) -> None:
        """Set the diagonal of the finest level. Local."""
        split.replace_diagonal(self.matrices, diagonal)

    def multiply(self, x: Vector, y: Vector) -> None:
        """Compute y = A x on the finest level: what no iterations from x leave behind."""
        *_, ap = self._work
        self.solve(y, x, 0)
        y[:] = ap

    def precondition(self, right: Vector, x: Vector) -> None:
        """Approximate the solution x of A x = right by one cycle: what one iteration from 0 leaves behind."""
        _, z, *_ = self._work
        self.solve(right, np.zeros(len(x)), 1)
        x[:] = z[: len(x)]

    def solve(
        self, right: Vector, x: Vector, iterations: int, tolerance: float = 0.0, *, preconditioned: bool = True
    ) -> Solution:
        """Improve x by conjugate gradients; arguments as of `Reference.solve`, x without entries of other ranks."""
        ticks = np.zeros(6, np.int64)
        team = self.system.team
        done, first, norm = solve(
            self.matrices, self.system.links, team, right, x, self._work, iterations, tolerance, preconditioned, ticks
        )
        return Solution(done, first, norm, Times(*(ticks * 1e-9).tolist()))
