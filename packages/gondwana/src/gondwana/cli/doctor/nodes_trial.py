"""The program of one rank on each node, by which ``gondwana doctor`` examines the nodes of an allocation.

Prints one line, "NODES" and the findings as JSON. Argument: a folder in which it may write.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import gondwana as gw
from gondwana.runtime import cache_folder, cores as world_cores
from gondwana.runtime.placement import control_groups

ROUNDS = 100
LARGE = 4 << 20
"""Bytes of the messages that measure the bandwidth."""


def describe() -> dict[str, Any]:
    """Return facts of this node, as text by subject. Local."""
    packages = ("gondwana", "numpy", "numba", "mpi4py")
    try:
        cache = str(cache_folder.private_folder("objects"))
    except OSError as error:
        cache = f"none, since {cache_folder.describe(error)}"
    return {
        "host": platform.node(),
        "launcher": gw.launched_by() or "none",
        "same": {
            "cores": str(world_cores.count()),
            "memory": f"{control_groups.memory() / 2**30:.0f} GiB",
            "shared memory": f"{shutil.disk_usage('/dev/shm').total / 2**30:.1f} GiB",
            "Python": f"{platform.python_version()} ({sys.executable})",
            "packages": ", ".join(f"{name} {metadata.version(name)}" for name in packages),
            "cache": cache,
        },
    }


def network() -> list[tuple[float, float]]:
    """Return the latency [s] and bandwidth [B/s] between rank 0 and each other rank; on others nothing. Collective."""
    found = []
    for other in range(1, gw.world.size):
        times = []
        for size, rounds in ((8, ROUNDS), (LARGE, 4)):
            buffer = np.zeros(size, np.uint8)
            shortest = float("inf")
            for _ in range(rounds + 1):  # the first connects the two
                start = time.perf_counter()
                if gw.world.rank == 0:
                    gw.world.Send(buffer, other)
                    gw.world.Recv(buffer, other)
                elif gw.world.rank == other:
                    gw.world.Recv(buffer, 0)
                    gw.world.Send(buffer, 0)
                shortest = min(shortest, (time.perf_counter() - start) / 2)
            times.append(shortest)
        gw.world.barrier()
        found.append((times[0], LARGE / times[1]))
    return found if gw.world.rank == 0 else []


def dataset(folder: Path) -> str:
    """Write a dataset of 1 MB from all ranks, read it on all, and return the problem, "" without one.

    Collective over all ranks.
    """
    from gondwana.io import checkpoint

    written, found = (gw.zeros(gw.RectDomain((0,), (125_000,))) for _ in range(2))
    written.local.numpy()[...] = np.arange(written.owned.lo[0], written.owned.hi[0])
    checkpoint.save(folder / "trial.bp", {"numbers": written}, step=1)
    checkpoint.load(folder / "trial.bp", {"numbers": found})
    same = bool((written.local.numpy() == found.local.numpy()).all())
    return "" if gw.world.allreduce(same) == gw.world.size else "what was read is not what was written"


def main(folder: Path) -> None:
    """Examine the nodes and print the findings. Collective over all ranks."""
    nodes = gw.world.gather(describe())
    measured = network()
    try:
        problem = dataset(folder)
    except (gw.GondwanaError, ImportError) as error:  # all ranks have it
        problem = str(error).splitlines()[0]
    if nodes is not None:
        print("NODES " + json.dumps({"nodes": nodes, "network": measured, "dataset": problem}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
