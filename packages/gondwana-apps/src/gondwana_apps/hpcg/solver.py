"""Conjugate gradients of the optimised path, compiled as one function: no iteration needs the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.hpcg import schedule, split
from gondwana_apps.hpcg.problem import System
from gondwana_apps.hpcg.solution import PARTS, Solution
from gondwana_apps.hpcg.sweeps import cycle, multiply
from gondwana_apps.vectors import dot

Vector = NDArray[np.float64]

TOTAL, DOT, COMBINE, MULTIPLY, REDUCE, PRECONDITION = range(6)
"""Places of the times, in the order of `PARTS`."""
_LINE = 16
"""Words between the times of different threads."""
_TRIALS = 3
"""Trials of one thread and of all, if there are several."""
_BLOCK = 512
"""Rows of which x, r and their sum are updated together: they stay in the nearest cache."""


@gw.jit
def advance(threads: Any, alpha: float, p: Any, ap: Any, x: Any, r: Any) -> float:
    """Compute x += alpha p and r -= alpha Ap; return this thread's part of r.r."""
    total = 0.0
    first, last = threads.share(0, len(p))
    for start in range(first, last, _BLOCK):
        end = min(start + _BLOCK, last)
        for row in range(start, end):
            x[row] += alpha * p[row]
            r[row] -= alpha * ap[row]
        total += dot(r, r, start, end)
    return total


@gw.jit
def subtract(threads: Any, ap: Any, r: Any) -> float:
    """Compute r -= Ap; return this thread's part of r.r."""
    start, end = threads.share(0, len(ap))
    for row in range(start, end):
        r[row] -= ap[row]
    return dot(r, r, start, end)


@gw.jit
def load(threads: Any, m: Any, right: Any, x: Any, work: Any) -> None:
    """Begin with r = right and p = y = x in the order of the matrices, and no rest of an earlier solution."""
    r, z, t, p, ap, y = work
    start, end = threads.share(0, len(z))
    for row in range(start, end):
        r[row] = z[row] = t[row] = 0.0
    start, end = threads.share(0, len(p))
    for row in range(start, end):
        p[row] = ap[row] = y[row] = 0.0
    threads.barrier()
    start, end = threads.share(0, len(x))
    for row in range(start, end):
        place = m.place[row]
        r[place] = right[row]
        p[place] = y[place] = x[row]


@gw.jit
def store(threads: Any, m: Any, y: Any, x: Any) -> None:
    """Write the solution in the order of the problem."""
    threads.barrier()
    start, end = threads.share(0, len(x))
    for row in range(start, end):
        x[row] = y[m.place[row]]


@gw.jit
def reduce(threads: Any, team: Any, part: float) -> tuple[float, int]:
    """Sum up over threads and ranks; return the nanoseconds among ranks, too. Collective over team."""
    total, spent = threads.sum(part), 0
    if threads.index == 0:
        started = gw.clock()
        total = gw.allreduce(team, total, "sum")
        spent = gw.clock() - started
    return threads.broadcast(total), spent


@gw.jit
def solve(
    threads: Any, m: Any, halos: Any, schedules: Any, team: Any, right: Any, x: Any, work: Any, iterations: int,
    tolerance: float, cycles: bool, ticks_of_threads: Any,
) -> tuple[int, float, float]:  # fmt: skip
    """Improve x by conjugate gradients: return the iterations, and the norms of the first and last residual.

    The product of the start and those of the iterations are one call, because the compiler makes a copy for each.
    """
    r, z, t, p, ap, y = work
    ticks = ticks_of_threads[threads.index]
    began = since = gw.clock()
    load(threads, m, right, x, work)
    start, end = threads.share(0, len(p))
    done, first, norm, rtz = -1, 0.0, 0.0, 1.0
    while done < iterations:
        now = gw.clock()
        ticks[COMBINE] += now - since
        curvature = multiply(threads, m, halos, p, ap)
        since = gw.clock()
        ticks[MULTIPLY] += since - now
        if done < 0:
            part = subtract(threads, ap, r)
        else:
            sum_, spent = reduce(threads, team, curvature)
            ticks[REDUCE] += spent
            now = gw.clock()
            ticks[DOT] += now - since
            part = advance(threads, rtz / sum_, p, ap, y, r)
            since = now
        now = gw.clock()
        ticks[COMBINE] += now - since
        sum_, spent = reduce(threads, team, part)
        norm = sum_**0.5
        ticks[REDUCE] += spent
        since = gw.clock()
        ticks[DOT] += since - now
        first = norm if done < 0 else first
        done += 1
        if done == iterations or norm <= tolerance * first:
            break
        if cycles:
            cycle(threads, m, halos, schedules, r, z, t)
        else:
            z[start:end] = r[start:end]
        now = gw.clock()
        ticks[PRECONDITION] += now - since
        before = rtz
        rtz, spent = reduce(threads, team, dot(r, z, start, end))
        ticks[REDUCE] += spent
        since = gw.clock()
        ticks[DOT] += since - now
        beta = rtz / before if done > 0 else 0.0
        for row in range(start, end):
            p[row] = z[row] + beta * p[row]
    store(threads, m, y, x)
    ticks[TOTAL] += gw.clock() - began
    return done, first, norm


