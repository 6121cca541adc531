"""One job of the benchmark: its ranks write and read the same blocks as one dataset, and as a file of each rank."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.io import adios
from gondwana.io.dataset import Dataset
from gondwana.io.layout import block_of, cells_of
from gondwana.io.writer import StepWriter
from gondwana.results import write_json
from gondwana_bench.processes import job_options
from gondwana_bench.scaling.applications import grow

Cells = NDArray[np.float64]


class Way(NamedTuple):
    """A way of writing and reading.

    Attributes:
        open: returns a context manager whose function writes a step; at its end all is written and closed.
        read: returns this rank's cells of each step.
        path: the data that this rank writes to the disk.
    """

    open: Callable[[], AbstractContextManager[Callable[[int], None]]]
    read: Callable[[], Iterator[Cells]]
    path: Path


def ways(u: gw.GlobalArray, steps: int, folder: Path) -> dict[str, Way]:
    """Return the ways. Local.

    Args:
        u: the array; before each step, `_change` changes it.
        steps: number of steps.
        folder: folder for the datasets.
    """
    rank = u.team.rank
    shared, own = folder / "all.bp", folder / f"rank-{rank}.bp"
    return {
        "one dataset": Way(lambda: _open_shared(shared, u), lambda: _read_shared(shared, u, steps), shared),
        "a file a rank": Way(lambda: _open_own(own, u), lambda: _read_own(own, steps), own),
    }


@contextmanager
def _open_shared(path: Path, u: gw.GlobalArray) -> Iterator[Callable[[int], None]]:
    with StepWriter(path, {"U": u}, team=u.team) as out:
        out.flush()  # the writing process starts meanwhile, which belongs to the opening
        yield lambda step: out.write(step, {"U": u})


def _read_shared(path: Path, u: gw.GlobalArray, steps: int) -> Iterator[Cells]:
    block = block_of(u, u.team.rank)
    with Dataset(path) as data:
        for step in range(steps):
            yield data.read("U", step, block.start, block.count)


@contextmanager
def _open_own(path: Path, u: gw.GlobalArray) -> Iterator[Callable[[int], None]]:
    cells = cells_of(u)

    def write(step: int) -> None:
        out.begin_step()
        out.write("U", cells, cells.shape, [0] * cells.ndim, cells.shape)
        out.end_step()

    with adios.load().Stream(str(path), "w") as out:
        yield write


def _read_own(path: Path, steps: int) -> Iterator[Cells]:
    # Not closed, which would leave a profile in /tmp; its end closes the files.
    data = adios.load().FileReader(str(path))
    for step in range(steps):
        yield data.read("U", step_selection=[step, 1])


def _change(u: gw.GlobalArray, step: int) -> None:
    """Mark the first plane of this rank's cells with the number of a step."""
    cells_of(u)[0] = step


def measure(way: Way, u: gw.GlobalArray, steps: int) -> dict[str, Any]:
    """Write, wait for the disk, drop the files from the system's memory, and read. Collective over the team.

    Args:
        way: way of writing and reading.
        u: the array.
        steps: number of steps.

    Returns:
        Seconds from when all ranks began until all were done: to `open`, to `write` and close, to `sync` with the disk
        as well, to `read`; and whether every rank has read what it has written.
    """
    team = u.team
    opening = _together(team)
    with way.open() as write:
        began = _together(team)
        for step in range(steps):
            _change(u, step)
            write(step)
    written = _together(team)
    _for_files(way.path, os.fsync)
    synced = _together(team)
    _for_files(way.path, lambda file: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED))
    reading = _together(team)
    found = list(way.read())
    read = _together(team)
    same = []
    for step, cells in enumerate(found):
        _change(u, step)
        same.append(np.array_equal(cells, cells_of(u)))
    verified = all(team.allgather(len(same) == steps and all(same)))
    return {
        "open": began - opening,
        "write": written - began,
        "sync": synced - began,
        "read": read - reading,
        "verified": verified,
    }


def _together(team: gw.Team) -> float:
    team.barrier()
    return perf_counter()


def _for_files(path: Path, action: Callable[[int], None]) -> None:
    """Open the files of a dataset and do something with each. Several ranks may do it with the same ones."""
    for file in (file for file in path.rglob("*") if file.is_file()):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            action(descriptor)
        finally:
            os.close(descriptor)


def main(options: dict[str, Any]) -> None:
    """Measure the ways in the order given. Collective over the world.

    Args:
        options: `size`, `steps`, the `folder` for datasets, its `number`, and the result `file`.
    """
    team = gw.world
    u = gw.zeros(gw.RectDomain((0, 0, 0), grow(options["size"], team.size)), team=team)
    cells_of(u)[...] = np.random.default_rng(team.rank).random(cells_of(u).shape)
    known = ways(u, options["steps"], Path(options["folder"]))
    names = list(known)
    found = {}
    for place in range(len(names)):
        name = names[(options["number"] + place) % len(names)]
        found[name] = measure(known[name], u, options["steps"])
        team.barrier()
        shutil.rmtree(known[name].path, ignore_errors=True)
        team.barrier()
    if team.rank == 0:
        write_json(options["file"], {"ways": found, "nbytes": team.size * cells_of(u).nbytes * options["steps"]})


if __name__ == "__main__":
    main(job_options())
