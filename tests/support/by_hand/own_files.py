"""Time `gw.save` and `gw.load` beside h5py and zarr by hand, in turns in the same ranks. All of own-files.json:

for n in 1 2; do
    gondwana run -n $n -t 1 tests/support/by_hand/own_files.py 256 --json docs/results/own-files.json; done
"""

from __future__ import annotations

import argparse
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import recording
import zarr
from mpi4py import MPI

import gondwana as gw
from gondwana_bench.rows import Row

# Fresh memory of a virtual machine costs four times as much in some rounds, ours or theirs: medians need many.
ROUNDS = 25
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


FORMATS = {
    "HDF5": (".h5", "h5py and mpi4py", hdf5_by_hand, hdf5_read_by_hand),
    "Zarr": (".zarr", "zarr", zarr_by_hand, zarr_read_by_hand),
}


def measured(mib: int, folder: Path) -> Iterator[Row]:
    """Yield rows for what is saved and loaded in each format."""
    rows = (mib << 20) // (8 * COLUMNS)
    array = gw.from_function(lambda x, y: x + 1e-4 * y, (rows, COLUMNS), grid=(SIZE, 1))
    mine = array.values.copy()
    for name, (ending, rival, write, read) in FORMATS.items():
        ours, theirs = folder / f"ours{ending}", folder / f"theirs{ending}"

        def loaded(ours: Path = ours) -> np.ndarray:
            return gw.load(ours, like=array)["T"].values

        def read_by_hand(theirs: Path = theirs, read: Callable[..., None] = read) -> np.ndarray:
            read(theirs, found := np.empty_like(mine), rows)
            return found

        acts: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "save": (functools.partial(gw.save, ours, T=array), functools.partial(write, theirs, mine, rows)),
            "load": (loaded, read_by_hand),
        }
        for act, both in acts.items():
            found = [run() for run in both]  # the first time; then both files are there
            wrong = [act == "load" and not np.array_equal(one, mine) for one in found]
            runs = dict(zip(("ours", "theirs"), both, strict=True))
            timed = {
                who: functools.partial(seconds_of, run, act, path)
                for (who, run), path in zip(runs.items(), (ours, theirs), strict=True)
            }
            times = recording.in_turns(timed, ROUNDS)
            verified = not gw.world.allreduce(sum(wrong))
            yield recording.row(
                {"format": name, "act": act, "mib": mib}, rival, times["theirs"], times["ours"], verified
            )


def seconds_of(run: Callable[[], object], act: str, path: Path) -> float:
    """Return the time of an act; what is saved, is saved anew."""
    if act == "save" and RANK == 0 and path.exists():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return recording.seconds_of(run)


def main() -> None:
    """Measure files of an array of some MiB."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("mib", type=int)
    parser.add_argument("--folder", help="where the files are; unless given, that of temporary files")
    parser.add_argument("--json", type=Path, help="collection of results to which this one is added")
    given = parser.parse_args()
    folder = Path(COMM.bcast(tempfile.mkdtemp(dir=given.folder) if RANK == 0 else None))
    recording.record(measured(given.mib, folder), "own-files", ("mib", "ranks"), given.json)
    gw.world.barrier()
    if RANK == 0:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