class Optimised:
    """Products, smoothing and conjugate gradients, faster. Collective over the team.

    It uses other matrices than the reference, made from the same rows, and its sweeps have the result of the natural
    order, so that the iterations are those of the reference up to rounding.

    Args:
        system: the problem.
        threads: number of threads of this rank; the results do not depend on it but for the order of sums.

    Attributes:
        system: the problem.
        matrices: the same rows in other form.
        threads: number of working threads.
    """

    def __init__(self, system: System, threads: int = 1) -> None:
        self.system = system
        self.matrices = split.split(system)
        rows, all_rows = int(self.matrices.first[1]), int(self.matrices.first[-1])
        # The finest level comes first, so that r and z are the first parts of vectors of all levels.
        self._work = tuple(np.zeros(size) for size in (all_rows, all_rows, all_rows, rows, rows, rows))
        self._halos = split.renumbered(system.levels, self.matrices)
        self._employ(threads)

    def _employ(self, threads: int) -> None:
        self.threads = threads
        self._schedules = schedule.Schedules(*(schedule.plan(self.matrices, threads, sign) for sign in (1, -1)))

    def choose_threads(self, most: int) -> None:
        """Try an iteration with one thread and with all; keep the faster, all ranks alike. Collective.

        Args:
            most: number of all threads.
        """
        slowest = {}
        for threads in (1, most) if most > 1 else ():
            self._employ(threads)
            x = np.zeros(self.system.levels[0].rows)
            seconds = min(self.solve(self.system.right, x, 1).times["total"] for _ in range(_TRIALS))
            slowest[threads] = max(self.system.team.allgather(seconds))
        if slowest and slowest[1] <= slowest[most]:
            self._employ(1)

    @property
    def nbytes(self) -> int:
        """Bytes of data that the reference path does not have."""
        return self.matrices.nbytes + sum(vector.nbytes for vector in self._work)

    def replace_diagonal(self, diagonal: Vector) -> None:
        """Set the diagonal of the finest level. Local."""
        rows = self.matrices.place[: len(diagonal)]
        self.matrices.diagonal[rows], self.matrices.inverse[rows] = diagonal, 1.0 / diagonal

    def multiply(self, x: Vector, y: Vector) -> None:
        """Compute y = A x on the finest level: the product that a solution of no iterations leaves."""
        *_, ap, _ = self._work
        self.solve(y, x, 0)
        y[:] = ap[self.matrices.place[: len(y)]]

    def precondition(self, right: Vector, x: Vector) -> None:
        """Approximate the solution x of A x = right by one cycle: the vector z that one iteration leaves."""
        _, z, *_ = self._work
        self.solve(right, np.zeros(len(x)), 1)
        x[:] = z[self.matrices.place[: len(x)]]

    def solve(
        self, right: Vector, x: Vector, iterations: int, tolerance: float = 0.0, *, preconditioned: bool = True
    ) -> Solution:
        """Improve x by conjugate gradients; arguments as of `Reference.solve`, x without entries of other ranks."""
        ticks = np.zeros((self.threads, _LINE), np.int64)
        done, first, norm = gw.parallel(
            solve, self.matrices, self._halos, self._schedules, self.system.team, right, x, self._work, iterations,
            tolerance, preconditioned, ticks, threads=self.threads, slots=2 * self.threads,
        )  # fmt: skip
        return Solution(done, first, norm, dict(zip(PARTS, (ticks[0] * 1e-9).tolist(), strict=False)))
