"""The example masked_diffusion.py as a user of mpi4py and Numba writes it, timed in turns with it.

mpirun -n 2 python tests/support/masked_diffusion_by_hand.py 480 240
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from mpi4py import MPI

EXAMPLE = Path(__file__).parents[2] / "examples" / "masked_diffusion.py"


@numba.njit(cache=True)
def diffuse(new: Any, T: Any, k: Any, mask: Any, first: int, last: int) -> None:  # noqa: N803
    for i in range(first, last):
        for j in range(1, T.shape[1] - 1):
            if mask[i, j]:
                a, t = k[i, j], T[i, j]
                new[i, j] = t + 0.2 * (
                    2.0 * a * k[i - 1, j] / (a + k[i - 1, j]) * (T[i - 1, j] - t)
                    + 2.0 * a * k[i + 1, j] / (a + k[i + 1, j]) * (T[i + 1, j] - t)
                    + 2.0 * a * k[i, j - 1] / (a + k[i, j - 1]) * (T[i, j - 1] - t)
                    + 2.0 * a * k[i, j + 1] / (a + k[i, j + 1]) * (T[i, j + 1] - t)
                )


def run(plate: Any, shape: tuple[int, int], steps: int) -> tuple[np.ndarray[Any, Any], float]:
    """The cells of this rank after some steps, and the seconds that they took."""
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    begin, end = shape[0] * rank // size, shape[0] * (rank + 1) // size
    x, y = np.meshgrid(np.arange(begin - 1, end + 1), np.arange(-1, shape[1] + 1), indexing="ij")
    cx, cy = np.clip(x, 0, shape[0] - 1), np.clip(y, 0, shape[1] - 1)
    mask = plate(cx, cy, shape)
    k = mask * (1 - cy / 2 / shape[1])
    t, new = np.zeros(k.shape), np.zeros(k.shape)
    low = rank - 1 if rank > 0 else MPI.PROC_NULL
    high = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    start = 0.0
    for step in range(-1, steps):
        if step == 0:
            comm.Barrier()
            start = time.perf_counter()
            t[:], new[:] = 0.0, 0.0
        requests = [
            comm.Isend(t[1], low), comm.Isend(t[-2], high), comm.Irecv(t[0], low), comm.Irecv(t[-1], high)
        ]  # fmt: skip
        if low == MPI.PROC_NULL:
            t[0] = 2.0 - t[1]
        if high == MPI.PROC_NULL:
            t[-1] = -t[-2]
        t[1:-1, 0], t[1:-1, -1] = t[1:-1, 1], t[1:-1, -2]
        diffuse(new, t, k, mask, 2, len(t) - 2)
        MPI.Request.Waitall(requests)
        diffuse(new, t, k, mask, 1, 2)
        diffuse(new, t, k, mask, len(t) - 2, len(t) - 1)
        t, new = new, t
    return t[1:-1, 1:-1], time.perf_counter() - start


if __name__ == "__main__":
    example, shape = runpy.run_path(str(EXAMPLE)), (int(sys.argv[1]), int(sys.argv[2]))
    steps = max(20, 200_000_000 // (shape[0] * shape[1]) // 10)
    import gondwana as gw

    gw.set_threads(1)
    example["run"](shape, 2)
    times: dict[str, list[float]] = {"ours": [], "by hand": []}
    for _ in range(7):
        gw.world.barrier()
        since = time.perf_counter()
        example["run"](shape, 0)
        gw.world.barrier()
        middle = time.perf_counter()
        T = example["run"](shape, steps)
        gw.world.barrier()
        times["ours"].append(time.perf_counter() - middle - (middle - since))  # without the time to make the arrays
        t, seconds = run(example["plate"], shape, steps)
        gw.world.barrier()
        times["by hand"].append(seconds)
    same = gw.world.allgather(bool(np.allclose(T.local.restrict(T.owned).numpy(), t, 1e-12, 1e-15)))
    if gw.world.rank == 0:
        best = {name: min(seconds) / steps * 1e6 for name, seconds in times.items()}
        ratio = best["by hand"] / best["ours"]
        print(shape, {name: f"{us:.1f} us a step" for name, us in best.items()}, f"{ratio:.2f}", all(same))
