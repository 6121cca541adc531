"""Time iterations of `solvers.cg` beside the same method with loops of Numba and of C, in turns in the same ranks.

The operator is that of seven points, zero around the cube; mpi4py exchanges planes and sums. All of krylov.json:

for n in 1 2; do for cells in 64 128; do
    gondwana run -n $n -t 1 tests/support/by_hand/krylov.py $cells --json docs/results/krylov.json; done; done
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import recording
from mpi4py import MPI
from numba import njit

import gondwana as gw
from gondwana import solvers
from gondwana_bench.rows import Row

ROUNDS, ITERATIONS = 9, 30
COMM = MPI.COMM_WORLD
LOW, HIGH = (other if 0 <= other < COMM.size else MPI.PROC_NULL for other in (COMM.rank - 1, COMM.rank + 1))

C = r"""
#define FOR for (long i = 1; i < m - 1; i++) for (long j = 1; j < n - 1; j++) for (long k = 1; k < n - 1; k++)
#define AT long c = (i * n + j) * n + k
double product(long m, long n, double *restrict y, const double *restrict p) {
    double sum = 0.0;
    FOR { AT; y[c] = 6.0 * p[c] - p[c - n * n] - p[c + n * n] - p[c - n] - p[c + n] - p[c - 1] - p[c + 1];
          sum += p[c] * y[c]; }
    return sum;
}
double advance(long m, long n, double *restrict x, double *restrict r, const double *p, const double *y, double a) {
    double sum = 0.0;
    FOR { AT; x[c] += a * p[c]; r[c] -= a * y[c]; sum += r[c] * r[c]; }
    return sum;
}
void direction(long m, long n, double *restrict p, const double *restrict r, double b) {
    FOR { AT; p[c] = r[c] + b * p[c]; }
}
"""


@gw.foreach
def laplacian(p: Any, y: Any, x: Any) -> None:
    """Seven points."""
    across = x[p - gw.X] + x[p + gw.X] + x[p - gw.Y] + x[p + gw.Y] + x[p - gw.Z] + x[p + gw.Z]
    y[p] = 6.0 * x[p] - across


@njit(fastmath=True, cache=True)
def product(y: Any, p: Any) -> float:
    """Set y to A p, and return their product."""
    total = 0.0
    for i in range(1, y.shape[0] - 1):
        for j in range(1, y.shape[1] - 1):
            for k in range(1, y.shape[2] - 1):
                across = p[i - 1, j, k] + p[i + 1, j, k] + p[i, j - 1, k] + p[i, j + 1, k]
                y[i, j, k] = 6.0 * p[i, j, k] - across - p[i, j, k - 1] - p[i, j, k + 1]
                total += p[i, j, k] * y[i, j, k]
    return total


@njit(fastmath=True, cache=True)
def advance(x: Any, r: Any, p: Any, y: Any, a: float) -> float:
    """Go along p, and return the square of the norm of the residual."""
    total = 0.0
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            for k in range(1, x.shape[2] - 1):
                x[i, j, k] += a * p[i, j, k]
                r[i, j, k] -= a * y[i, j, k]
                total += r[i, j, k] * r[i, j, k]
    return total


@njit(fastmath=True, cache=True)
def direction(p: Any, r: Any, b: float) -> None:
    """Set the next direction."""
    for i in range(1, p.shape[0] - 1):
        for j in range(1, p.shape[1] - 1):
            for k in range(1, p.shape[2] - 1):
                p[i, j, k] = r[i, j, k] + b * p[i, j, k]


def loops_of_c() -> SimpleNamespace:
    """Return the loops in C, compiled anew."""
    with tempfile.TemporaryDirectory() as folder:
        source, made, library = (Path(folder, f"loops.{end}") for end in ("c", "o", "so"))
        source.write_text(C)
        options = ["-O3", "-march=native", "-ffast-math", "-fPIC"]
        subprocess.run(["gcc", *options, "-c", source, "-o", made], check=True)
        # Without -ffast-math: with it, loading the library would flush small numbers to zero in all of this process.
        subprocess.run(["gcc", "-shared", made, "-o", library], check=True)
        loaded = ctypes.CDLL(str(library))

    def call(name: str, *arguments: Any) -> float:
        arrays = [one for one in arguments if isinstance(one, np.ndarray)]
        m, n, _ = arrays[0].shape
        places = [ctypes.c_void_p(one.ctypes.data) for one in arrays]
        numbers = [ctypes.c_double(one) for one in arguments if isinstance(one, float)]
        return float(getattr(loaded, name)(ctypes.c_long(m), ctypes.c_long(n), *places, *numbers))

    loaded.product.restype = loaded.advance.restype = ctypes.c_double
    names = ("product", "advance", "direction")
    return SimpleNamespace(**{name: functools.partial(call, name) for name in names})


def by_hand(loops: Any, b: np.ndarray, iterations: int) -> np.ndarray:
    """Return x after some iterations of the method of conjugate gradients, from zero; all arrays have ghosts."""
    x, y, r, p = np.zeros_like(b), np.zeros_like(b), b.copy(), b.copy()
    rr = COMM.allreduce(float(np.vdot(b, b)))
    for _ in range(iterations):
        COMM.Sendrecv(p[1], LOW, recvbuf=p[-1], source=HIGH)
        COMM.Sendrecv(p[-2], HIGH, recvbuf=p[0], source=LOW)
        a = rr / COMM.allreduce(loops.product(y, p))
        before, rr = rr, COMM.allreduce(loops.advance(x, r, p, y, a))
        loops.direction(p, r, rr / before)
    return x[1:-1, 1:-1, 1:-1]


def measured(n: int) -> Iterator[Row]:
    """Yield rows for sums that are fast, and that are rounded once, beside both rivals."""
    # As by hand, nothing writes to the ghosts around the cube, which are zero.
    b = gw.from_function(lambda x, y, z: np.cos(x * y + z), (n, n, n), ghost=1, grid=(COMM.size, 1, 1))
    cells = np.pad(b.values, 1)
    rivals = {
        "Numba and mpi4py": SimpleNamespace(product=product, advance=advance, direction=direction),
        "C and mpi4py": loops_of_c(),
    }
    acts: dict[str, Callable[[], np.ndarray]] = {
        name: functools.partial(by_hand, loops, cells, ITERATIONS) for name, loops in rivals.items()
    }

    def ours(exact: bool) -> np.ndarray:
        return solvers.cg(laplacian, b, rtol=0, maxiter=ITERATIONS, exact=exact).x.values

    acts |= {sums: functools.partial(ours, sums == "exact") for sums in ("fast", "exact")}
    found = [act() for act in acts.values()]
    largest = COMM.allreduce(abs(found[0]).max(), MPI.MAX)
    wrong = [bool(abs(one - found[0]).max() > 1e-10 * largest) for one in found]
    verified = not gw.world.allreduce(sum(wrong))

    def seconds(act: Callable[[], np.ndarray]) -> float:
        return recording.seconds_of(act) / ITERATIONS

    times = recording.in_turns({name: functools.partial(seconds, act) for name, act in acts.items()}, ROUNDS)
    for sums in ("fast", "exact"):
        for rival in rivals:
            case = {"method": "cg", "cells": f"{n}^3", "sums": sums, "iterations": ITERATIONS}
            yield recording.row(case, rival, times[rival], times[sums], verified)


def main() -> None:
    """Measure iterations for a cube of unknowns."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("n", type=int)
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    given = parser.parse_args()
    recording.record(measured(given.n), "krylov", ("method", "cells", "ranks"), given.json)


if __name__ == "__main__":
    main()
