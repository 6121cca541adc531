"""Time Fourier transforms of the library beside mpi4py-fft in turns in the same ranks, and compare their results.

mpi4py-fft is no part of the project: install it elsewhere, and name the folder in PYTHONPATH. Its result is transposed
as that of `gw.fft.plan(T, transposed=True)` is; natural results are timed, too.

gondwana run -n 2 -t 1 tests/support/by_hand/transforms.py 128 float64
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py_fft import PFFT, newDistArray

import gondwana as gw

ROUNDS = 15


def main(n: int, dtype: str) -> None:
    """Print the milliseconds of a transform forward and back, and the ratios to those of mpi4py-fft."""
    team, shape = gw.world, (n, n, n)
    field, out = (gw.zeros(shape, dtype, grid=(team.size, 1, 1)) for _ in range(2))
    field.values[...] = np.random.default_rng(team.rank).random(field.values.shape)
    theirs = PFFT(team.comm, shape, dtype=dtype, slab=True)
    u, back, waves = newDistArray(theirs, False), newDistArray(theirs, False), newDistArray(theirs, True)
    u[...] = field.values
    plans = {name: gw.fft.plan(field, transposed=name == "transposed") for name in ("transposed", "natural")}
    spectra = {name: plan.forward(field) for name, plan in plans.items()}

    def run_theirs() -> None:
        theirs.forward(u, waves)
        theirs.backward(waves, back)

    def run_ours(name: str) -> None:
        plans[name].forward(field, spectra[name])
        plans[name].inverse(spectra[name], out)

    runs: dict[str, Callable[[], None]] = {"mpi4py-fft": run_theirs}
    runs |= {name: lambda name=name: run_ours(name) for name in plans}  # type: ignore[misc]
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS + 1):
        for name, run in runs.items():
            team.barrier()
            start = time.perf_counter()
            run()
            team.barrier()
            if number:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    np.testing.assert_allclose(out.values, np.asarray(back), rtol=1e-4, atol=1e-5)
    if team.rank == 0:
        print(f"{n}^3 {dtype}, {team.size} ranks, forward and back:")
        for name, of in times.items():
            ratios = sorted(other / own for own, other in zip(of, times["mpi4py-fft"], strict=True))
            low, middle, high = (ratios[round(part * (len(ratios) - 1))] for part in (0.1, 0.5, 0.9))
            text = f"{1e3 * statistics.median(of):8.1f} (least {1e3 * min(of):8.1f}) ms"
            print(f"  {name:12} {text}, mpi4py-fft / ours {middle:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
