"""Time Fourier transforms of a cube beside mpi4py-fft and SciPy, in turns in the same ranks, and compare the results.

mpi4py-fft is no part of the project: install it elsewhere (`pip install --no-deps --target FOLDER mpi4py-fft`), and
name the folder in PYTHONPATH. All of docs/results/fft.json:

for n in 1 2; do for of in "128 complex128" "128 float64" "256 complex128" "256 float64"; do
    gondwana run -n $n -t 1 tests/support/by_hand/transforms.py $of --json docs/results/fft.json; done; done
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import recording
import scipy.fft
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

import gondwana as gw
from gondwana_bench.rows import Row

ROUNDS = 9
Pair = tuple[Callable[[], Any], Callable[[], Any]]


def with_mpi4py_fft(cells: np.ndarray, n: int) -> Pair:
    """Return a transform forward, whose result is transposed, and the one back, of the rows of this rank."""
    fft = PFFT(MPI.COMM_WORLD, (n, n, n), dtype=cells.dtype, slab=True)
    u, back, waves = newDistArray(fft, False), newDistArray(fft, False), newDistArray(fft, True)
    u[...] = cells
    return lambda: fft.forward(u, waves), lambda: np.asarray(fft.backward(waves, back))


def with_scipy(cells: np.ndarray, n: int) -> Pair:
    """Return the same by SciPy, where mpi4py transposes: columns of all ranks for rows of this one."""
    real, size, rows = cells.dtype.kind == "f", MPI.COMM_WORLD.size, len(cells)
    forward, inverse = (scipy.fft.rfftn, scipy.fft.irfftn) if real else (scipy.fft.fftn, scipy.fft.ifftn)
    shape = {"s": (n, n) if size > 1 else (n, n, n)} if real else {}
    waves: list[np.ndarray] = []

    def there() -> None:
        if size == 1:
            waves[:] = [forward(cells)]
            return
        planes = forward(cells, axes=(1, 2))
        sent = np.ascontiguousarray(planes.reshape(rows, size, n // size, -1).swapaxes(0, 1))
        received = np.empty_like(sent)
        MPI.COMM_WORLD.Alltoall(sent, received)
        waves[:] = [scipy.fft.fft(received.reshape(n, n // size, -1), axis=0, overwrite_x=True)]

    def back() -> np.ndarray:
        if size == 1:
            return inverse(waves[0], **shape)
        columns = scipy.fft.ifft(waves[0], axis=0)
        received = np.empty_like(columns)
        MPI.COMM_WORLD.Alltoall(columns, received)
        planes = received.reshape(size, rows, n // size, -1).swapaxes(0, 1).reshape(rows, n, -1)
        return inverse(planes, axes=(1, 2), **shape)

    return there, back


def measured(n: int, dtype: str) -> Iterator[Row]:
    """Yield rows for results of ours that are transposed, and natural ones, beside each rival."""
    team = gw.world
    field, out = (gw.zeros((n, n, n), dtype, grid=(team.size, 1, 1)) for _ in range(2))
    field.values[...] = np.random.default_rng(team.rank).random(field.values.shape)
    pairs = {
        "mpi4py-fft": with_mpi4py_fft(field.values, n),
        ("SciPy" if team.size == 1 else "SciPy and mpi4py"): with_scipy(field.values, n),
    }
    rivals = list(pairs)
    for result in ("transposed", "natural"):
        plan = gw.fft.plan(field, transposed=result == "transposed")
        waves = plan.forward(field)
        forward, inverse = functools.partial(plan.forward, field, waves), functools.partial(plan.inverse, waves, out)
        pairs[result] = forward, lambda inverse=inverse: inverse().values  # type: ignore[misc]

    def both(forward: Callable[[], Any], back: Callable[[], Any]) -> Any:
        forward()
        return back()

    scale = abs(field.values).max()
    wrong = [not np.allclose(both(*pair), field.values, rtol=0, atol=1e-12 * scale) for pair in pairs.values()]
    verified = not team.allreduce(sum(wrong))
    runs = {
        name: functools.partial(recording.seconds_of, functools.partial(both, *pair)) for name, pair in pairs.items()
    }
    times = recording.in_turns(runs, ROUNDS)
    for result in ("transposed", "natural"):
        for rival in rivals:
            case = {"cells": f"{n}^3", "dtype": dtype, "result": result}
            yield recording.row(case, rival, times[rival], times[result], verified)


def main() -> None:
    """Measure a transform forward and one back of a cube."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("n", type=int)
    parser.add_argument("dtype", choices=("complex128", "float64"))
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    given = parser.parse_args()
    recording.record(measured(given.n, given.dtype), "fft", ("cells", "dtype", "ranks"), given.json)


if __name__ == "__main__":
    main()
