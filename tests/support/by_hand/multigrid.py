"""Time V-cycles of the library beside those of a program in C, in turns in the same ranks, and compare their results.

gondwana run -n 1 -t 1 tests/support/by_hand/multigrid.py 256 --json docs/results/solvers.json
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
from mpi4py import MPI

import gondwana as gw
from gondwana import solvers
from gondwana_bench.rows import Row

SOURCE = Path(__file__).with_name("multigrid.c")
ROUNDS, CYCLES = 7, 4
EXCHANGE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_double), ctypes.c_int, ctypes.c_int)


class ByHand:
    """The program in C on slabs of planes, whose ghosts mpi4py sends. Collective.

    Args:
        b: right-hand side, whose blocks are slabs.
        folder: where the program is compiled.
    """

    def __init__(self, b: gw.GlobalArray, folder: Path) -> None:
        library = folder / "multigrid.so"
        if gw.world.rank == 0:
            subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        gw.world.barrier()
        self._library = ctypes.CDLL(str(library))
        self._library.v_cycle.restype = ctypes.c_double
        (first, *_), (end, n, _), ranks = b.owned.lo, b.owned.hi, gw.world.size
        self._first, self._exchange = first, EXCHANGE(self._send)
        self.x, self._b = (np.zeros((end - first + 2, n + 2, n + 2)) for _ in range(2))
        self._b[1:-1, 1:-1, 1:-1] = b.values
        self._ends = gw.world.rank > 0, gw.world.rank < ranks - 1
        given = (ctypes.c_void_p(one.ctypes.data) for one in (self.x, self._b))
        self._library.start(end - first, n, ctypes.c_double(1.0 / n), *self._ends, self._exchange, *given)

    def cycle(self) -> float:
        """Do a V-cycle, and return the norm of the residual."""
        return float(np.sqrt(MPI.COMM_WORLD.allreduce(self._library.v_cycle(self._first))))

    def _send(self, x: Any, planes: int, plane: int) -> None:
        block = np.ctypeslib.as_array(x, (planes + 2, plane))
        rank = MPI.COMM_WORLD.rank
        below, above = (
            place if has else MPI.PROC_NULL for place, has in zip((rank - 1, rank + 1), self._ends, strict=True)
        )
        MPI.COMM_WORLD.Sendrecv(block[1], below, 0, block[planes + 1], above, 0)
        MPI.COMM_WORLD.Sendrecv(block[planes], above, 1, block[0], below, 1)


def measured(n: int, folder: Path) -> Iterator[Row]:
    """Yield the row of cubes of n cells a side."""
    b = gw.from_function(
        lambda x, y, z: np.sin(x) * np.cos(3 * y + z) + 1.0, (n,) * 3, ghost=1, boundary=gw.Dirichlet(0),
        grid=(gw.world.size, 1, 1),
    )  # fmt: skip
    mg, x, by_hand = solvers.Multigrid(b, h=1.0 / n), gw.zeros_like(b), ByHand(b, folder)
    norms: dict[str, list[float]] = {"ours": [], "C": []}

    def ours() -> None:
        mg.solve(b, x, rtol=0.0, maxiter=CYCLES, callback=norms["ours"].append)

    def theirs() -> None:
        norms["C"] += [by_hand.cycle() for _ in range(CYCLES)]

    runs: dict[str, Callable[[], None]] = {"ours": ours, "C": theirs}
    for run in runs.values():
        run()
    same = np.abs(x.values - by_hand.x[1:-1, 1:-1, 1:-1]).max() <= 1e-3 * x.max()
    verified = bool(gw.world.allreduce(int(same), op="min")) and norms["C"][3] < 0.2 * norms["C"][2]

    def seconds(who: str) -> float:
        x.fill(0.0)
        by_hand.x.fill(0.0)
        return recording.seconds_of(runs[who]) / CYCLES

    times = recording.in_turns({who: functools.partial(seconds, who) for who in runs}, ROUNDS)
    factors = {"factor": norms["ours"][3] / norms["ours"][2], "rival_factor": norms["C"][3] / norms["C"][2]}
    case = {"example": "multigrid", "cells": f"{n} x {n} x {n}", "steps": CYCLES, **factors}
    yield recording.row(case, "C", times["C"], times["ours"], verified)


def main() -> None:
    """Measure, print, and store what is found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("n", type=int, help="cells along each axis, a power of two")
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(given.n, Path(gw.world.bcast(folder)))
        recording.record(rows, "multigrid", ("example", "cells", "ranks"), given.json)


if __name__ == "__main__":
    main()
