"""Speed and regularity of time steps, one-sided and two-sided: the statistics of the memory-kinds study.

A sample is the time of two consecutive steps, since a message may be sent in one step and waited for in the next
(P. Hargrove and D. Bonachea, GASNet-EX memory kinds). The first steps of a job do not count.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gondwana.errors import UsageError
from gondwana_apps.heat.app import DISCARDED
from gondwana_apps.pictures import figure, legend, plain, save, style
from gondwana_bench import processes
from gondwana_bench.heat.job import VARIANTS as VARIANTS
from gondwana_bench.rows import Row, as_csv as rows_as_csv, check_numbers, check_ranks, with_interval
from gondwana_bench.statistics import RESAMPLES

SIZES = (16, 100)
COLUMNS = {
    "variant": "", "median": "two steps, us", "iqr": "IQR, us", "p1": "p1", "p99": "p99", "slowest": "slowest rank",
    "speed": "C/this (95 %)", "spread": "IQR/C's (95 %)", "verdict": "", "verified": "same",
}  # fmt: skip

_BLOCK = 50
"""Consecutive samples that a resample takes together: neighbours in time are alike."""

Samples = list[NDArray[np.float64]]
"""Microseconds of two steps, an array for each job."""


class Job(NamedTuple):
    """The figures of one job.

    Attributes:
        microseconds: time of each step (columns) on each rank (rows), by variant.
        sums: sum of the temperature before the last step, by variant.
    """

    microseconds: Mapping[str, NDArray[np.float64]]
    sums: Mapping[str, float]


def run(size: int, command: processes.Command, steps: int, number: int) -> Job:
    """Run one job. Local: starts ranks, and waits for them.

    Args:
        size: cells a side of the cube of each rank.
        command: starts the ranks of `job`; its options are added.
        steps: number of steps that count.
        number: number of the job; the order of the variants rotates with it.

    Raises:
        UsageError: the job failed.
    """
    names = list(VARIANTS)
    order = [names[(number + place) % len(names)] for place in range(len(names))]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        options = {"size": size, "steps": steps + DISCARDED, "variants": order, "file": str(file)}
        argv = [*command.argv, json.dumps(options)]
        found = processes.result("the job", argv, file, command.variables, successful=True)
    microseconds = {name: np.array(found[name]["nanoseconds"]) * 1e-3 for name in names}
    return Job(microseconds, {name: found[name]["sum"] for name in names})


def rows(size: int, ranks: int, jobs: Sequence[Job]) -> Iterator[Row]:
    """Return a row for each variant. Local.

    Args:
        size: cells a side of the cube of each rank.
        ranks: number of ranks of each job.
        jobs: all that were run.
    """
    native = [pairs(job.microseconds["C"][0]) for job in jobs]
    expected = jobs[0].sums["C"]
    for name, what in VARIANTS.items():
        own = [pairs(job.microseconds[name][0]) for job in jobs]
        pooled = np.concatenate(own)
        slowest = np.concatenate([pairs(job.microseconds[name].max(axis=0)) for job in jobs])
        p1, p25, median, p75, p99 = np.percentile(pooled, [1, 25, 50, 75, 99])
        speed, spread = compare(native, own, np.median), compare(own, native, spread_of)
        yield {
            "variant": name, "what": what, "size": size, "ranks": ranks, "jobs": len(jobs), "samples": len(pooled),
            "median": float(median), "iqr": float(p75 - p25), "p1": float(p1), "p99": float(p99),
            "minimum": float(pooled.min()), "mean": float(pooled.mean()), "sd": float(pooled.std(ddof=1)),
            "slowest": float(np.median(slowest)), "iqr_slowest": float(spread_of(slowest)),
            **with_interval("speed", *speed), **with_interval("spread", *spread),
            "verdict": "" if name == "C" else _verdict(speed, spread),
            "verified": all(abs(job.sums[name] - expected) <= 1e-10 * abs(expected) for job in jobs),
        }  # fmt: skip


def pairs(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times of two consecutive steps, each beginning at another one; the first ones do not count. Local."""
    counted = steps[DISCARDED:]
    return counted[:-1] + counted[1:]


def spread_of(samples: NDArray[np.float64], axis: int | None = None) -> Any:
    """Return the interquartile range. Local."""
    low, high = np.percentile(samples, [25, 75], axis=axis)
    return high - low


