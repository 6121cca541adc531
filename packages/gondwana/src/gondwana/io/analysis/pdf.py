"""Histograms of fields: per slice, of the whole volume, and joint ones; identical on any number of ranks.

All slices of a step share one set of bins, so that they can be compared and added. The counts are integers and equal
those of ``numpy.histogram`` with the same range: bins include their left edge, the last one both. If all values of a
step are equal, the range is widened by a half to both sides, so that they fall into the central bin.

Histograms of a dataset are written as a dataset: ``U/pdf`` {slices, bins} holds the counts per slice, ``U/bins`` {bins}
the left edges and ``U/range`` {2} the limits of the bins, ``U-V/joint`` {bins, bins} the joint counts, and ``step`` the
simulation step, for each chosen step.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.io.adios import BPWriter
from gondwana.io.dataset import Dataset
from gondwana.io.paths import UNFINISHED, StrPath, check_output, publish
from gondwana.runtime import exits
from gondwana.teams import IN_PLACE, MAX, MIN, Team, world
from gondwana.teams.team import failing_together

Limits = tuple[float, float]

#: Slices are read in portions of about this size, in bytes.
_PORTION = 64 << 20


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
        target: the dataset to write; it gets its name once it is complete.
        names: the fields; each two neighbours in this list also get a joint histogram.
        places: the indices of the steps in the dataset.
        bins: the number of bins.
        team: the ranks that count.
    """
    final = Path(target).absolute()
    unfinished = final.with_name(final.name + UNFINISHED)
    with Dataset(source) as data:
        limits = {name: _common_limits(data, name, places, team) for name in names}
        pairs = [
            (one, other)
            for one, other in pairwise(names)
            if all(data.shape_of(one, place) == data.shape_of(other, place) for place in places)
        ]
        out: BPWriter | None = None
        with failing_together(team):
            if team.rank == 0:
                check_output(final)
                out = BPWriter(unfinished)
                for name in names:
                    out.attribute(f"{name}/pdf/dims", [data.dims(name)[0], f"{name}_bin"])
                    out.attribute(f"{name}/bins/dims", [f"{name}_bin"])
                for one, other in pairs:
                    out.attribute(f"{one}-{other}/joint/dims", [f"{one}_bin", f"{other}_bin"])
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
        publish(unfinished, final)
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


@dataclass(frozen=True)
class Histogram:
    """Counts of values, per slice along the variable's first axis.

    Attributes:
        edges: the limits of the bins, one more than bins.
        slices: the counts, of shape (slices, bins).
    """

    edges: npt.NDArray[np.float64]
    slices: npt.NDArray[np.int64]

    @property
    def whole(self) -> npt.NDArray[np.int64]:
        """The counts of the whole volume, of shape (bins,)."""
        total: npt.NDArray[np.int64] = self.slices.sum(axis=0)
        return total


def limits_of(data: Dataset, name: str, place: int, *, team: Team = world) -> Limits:
    """Return the least and the greatest value of a field in one step, exactly. Collective over team. Blocking.

    Raises:
        UsageError: the field has non-finite values.
    """
    least, greatest = np.inf, -np.inf
    for _, cells in _portions(data, name, place, team):
        least, greatest = np.minimum(least, cells.min()), np.maximum(greatest, cells.max())
    # Comparisons with not-a-number are false, so it is sent as the largest possible range.
    finite = not (np.isnan(least) or np.isnan(greatest))
    low = team.allreduce(float(least) if finite else -np.inf, MIN)
    high = team.allreduce(float(greatest) if finite else np.inf, MAX)
    if not np.isfinite(low) or not np.isfinite(high):
        raise UsageError(f"{name!r} has values that are not finite in step {data.steps[place]}: it has no histogram")
    return low, high


def histogram(
    data: Dataset, name: str, place: int, *, bins: int = 100, limits: Limits | None = None, team: Team = world
) -> Histogram:
    """Count the values of a field in one step; ranks share the slices. Collective over team. Blocking.

    Args:
        data: the dataset, open on every rank.
        name: the field.
        place: the index of the step in the dataset, from 0, or from the end if negative.
        bins: the number of bins.
        limits: the range of the bins, the same for all ranks; values outside are not counted. None: from the least to
            the greatest value of this step.
        team: the ranks that count.

    Returns:
        The counts, whole on every rank.
    """
    _check_bins(bins)
    low, high = limits or limits_of(data, name, place, team=team)
    counts = np.zeros((data.shape_of(name, place)[0], bins), np.int64)
    for first, cells in _portions(data, name, place, team):
        for offset, values in enumerate(cells):
            counts[first + offset] = np.histogram(values, bins, (low, high))[0]
    team.Allreduce(IN_PLACE, counts)
    edges = np.histogram_bin_edges(np.empty(0, data.variable(name).dtype), bins, (low, high))
    return Histogram(edges.astype(np.float64), counts)


def joint_histogram(
    data: Dataset,
    names: tuple[str, str],
    place: int,
    *,
    bins: int = 100,
    limits: tuple[Limits, Limits] | None = None,
    team: Team = world,
) -> npt.NDArray[np.int64]:
    """Count how often values of two fields occur together in one step. Collective over team. Blocking.

    Args:
        data: the dataset, open on every rank.
        names: two fields of one shape.
        place: the index of the step in the dataset.
        bins: the number of bins of each.
        limits: the ranges of both; None: from the least to the greatest value.
        team: the ranks that count.

    Returns:
        The counts, of shape (bins, bins), whole on every rank: the first field along the first axis.
    """
    _check_bins(bins)
    one, other = names
    if data.shape_of(one, place) != data.shape_of(other, place):
        raise UsageError(f"{one!r} and {other!r} have different shapes: they have no joint histogram")
    ranges = limits or (limits_of(data, one, place, team=team), limits_of(data, other, place, team=team))
    # numpy.histogram2d widens a range without extent as numpy.histogram does.
    counts = np.zeros((bins, bins), np.int64)
    pairs = zip(_portions(data, one, place, team), _portions(data, other, place, team), strict=True)
    for (_, first), (_, second) in pairs:
        counts += np.histogram2d(first.ravel(), second.ravel(), bins, ranges)[0].astype(np.int64)
    team.Allreduce(IN_PLACE, counts)
    return counts


def slab(slices: int, rank: int, size: int) -> range:
    """Return the slices of one rank, in shares that differ by at most one, the larger ones first. Local.

    Example:
        >>> [len(slab(10, rank, 4)) for rank in range(4)]
        [3, 3, 2, 2]
    """
    share, rest = divmod(slices, size)
    first = rank * share + min(rank, rest)
    return range(first, first + share + (rank < rest))


def _portions(data: Dataset, name: str, place: int, team: Team) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Read this rank's slices in portions, each with the number of its first slice."""
    shape = data.shape_of(name, place)
    if not shape:
        raise UsageError(f"{name!r} is one number a step: it has no histogram")
    slice_shape: Sequence[int] = shape[1:]
    at_once = max(1, _PORTION // max(1, prod(slice_shape) * data.variable(name).dtype.itemsize))
    mine = slab(shape[0], team.rank, team.size)
    for first in range(mine.start, mine.stop, at_once):
        count = min(at_once, mine.stop - first)
        yield first, data.read(name, place, [first, *(0 for _ in slice_shape)], [count, *slice_shape])


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise UsageError(f"{bins} bins: legal is one or more")


if __name__ == "__main__":
    main()
