"""Bandwidth of writing and reading on several numbers of ranks, each with as much data, beside plain ADIOS2."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gondwana.errors import UsageError
from gondwana.io.paths import check_output
from gondwana.runtime import cores
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.pictures import figure, legend, save, style
from gondwana_bench import processes
from gondwana_bench.rows import Row, as_csv as rows_as_csv, columns, relative
from gondwana_bench.scaling.steps import over_ranks
from gondwana_bench.statistics import summarize

RANKS = "1,2,4"
WAYS = {
    "one dataset": "the ranks of a node hand their blocks to one writer",
    "a file a rank": "plain ADIOS2 without MPI: each rank writes and reads its own dataset",
}
PARTS = {"write": "written", "sync": "written and on the disk", "read": "read"}
"""The timed parts, and the state after each."""

COLUMNS = columns(
    "ranks beyond_cores way mib open write sync read write_ratio sync_ratio read_ratio verified",
    beyond_cores="beyond cores", way="", mib="MiB", open="open, s", write="write, MiB/s", sync="with fsync",
    write_ratio="write/plain (95 %)", sync_ratio="with fsync", read_ratio="read", verified="same",
)  # fmt: skip

_PLAIN = "a file a rank"
_COPIES = 6
"""Upper bound of the memory of a job, as a multiple of a step: the array, two staged, the data read."""


def measure(commands: Mapping[int, processes.Command], size: int, steps: int, folder: Path, jobs: int) -> Iterator[Row]:
    """Run a job on every number of ranks in each round. Local: starts ranks, and waits for them.

    Args:
        commands: start the ranks of `job`, by their number; options are added.
        size: cells a side of the cube of each rank.
        steps: number of steps that are written.
        folder: folder for the datasets, on the disk to be measured.
        jobs: rounds.

    Returns:
        The results of each job, with its number of `ranks`.

    Raises:
        UsageError: a job failed.
    """
    for number in range(jobs):
        for ranks, command in commands.items():
            with tempfile.TemporaryDirectory(dir=folder, prefix="gondwana-io-") as place:
                file = Path(place) / "result.json"
                options = {"size": size, "steps": steps, "folder": place, "number": number, "file": str(file)}
                argv, what = [*command.argv, json.dumps(options)], f"the job with {ranks} rank{'s' * (ranks > 1)}"
                yield {"ranks": ranks, **processes.result(what, argv, file, command.variables, successful=True)}


def rows(measured: Sequence[Row]) -> list[Row]:
    """Return a row for each way on each number of ranks: MiB/s, and ratios of the bandwidths to plain ADIOS2. Local.

    Args:
        measured: results of `measure`.
    """
    found = []
    for ranks in sorted({job["ranks"] for job in measured}):
        own = [job for job in measured if job["ranks"] == ranks]
        mib = own[0]["nbytes"] / 2**20
        for way in WAYS:
            row = {
                "ranks": ranks, "beyond_cores": ranks > cores.count(), "cores": cores.count(), "way": way,
                "what": WAYS[way], "mib": mib, "jobs": len(own),
                "open": statistics.median(job["ways"][way]["open"] for job in own),
                "verified": all(job["ways"][way]["verified"] for job in own),
            }  # fmt: skip
            for part in PARTS:
                seconds = [job["ways"][way][part] for job in own]
                plain = None if way == _PLAIN else [job["ways"][_PLAIN][part] for job in own]
                row |= {part: mib / summarize(seconds).median, f"{part}_seconds": seconds}
                row |= relative(plain, seconds, f"{part}_ratio")
            found.append(row)
    return found


def as_csv(found: Sequence[Row]) -> str:
    """Return the seconds of every job as CSV. Local."""
    lines = (
        [row["ranks"], row["beyond_cores"], row["way"], f"{row['mib']:.6g}", number]
        + [f"{row[f'{part}_seconds'][number]:.6f}" for part in PARTS]
        for row in found
        for number in range(row["jobs"])
    )
    return rows_as_csv(["ranks", "beyond_cores", "way", "MiB", "job", *(f"{part}_s" for part in PARTS)], lines)


def draw(found: Sequence[Row], file: str) -> None:
    """Draw seconds and bandwidth over ranks, a column for each part; hollow marks: more ranks than cores. Local.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    drawn = figure(4.0 * len(PARTS), 6.5)
    ranks = sorted({row["ranks"] for row in found})
    for (seconds, bandwidth), (part, title) in zip(drawn.subplots(2, len(PARTS)).T, PARTS.items(), strict=True):
        for number, way in enumerate(WAYS):
            own = [row for row in found if row["way"] == way]
            middle = [statistics.median(row[f"{part}_seconds"]) for row in own]
            line = style(number)
            color, marker = line["color"], line.pop("marker")
            for axes, values in (seconds, middle), (bandwidth, [row[part] for row in own]):
                axes.plot(ranks, values, **line, linewidth=1, label=way)
                for row, value in zip(own, values, strict=True):
                    face = "white" if row["beyond_cores"] else color
                    axes.plot(row["ranks"], value, marker, color=color, markerfacecolor=face)
            for row in own:
                times = row[f"{part}_seconds"]
                seconds.vlines(row["ranks"], min(times), max(times), color=color, linewidth=1)
        seconds.set_title(title)
        for axes, label in (seconds, "seconds (median, extremes of jobs)"), (bandwidth, "MiB/s"):
            over_ranks(axes, ranks, "ranks (hollow: more than cores)")
            axes.set_ylim(bottom=0.0)
            axes.set_ylabel(label)
    legend(drawn, drawn.axes[0].get_legend_handles_labels()[0])
    save(drawn, file, f"--plot {file}")


def check(size: int, steps: int, ranks: int, folder: Path) -> None:
    """Check that the data fit into memory and on the disk. Local.

    Raises:
        UsageError: they do not fit, or the folder cannot be written to.
    """
    step = 8 * size**3 * ranks
    if not folder.is_dir():
        raise UsageError(f"--folder {folder}: there is no such folder; name one on the disk to be measured")
    needed, free = (_COPIES + steps) * step, available_memory()
    if needed > free:
        raise UsageError(
            f"--size {size}: {steps} steps of {ranks} ranks need {in_gib(needed)} of memory and {in_gib(free)} are "
            "free; give a smaller size, fewer steps or fewer ranks"
        )
    check_output(folder / "all.bp", steps * step)
