"""The program of a job that starts: it connects, prints the resources of its ranks, and ends."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

OURS, USED, STEPS, FIRST, MPI4PY = "ours", "ours, used", "ours, steps", "ours, first steps", "mpi4py"
"""Kinds of jobs: connect; use everything that ranks share, too; do steps of README's program, with an
empty cache or not; connect by mpi4py alone."""


def main(what: str) -> None:
    """Do a kind of job, and have rank 0 print the sum of the memory and the most descriptors, as JSON. Collective."""
    if what == MPI4PY:
        import numpy  # noqa: F401 - what every program with mpi4py imports

        comm = importlib.import_module("mpi4py.MPI").COMM_WORLD
        comm.Barrier()
        found, rank = comm.allgather(_taken()), comm.rank
    else:
        import gondwana as gw

        gw.world.barrier()
        {USED: use, STEPS: step, FIRST: step}.get(what, lambda: None)()
        found, rank = gw.world.allgather(_taken()), gw.world.rank
    if rank == 0:
        kib, descriptors = zip(*found, strict=True)
        print(json.dumps([sum(kib), max(descriptors)]))


def use() -> None:
    """Use teams, collectives, ghosts, one-sided access, signals and remote calls, and check each. Collective."""
    import numpy as np

    import gondwana as gw

    world, everyone = gw.world, range(gw.world.size)
    for team in (world, world.split(world.rank % 8), world.node):
        assert team is not None
        total = np.empty(3)
        team.Allreduce(np.full(3, float(team.rank)), total)
        assert total.tolist() == 3 * [team.size * (team.size - 1) / 2]

    cells = np.arange(4096.0).reshape(16, 16, 16)
    field = gw.from_numpy(cells, ghost=1, periodic=True)
    field.exchange(corners=True).wait()
    seen = tuple(slice(a + 1, b + 1) for a, b in zip(field.local.domain.lo, field.local.domain.hi, strict=True))
    assert (field.local.numpy() == np.pad(cells, 1, mode="wrap")[seen]).all()

    segment = gw.Segment(world, 8 * world.size)
    arrived = gw.Signal(world)
    own = np.array([float(world.rank)])
    for rank in everyone:
        gw.copy(own, segment.pointer(rank, float) + world.rank, 1, notify=arrived).wait()
    arrived.wait(world.size)
    assert (segment.view(world.rank).view(float) == np.arange(world.size)).all()

    answers = [gw.rpc(rank, _identify, world.rank) for rank in everyone]
    assert [answer.result() for answer in answers] == [(rank, world.rank) for rank in everyone]


def step() -> None:
    """Do a hundred steps of heat conduction on 64^3 cells, as README's program. Collective."""
    import gondwana as gw

    @gw.foreach
    def diffuse(p: Any, new: Any, old: Any, k: float) -> None:
        around = old[p + gw.X] + old[p - gw.X] + old[p + gw.Y] + old[p - gw.Y] + old[p + gw.Z] + old[p - gw.Z]
        new[p] = old[p] + k * (around - 6.0 * old[p])

    old = gw.zeros(gw.RectDomain((0, 0, 0), (64, 64, 64)), ghost=1, periodic=True)
    new = gw.zeros_like(old)
    for _ in range(100):
        ghosts = old.exchange()
        diffuse(old.inner, new, old, 0.1)
        ghosts.wait()
        diffuse(old.rim, new, old, 0.1)
        old, new = new, old


def _identify(caller: int) -> tuple[int, int]:
    import gondwana as gw

    return gw.world.rank, caller


def _taken() -> tuple[int, int]:
    """Return this process's proportional share of the memory that it has resident [KiB], and its open descriptors."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib, len(os.listdir("/proc/self/fd")) - 1  # without that of the folder itself


if __name__ == "__main__":
    main(sys.argv[1])
