"""Conjugate gradients of the optimised path, compiled as one function: no iteration needs the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.apps.hpcg import schedule, split
from gondwana.apps.hpcg.crew import Crew, crews, reduce, share, workers
from gondwana.apps.hpcg.levels import System
from gondwana.apps.hpcg.native import nanoseconds
from gondwana.apps.hpcg.solution import Solution, Times
from gondwana.apps.hpcg.sweeps import cycle, dot, multiply

Vector = NDArray[np.float64]

TOTAL, DOT, COMBINE, MULTIPLY, REDUCE, PRECONDITION = range(6)
"""Places of the times, in the order of the fields of `Times`."""
_TRIED, _TRIALS = (0, 1, 2, 3), 2
"""Levels with stages that are tried where there are threads, and how often."""
_BLOCK = 512
"""Rows of which x, r and their sum are updated together: they stay in the nearest cache."""


@gw.jit
def advance(crew: Any, alpha: float, p: Any, ap: Any, x: Any, r: Any) -> float:
    """Compute x += alpha p and r -= alpha Ap; return this thread's part of r.r."""
    total = 0.0
    first, last = share(crew, 0, len(p))
    for start in range(first, last, _BLOCK):
        end = min(start + _BLOCK, last)
        for row in range(start, end):
            x[row] += alpha * p[row]
            r[row] -= alpha * ap[row]
        total += dot(r, r, start, end)
    return total


@gw.jit
def subtract(crew: Any, right: Any, ap: Any, r: Any) -> float:
    """Compute r = right - Ap; return this thread's part of r.r."""
    start, end = share(crew, 0, len(ap))
    for row in range(start, end):
        r[row] = right[row] - ap[row]
    return dot(r, r, start, end)


@gw.jit
def solve(
    m: Any, links: Any, crew: Any, team: Any, right: Any, x: Any, work: Any, iterations: int, tolerance: float,
    cycles: bool, ticks: Any,
) -> tuple[int, float, float]:  # fmt: skip
    """Improve x by conjugate gradients: return the iterations, and the norms of the first and last residual.

    The product of the start and those of the iterations are one call, because the compiler makes a copy for each.
    """
    r, z, t, p, ap = work
    start, end = share(crew, 0, len(x))
    began = since = nanoseconds()
    p[start:end] = x[start:end]
    done, first, norm, rtz = -1, 0.0, 0.0, 1.0
    while done < iterations:
        now = nanoseconds()
        ticks[COMBINE] += now - since
        curvature = multiply(m, links, crew, p, ap)
        since = nanoseconds()
        ticks[MULTIPLY] += since - now
        if done < 0:
            part = subtract(crew, right, ap, r)
        else:
            sum_, spent = reduce(crew, team, curvature)
            ticks[REDUCE] += spent
            now = nanoseconds()
            ticks[DOT] += now - since
            part = advance(crew, rtz / sum_, p, ap, x, r)
            since = now
        now = nanoseconds()
        ticks[COMBINE] += now - since
        sum_, spent = reduce(crew, team, part)
        norm = sum_**0.5
        ticks[REDUCE] += spent
        since = nanoseconds()
        ticks[DOT] += since - now
        first = norm if done < 0 else first
        done += 1
        if done == iterations or norm <= tolerance * first:
            break
        if cycles:
            cycle(m, links, crew, r, z, t)
        else:
            z[start:end] = r[start:end]
        now = nanoseconds()
        ticks[PRECONDITION] += now - since
        before = rtz
        rtz, spent = reduce(crew, team, dot(r, z, start, end))
        ticks[REDUCE] += spent
        since = nanoseconds()
        ticks[DOT] += since - now
        beta = rtz / before if done > 0 else 0.0
        for row in range(start, end):
            p[row] = z[row] + beta * p[row]
    ticks[TOTAL] += nanoseconds() - began
    return done, first, norm


class Optimised:
    """Products, smoothing and conjugate gradients, faster. Collective over the team.

    It takes other matrices than the reference, made from the same rows, and works in natural order, so that the
    iterations are those of the reference up to rounding.

    Args:
        system: the problem.
        threads: of this rank; the results do not depend on them but for the order of sums.
        staged: the finest levels whose sweeps threads share; None: as many as a trial says, which may also say that
            one thread alone is faster.

    Attributes:
        system: the problem.
        matrices: the same rows in other form.
        threads: that work.
        staged: levels whose sweeps they share.
    """

    def __init__(self, system: System, threads: int = 1, staged: int | None = None) -> None:
        self.system = system
        self.matrices = split.split(system)
        rows, all_rows = system.levels[0].rows, int(self.matrices.first[-1])
        # The finest level comes first, so that r and z are the first parts of vectors of all levels.
        self._work = tuple(np.zeros(size) for size in (all_rows, all_rows, all_rows, rows, rows))
        self._workers = workers(threads)
        self._crews: list[Crew] = []
        if staged is None:
            choices = [(1, 0)] + [(threads, count) for count in _TRIED if threads > 1]
            threads, staged = self._fastest(choices) if threads > 1 else choices[0]
        self.threads, self.staged = threads, staged
        self._crews = self._plan(threads, staged)

    def _plan(self, threads: int, staged: int) -> list[Crew]:
        m = self.matrices
        near = m.lower_columns[:, -1]
        down = schedule.plan(m.first, m.lower_columns, near, staged, 1)
        return crews(threads, down, schedule.plan(m.first, m.upper_columns, near, staged, -1))

    def _fastest(self, choices: list[tuple[int, int]]) -> tuple[int, int]:
        """Try threads and levels with stages for an iteration, all ranks alike."""
        slowest = []
        for threads, staged in choices:
            self._crews = self._plan(threads, staged)
            x = np.zeros(self.system.levels[0].rows)
            seconds = min(self.solve(self.system.right, x, 1).times.total for _ in range(_TRIALS))
            slowest.append(max(self.system.team.allgather(seconds)))
        return choices[slowest.index(min(slowest))]

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
        common = self.system.team, right, x, self._work, iterations, tolerance, preconditioned
        ticks = [np.zeros(6, np.int64) for _ in self._crews]

        def work(thread: int) -> tuple[int, float, float]:
            return solve(self.matrices, self.system.links, self._crews[thread], *common, ticks[thread])

        others = [self._workers.submit(work, thread) for thread in range(1, len(ticks))] if self._workers else []
        done, first, norm = work(0)
        for other in others:
            other.result()
        return Solution(done, first, norm, Times(*(ticks[0] * 1e-9).tolist()))