def compare(above: Samples, below: Samples, statistic: Any) -> tuple[float, float, float]:
    """Return the ratio of a statistic of two pooled samples, and its 95 % interval by a block bootstrap. Local.

    Args:
        above: samples of the numerator, job by job.
        below: samples of the denominator, job by job.
        statistic: a function of an array and an axis.

    Example:
        >>> steps = [np.full(100, 2.0)]
        >>> compare(steps, [np.full(100, 1.0)], np.median)
        (2.0, 2.0, 2.0)
    """
    random = np.random.default_rng(0)
    ratio = float(statistic(np.concatenate(above)) / statistic(np.concatenate(below)))
    ratios = statistic(_resampled(above, random), axis=1) / statistic(_resampled(below, random), axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return ratio, float(low), float(high)


def _resampled(jobs: Samples, random: np.random.Generator) -> NDArray[np.float64]:
    """Resamples, one a row: of each job as many blocks of consecutive samples as it has."""
    parts = []
    for samples in jobs:
        block = min(_BLOCK, len(samples))
        starts = random.integers(0, len(samples) - block + 1, (RESAMPLES, max(1, len(samples) // block)))
        parts.append(samples[starts[:, :, None] + np.arange(block)].reshape(RESAMPLES, -1))
    return np.concatenate(parts, axis=1)


def _verdict(speed: tuple[float, float, float], spread: tuple[float, float, float]) -> str:
    """Say which is faster and which more regular; a tie where the interval has 1 in it."""
    words = []
    for (_, low, high), better, worse, above in (
        (speed, "faster", "slower", True),
        (spread, "more regular", "less regular", False),
    ):
        if low <= 1.0 <= high:
            words.append(f"tie ({better.split()[-1]})")
        else:
            words.append(better if (low > 1.0) == above else worse)
    return ", ".join(words)


def as_csv(jobs: Mapping[int, Sequence[Job]]) -> str:
    """Return the seconds of every step of every rank as CSV. Local.

    Args:
        jobs: jobs by size.
    """
    lines = (
        [size, number, name, rank, k, f"{t * 1e-6:.9f}"]
        for size, of_size in jobs.items()
        for number, job in enumerate(of_size)
        for name, of_ranks in job.microseconds.items()
        for rank, steps in enumerate(of_ranks.tolist())
        for k, t in enumerate(steps)
    )
    return rows_as_csv(["size", "job", "variant", "rank", "step", "seconds"], lines)


def draw(jobs: Mapping[int, Sequence[Job]], file: str) -> None:
    """Draw histograms of two steps on rank 0, the variants over each other with their medians. Local.

    Args:
        jobs: jobs by size.
        file: the picture, PNG.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    drawn = figure(7.0, 3.2 * len(jobs))
    for axes, (size, of_size) in zip(drawn.subplots(len(jobs), 1, squeeze=False)[:, 0], jobs.items(), strict=True):
        samples = {name: np.concatenate([pairs(job.microseconds[name][0]) for job in of_size]) for name in VARIANTS}
        everything = np.concatenate(list(samples.values()))
        # Variants may differ by a factor of ten.
        bins = np.geomspace(everything.min(), np.percentile(everything, 99), 240)
        at_top = axes.get_xaxis_transform()
        for number, (name, values) in enumerate(samples.items()):
            own = style(number)
            marker = own.pop("marker")
            axes.hist(values, bins, histtype="step", label=name, **own)
            axes.plot(np.median(values), 1.0, marker, color=own["color"], transform=at_top, clip_on=False)
        axes.set_xscale("log")
        plain(axes.xaxis)
        axes.set_xlabel("time of two steps [us], log axis")
        axes.set_ylabel("samples")
        axes.set_title(f"{size}^3 cells a rank; marks at the top: medians", pad=12)
    legend(drawn, drawn.axes[0].get_legend_handles_labels()[0])
    save(drawn, file, f"--plot {file}")


def check(sizes: Sequence[int], ranks: int, steps: int) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_ranks(ranks, "without neighbours there is nothing to compare; give at least 2")
    check_numbers("--sizes", sizes, "numbers of at least 1, such as 16,100")
    if steps < DISCARDED:
        raise UsageError(f"--steps {steps}: give at least {DISCARDED}")
