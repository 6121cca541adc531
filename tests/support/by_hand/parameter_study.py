"""Time the simulations of examples/parameter_study.py in our pools and in others, in turns in the same processes.

The workers are started before: by a plain process beside those of ProcessPoolExecutor, and in a job beside those of
mpi4py.futures, on the same ranks. All of docs/results/parameter-study.json:

python tests/support/by_hand/parameter_study.py --json docs/results/parameter-study.json
gondwana run -n 3 -t 1 tests/support/by_hand/parameter_study.py --json docs/results/parameter-study.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import recording

import gondwana as gw
from gondwana_bench.rows import Row

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
import parameter_study

ROUNDS, WORKERS = 7, 2
TEMPERATURES = np.linspace(1.6, 3.2, 60)
N, SWEEPS = 32, 600


def mapped(pool: Executor) -> tuple[float, list[Any]]:
    """Return the seconds of all simulations in a pool whose workers are there, and what they have found."""
    start = time.perf_counter()
    found = list(pool.map(parameter_study.simulate, TEMPERATURES, *([one] * len(TEMPERATURES) for one in (N, SWEEPS))))
    return time.perf_counter() - start, found


def in_job(open_pool: Callable[[], Any]) -> tuple[float, list[Any]]:
    """Return the same of a pool over the ranks of this job; on others than rank 0 nothing."""
    seconds, found = 1.0, []
    with open_pool() as pool:
        if pool is not None:  # as mpi4py has it: the workers
            list(pool.map(abs, range(10 * WORKERS)))
            seconds, found = mapped(pool)
    return gw.world.bcast(seconds), found


def measured() -> Iterator[Row]:
    """Yield a row for the rival."""
    with ExitStack() as stack:
        runs: dict[str, Callable[[], tuple[float, list[Any]]]] = {}
        if gw.world.size > 1:
            from mpi4py.futures import MPICommExecutor

            rival = "mpi4py.futures"
            runs = {"ours": partial(in_job, gw.WorkerPool), rival: partial(in_job, MPICommExecutor)}
        else:
            rival = "concurrent.futures"
            pools = gw.WorkerPool(WORKERS), ProcessPoolExecutor(WORKERS)
            ours, theirs = (stack.enter_context(pool) for pool in pools)
            runs = {"ours": partial(mapped, ours), rival: partial(mapped, theirs)}
        found = [results for _, results in (run() for run in runs.values())]
        same = all(m == n and np.array_equal(a, b) for (m, a), (n, b) in zip(*found, strict=True))
        times = recording.in_turns({name: lambda run=run: run()[0] for name, run in runs.items()}, ROUNDS)
        case = {"workers": WORKERS, "tasks": len(TEMPERATURES)}
        yield recording.row(case, rival, times[rival], times["ours"], same)


def main() -> None:
    """Measure the study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    recording.record(measured(), "parameter-study", ("workers", "tasks", "ranks"), parser.parse_args().json)


if __name__ == "__main__":
    main()
