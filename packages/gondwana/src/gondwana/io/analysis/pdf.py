"""Writing of the histograms of a dataset as a dataset, on any number of ranks.

``U/pdf`` {slices, bins} holds the counts per slice, ``U/bins`` {bins} the left edges and ``U/range`` {2} the limits of
the bins, ``U-V/joint`` {bins, bins} the joint counts, and ``step`` the simulation step, for each step that was chosen.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from gondwana.io.adios import BPWriter
from gondwana.io.analysis.histograms import Limits, histogram, joint_histogram, limits_of
from gondwana.io.dataset import Dataset
from gondwana.io.paths import StrPath, check_output
from gondwana.runtime import exits
from gondwana.teams import Team, world


def write_pdfs(
    source: StrPath,
    target: StrPath,
    names: Sequence[str],
    places: Sequence[int],
    *,
    bins: int = 100,
    team: Team = world,
) -> Path:
    """Write the histograms of some steps of a dataset. Collective over team. Blocking.

    All steps share their bins, from the least to the greatest value of all of them, so that they can be compared.

    Args:
        source: the dataset to read.
        target: the dataset to write; it has its name once it is complete.
        names: the fields; each two neighbours in this list also get a joint histogram.
        places: the indices of the steps in the dataset.
        bins: the number of bins.
        team: the ranks that count.
    """
    final = Path(target).absolute()
    unfinished = final.with_name(final.name + ".unfinished")
    with Dataset(source) as data:
        limits = {name: _common_limits(data, name, places, team) for name in names}
        pairs = [
            (one, other)
            for one, other in pairwise(names)
            if all(data.shape_of(one, place) == data.shape_of(other, place) for place in places)
        ]
        error: Exception | None = None
        out: BPWriter | None = None
        try:
            if team.rank == 0:
                check_output(final)
                out = BPWriter(unfinished)
                for name in names:
                    out.attribute(f"{name}/pdf/dims", [data.dims(name)[0], f"{name}_bin"])
                    out.attribute(f"{name}/bins/dims", [f"{name}_bin"])
                for one, other in pairs:
                    out.attribute(f"{one}-{other}/joint/dims", [f"{one}_bin", f"{other}_bin"])
        except Exception as problem:
            error = problem
        team.agree(error)
        for place in places:
            found = {name: histogram(data, name, place, bins=bins, limits=limits[name], team=team) for name in names}
            joint = {
                pair: joint_histogram(
                    data, pair, place, bins=bins, limits=(limits[pair[0]], limits[pair[1]]), team=team
                )
                for pair in pairs
            }
            if out is None:
                continue
            out.begin_step()
            for name, counted in found.items():
                out.put(f"{name}/pdf", counted.slices, (0, 0), counted.slices.shape)
                out.put(f"{name}/bins", counted.edges[:-1], (0,), (bins,))
                out.put(f"{name}/range", counted.edges[[0, -1]], (0,), (2,))
            for (one, other), counts in joint.items():
                out.put(f"{one}-{other}/joint", counts, (0, 0), counts.shape)
            out.put_scalar("step", int(data.steps[place]), np.int32)
            out.end_step()
    if out is not None:
        out.close()
        if final.exists():
            shutil.rmtree(final)
        unfinished.rename(final)
    team.barrier()
    return final


def _common_limits(data: Dataset, name: str, places: Sequence[int], team: Team) -> Limits:
    each = [limits_of(data, name, place, team=team) for place in places]
    return min(low for low, _ in each), max(high for _, high in each)


def main() -> None:
    """Write the histograms that the command line asks for; a program for ``gondwana run``. Collective over world."""
    exits.report_in_one_line()
    parser = argparse.ArgumentParser(description="Write the histograms of a dataset.")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--bins", type=int, default=100)
    parser.add_argument("--names", nargs="+", required=True)
    parser.add_argument("--places", nargs="+", type=int, required=True)
    given = parser.parse_args()
    write_pdfs(given.source, given.target, given.names, given.places, bins=given.bins)


if __name__ == "__main__":
    main()
