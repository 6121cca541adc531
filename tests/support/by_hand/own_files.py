"""Time `gw.save` and `gw.load` beside h5py and zarr by hand, in turns in the same ranks.

gondwana run -n 2 -t 1 tests/support/by_hand/own_files.py 256 /tmp
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import zarr
from mpi4py import MPI

import gondwana as gw

ROUNDS = 7
COLUMNS = 4096
COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size


def hdf5_by_hand(path: Path, mine: np.ndarray, rows: int) -> None:
    """Gather all rows on rank 0 by mpi4py, which writes them."""
    whole = mine if SIZE == 1 else np.empty((rows, COLUMNS)) if RANK == 0 else None
    counts = COMM.gather(mine.size)
    if SIZE > 1:
        COMM.Gatherv(mine, [whole, counts] if RANK == 0 else None)
    if RANK == 0:
        with h5py.File(path, "w") as file:
            file["T"] = whole


def hdf5_read_by_hand(path: Path, mine: np.ndarray, rows: int) -> None:
    """Each rank reads its rows: faster than to scatter what rank 0 has read."""
    with h5py.File(path, "r") as file:
        file["T"].read_direct(mine, np.s_[first_of(rows) : first_of(rows) + len(mine)])


def zarr_by_hand(path: Path, mine: np.ndarray, rows: int) -> None:
    """Each rank writes its own chunks, of about 32 MiB, without compression."""
    if RANK == 0:
        chunk = len(mine) // max(1, mine.nbytes >> 25)
        group = zarr.create_group(path)
        group.create_array("T", shape=(rows, COLUMNS), chunks=(chunk, COLUMNS), dtype="f8", compressors=None)
    gw.world.barrier()
    zarr.open_array(path / "T", mode="r+")[first_of(rows) : first_of(rows) + len(mine)] = mine
    gw.world.barrier()


def zarr_read_by_hand(path: Path, mine: np.ndarray, rows: int) -> None:
    """Each rank reads its rows."""
    mine[...] = zarr.open_array(path / "T", mode="r")[first_of(rows) : first_of(rows) + len(mine)]


def first_of(rows: int) -> int:
    """The first row of this rank."""
    return RANK * (rows // SIZE)


def seconds(act: Callable[[], object]) -> float:
    """Time of an act of all ranks."""
    gw.world.barrier()
    start = time.perf_counter()
    act()
    gw.world.barrier()
    return time.perf_counter() - start


def main(mib: int, place: str) -> None:
    """Print the medians of both, and by hand / ours."""
    folder = Path(COMM.bcast(tempfile.mkdtemp(dir=place) if RANK == 0 else None))
    rows = (mib << 20) // (8 * COLUMNS)
    array = gw.from_function(lambda x, y: x + 1e-4 * y, (rows, COLUMNS), grid=(SIZE, 1))
    mine = array.values.copy()
    for ending, write, read in (
        (".h5", hdf5_by_hand, hdf5_read_by_hand),
        (".zarr", zarr_by_hand, zarr_read_by_hand),
    ):
        ours, theirs = folder / f"ours{ending}", folder / f"theirs{ending}"
        acts: dict[str, Callable[[], object]] = {
            "save": lambda ours=ours: gw.save(ours, T=array),
            "load": lambda ours=ours: gw.load(ours, like=array),
            "write by hand": lambda theirs=theirs, write=write: write(theirs, mine, rows),
            "read by hand": lambda theirs=theirs, read=read: read(theirs, np.empty_like(mine), rows),
        }
        times: dict[str, list[float]] = {name: [] for name in acts}
        for turn in range(ROUNDS + 1):
            writes, reads = list(acts.items())[::2], list(acts.items())[1::2]
            for name, act in (pair for acts_of in (writes, reads) for pair in acts_of[:: -1 if turn % 2 else 1]):
                took = seconds(act)
                if turn:
                    times[name].append(took)
            if RANK == 0:
                for path in (ours, theirs):
                    path.unlink() if path.is_file() else shutil.rmtree(path)
        if RANK == 0:
            for ours_name, hand_name in (("save", "write by hand"), ("load", "read by hand")):
                ratios = sorted(h / o for o, h in zip(times[ours_name], times[hand_name], strict=True))
                text = ", ".join(f"{name} {statistics.median(times[name]):.3f} s" for name in (ours_name, hand_name))
                middle = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                print(f"{ending} {mib} MiB, {SIZE} ranks: {text}, by hand / ours {middle}", flush=True)
    gw.world.barrier()
    if RANK == 0:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
