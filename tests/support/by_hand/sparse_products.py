"""Time products of a sparse matrix beside SciPy's and a loop in C, with an exchange by hand, in turns in the ranks.

gondwana run -n 2 -t 1 tests/support/by_hand/sparse_products.py "27 points" 64 --json docs/results/sparse.json
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import recording
import scipy.sparse
from mpi4py import MPI

import gondwana as gw
from gondwana import solvers
from gondwana_bench.rows import Row

ROUNDS = 15
SECONDS = 0.1
"""Approximate duration of ours in a round."""
LOOP = """
void multiply(long rows, const int *start, const int *column, const double *value, const double *x, double *y,
              int adds) {
    for (long row = 0; row < rows; row++) {
        double sum = 0.0;
        for (int k = start[row]; k < start[row + 1]; k++)
            sum += value[k] * x[column[k]];
        y[row] = adds ? y[row] + sum : sum;
    }
}
"""


def points(n: int, first: int, end: int) -> Any:
    """Return rows of a matrix with entries for each of 27 points around one of a cube, as HPCG has it."""
    row = np.arange(first, end)
    place = np.stack([row // n**2, row // n % n, row % n])
    found = []
    for step in np.ndindex(3, 3, 3):
        there = place + np.array(step)[:, None] - 1
        kept = np.all((there >= 0) & (there < n), axis=0)
        column = (there[0] * n + there[1]) * n + there[2]
        found.append((row[kept] - first, column[kept], np.full(kept.sum(), 26.0 if step == (1, 1, 1) else -1.0)))
    rows, columns, values = map(np.concatenate, zip(*found, strict=True))
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(end - first, n**3))


def scattered(n: int, first: int, end: int, entries: int) -> Any:
    """Return rows of a matrix with so many entries anywhere."""
    generator = np.random.default_rng(first)
    columns, values = generator.integers(0, n, (end - first) * entries), generator.random((end - first) * entries)
    rows = np.repeat(np.arange(end - first), entries)
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(end - first, n))


MATRICES: dict[str, tuple[Callable[[int], int], Callable[..., Any]]] = {
    "27 points": (lambda n: n**3, points),
    "20 anywhere": (lambda n: n, lambda n, first, end: scattered(n, first, end, 20)),
    "130 anywhere": (lambda n: n, lambda n, first, end: scattered(n, first, end, 130)),
}


class ByHand:
    """Products of rows that are divided over ranks, with an exchange by mpi4py.

    Args:
        rows: own rows, with global columns.
        first: number of the first one.
        multiply: `multiply(rows, x, y, adds)` for rows of this rank.
    """

    def __init__(self, rows: Any, first: int, multiply: Callable[[Any, Any, Any, bool], None]) -> None:
        self.comm, self.multiply = MPI.COMM_WORLD, multiply
        firsts = np.array(self.comm.allgather(first))
        self.own = rows[:, first : first + rows.shape[0]].tocsr()
        entries = rows.tocoo()
        outside = (entries.col < first) | (entries.col >= first + rows.shape[0])
        needed, columns = np.unique(entries.col[outside], return_inverse=True)
        other = (entries.data[outside], (entries.row[outside], columns))
        self.other = scipy.sparse.csr_array(other, shape=(rows.shape[0], len(needed)))
        for part in (self.own, self.other):  # as the loop in C takes them
            part.indptr, part.indices = part.indptr.astype(np.int32), part.indices.astype(np.int32)
        counts = np.bincount(np.searchsorted(firsts, needed, "right") - 1, minlength=self.comm.size)
        wanted = self.comm.alltoall(np.split(needed, np.cumsum(counts)[:-1]))
        self.rows = np.concatenate(wanted) - first
        self.sent, self.received = np.zeros(len(self.rows)), np.zeros(len(needed))
        self.counts = [len(part) for part in wanted], counts

    def __call__(self, x: Any, y: Any) -> None:
        np.take(x, self.rows, out=self.sent)
        request = self.comm.Ialltoallv((self.sent, self.counts[0]), (self.received, self.counts[1]))
        self.multiply(self.own, x, y, False)
        request.Wait()
        if len(self.received):
            self.multiply(self.other, self.received, y, True)


def by_scipy(rows: Any, x: Any, y: Any, adds: bool) -> None:
    """Multiply by SciPy."""
    if adds:
        y += rows @ x
    else:
        y[...] = rows @ x


def by_c() -> Callable[[Any, Any, Any, bool], None]:
    """Compile the loop for this processor."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "loop.c", Path(folder) / "loop.so"
        source.write_text(LOOP)
        subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
        function = ctypes.CDLL(str(library)).multiply

    def multiply(rows: Any, x: Any, y: Any, adds: bool) -> None:
        arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (rows.indptr, rows.indices, rows.data, x, y)]
        function(ctypes.c_long(rows.shape[0]), *arrays, ctypes.c_int(adds))

    return multiply


def measured(name: str, n: int) -> Iterator[Row]:
    """Yield a row for each rival, which have all been measured in turns with ours."""
    size, rows_of = MATRICES[name]
    x, y = gw.zeros(size(n)), gw.zeros(size(n))
    own = x.owned.axes[0]
    rows = rows_of(n, own.start, own.stop)
    rows.indptr, rows.indices = rows.indptr.astype(np.int32), rows.indices.astype(np.int32)
    x.values[...] = np.random.default_rng(own.start).random(len(own))
    a = solvers.SparseMatrix.from_scipy(rows, like=x)
    rivals = {"SciPy": ByHand(rows, own.start, by_scipy), "C": ByHand(rows, own.start, by_c())}
    mine, theirs = x.values.copy(), {rival: np.zeros(len(own)) for rival in rivals}
    runs: dict[str, Callable[[], None]] = {"ours": lambda: a(x, y)}
    for rival, by_hand in rivals.items():
        runs[rival] = lambda rival=rival, by_hand=by_hand: by_hand(mine, theirs[rival])  # type: ignore[misc]
    for run in runs.values():
        run()
    verified = gw.world.allreduce(min(np.allclose(one, y.values, 1e-11, 1e-11) for one in theirs.values()), min)

    def timed(run: Callable[[], None], count: int) -> float:
        return recording.seconds_of(lambda: [run() for _ in range(count)]) / count

    count = gw.world.allreduce(max(1, round(SECONDS / timed(runs["ours"], 5))), max)
    times = recording.in_turns({who: functools.partial(timed, run, count) for who, run in runs.items()}, ROUNDS)
    case = {"example": name, "cells": f"{size(n)}", "steps": count}
    for rival in rivals:
        yield recording.row(case, rival, times[rival], times["ours"], bool(verified))


def main() -> None:
    """Measure, print, and store what is found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("matrix", choices=MATRICES)
    parser.add_argument("n", type=int, help="points along a side of the cube, or rows")
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    given = parser.parse_args()
    recording.record(measured(given.matrix, given.n), "sparse", ("example", "cells", "ranks"), given.json)


if __name__ == "__main__":
    main()
