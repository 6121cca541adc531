"""Our NAS benchmarks beside the official programs, interleaved, on the same ranks."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gondwana.errors import UsageError
from gondwana_bench.npb import binaries
from gondwana_bench.npb.jobs import Job, run
from gondwana_bench.processes import last_words, our_command
from gondwana_bench.rows import Figure, Row, both, grouped, relative
from gondwana_bench.statistics import summarize

TIME = {
    "benchmark": "", "class": "class", "ranks": "ranks", "variant": "variant", "official_median": "official [s]",
    "median": "ours [s]", "ratio": "official/ours", "memory_ratio": "memory", "rss_ratio": "RSS",
    "verified": "verified",
}  # fmt: skip
COMMUNICATION = {
    "benchmark": "", "class": "class", "ranks": "ranks", "variant": "variant",
    "official_communication": "official [s]", "communication": "ours [s]", "share": "of our time",
}  # fmt: skip
SCALING = {
    "benchmark": "", "class": "class", "variant": "variant", "ranks": "ranks", "official_median": "official [s]",
    "median": "ours [s]", "official_speedup": "official speed-up", "speedup": "our speed-up",
}  # fmt: skip

_FIGURES: dict[str, Figure] = {
    "median": statistics.median, "seconds": lambda of: asdict(summarize(of)), "samples": list,
}  # fmt: skip
_TIMERS = {"NPB_TIMER_FLAG": "1"}
_NO_TIMERS = {"NPB_TIMER_FLAG": "0"}

StartOfficial = Callable[[int, Path, Mapping[str, str]], Job]
"""Returns the job that runs an official program on a number of ranks, with further variables."""


@dataclass(frozen=True)
class Case:
    """A comparison of variants of ours with an official program, if there is one, on the same ranks."""

    benchmark: str
    letter: str
    ranks: int
    variants: tuple[str, ...]
    program: Path | None


@dataclass
class _Samples:
    """One value a round."""

    mops: list[float] = field(default_factory=list)
    verified: list[bool] = field(default_factory=list)
    rss: list[int | None] = field(default_factory=list)
    memory: list[int | None] = field(default_factory=list)
    communication: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    result: Row = field(default_factory=dict)


def our_job(case: Case, variant: str, file: Path, variables: Mapping[str, str]) -> Job:
    """Return the job that runs a variant of ours, one thread a rank. Local."""
    options = ["--class", case.letter, "--variant", variant, "--json", str(file)]
    return Job(
        our_command(case.ranks, f"npb-{case.benchmark}", *options),
        {**os.environ, **variables},
        lambda command: list(command[1:4]) == ["-P", "-m", "gondwana.cli.rank"],
    )


def measure(cases: Iterable[Case], official: StartOfficial, repeat: int) -> Iterator[Row]:
    """Run every case and compare. Local: starts jobs, one after another.

    In each round every program runs once, in an order that rotates. Then come rounds with the timers of sections,
    whose own cost must not count.

    Args:
        cases: the cases.
        official: function that starts an official program.
        repeat: rounds.

    Returns:
        A row for each variant of each case.

    Raises:
        UsageError: a program failed.
    """
    for case in cases:
        # The official program has no name.
        names = case.variants if case.program is None else ("", *case.variants)
        samples = {name: _Samples() for name in names}
        for number in range(repeat + (repeat + 1) // 2):
            variables = _NO_TIMERS if number < repeat else _TIMERS
            for position in range(len(names)):
                name = names[(number + position) % len(names)]
                _run_once(case, name, official, variables, samples[name], timed=number < repeat)
        for variant in case.variants:
            yield _row(case, variant, samples.get(""), samples[variant])


def communication(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the table that compares variants by communication, as the study's figures 4, 11, 17. Local."""
    return [row for row in rows if row["communication"] is not None]


def scaling(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the table of strong scaling: cases measured on several numbers of ranks. Local."""
    in_order = sorted(rows, key=lambda row: (row["benchmark"], row["class"], row["variant"], row["ranks"]))
    found = []
    for of in grouped(in_order, lambda row: (row["benchmark"], row["class"], row["variant"])).values():
        for row in of if len(of) > 1 else ():
            # The fewest ranks count as a speed-up of so many, as in the study.
            speedups = {
                f"{who}speedup": of[0]["ranks"] * of[0][key] / row[key] if row[key] else None
                for who, key in (("", "median"), ("official_", "official_median"))
            }
            found.append({**row, **speedups})
    return found


def _run_once(
    case: Case, name: str, official: StartOfficial, variables: Mapping[str, str], samples: _Samples, *, timed: bool
) -> None:
    if name:
        result = _run_ours(case, name, variables, with_peak_memory=not timed)
        samples.result = samples.result or result
    elif case.program is not None:
        finished = run(official(case.ranks, case.program, variables), with_peak_memory=not timed)
        result = asdict(binaries.read(finished, case.program.name, case.ranks))
    samples.verified.append(result["verified"] is True)
    if timed:
        samples.mops.append(result["mops"])
        samples.rss.append(result["peak_rss"])
        return
    samples.memory.append(result["peak_memory"])
    if result["communication"] is not None:
        samples.communication.append(result["communication"])
        samples.share.append(result.get("share", 0.0))


def _run_ours(case: Case, variant: str, variables: Mapping[str, str], *, with_peak_memory: bool) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        finished = run(our_job(case, variant, file, variables), with_peak_memory=with_peak_memory)
        if not file.exists():
            raise UsageError(
                f"npb-{case.benchmark} --class {case.letter} --variant {variant} on {case.ranks} ranks ended with "
                f"status {finished.status}: {last_words(finished.output, finished.errors)}"
            )
        result: Row = json.loads(file.read_text())
    spent = result["sections"]["totcomm"]["average"] if result["sections"] else None
    share = spent and spent / result["seconds"]
    memory = {"peak_rss": finished.peak_rss, "peak_memory": finished.peak_memory}
    return {**result, **memory, "communication": spent, "share": share}


def _row(case: Case, variant: str, official: _Samples | None, ours: _Samples) -> Row:
    """The medians; figures that need an official program are None without one."""
    work = ours.result["mops"] * ours.result["seconds"]
    seconds = [work / rate for rate in ours.mops]
    # Their clock is printed with two decimals, and their rate with more digits than that.
    theirs = None if official is None else [work / rate for rate in official.mops]
    official = official or _Samples()
    return {
        "benchmark": case.benchmark.upper(),
        "class": case.letter,
        "ranks": case.ranks,
        "variant": variant,
        **relative(theirs, seconds),
        **relative(theirs and seconds, theirs or seconds, "time_ratio"),
        **both(seconds, theirs, "official_", **_FIGURES, mops=lambda of: work / statistics.median(of)),
        **_compare("memory", ours.memory, official.memory),
        **_compare("rss", ours.rss, official.rss),
        **both(ours.communication, official.communication, "official_", communication=_middle),
        "share": _middle(ours.share),
        "value": ours.result["value"],
        "error": ours.result["error"],
        "lines": ours.result["lines"],
        "verified": all(ours.verified) and all(official.verified),
        "ours_verified": all(ours.verified),
        "official_verified": all(official.verified) if theirs else None,
    }


def _compare(what: str, ours: Iterable[int | None], official: Iterable[int | None]) -> Row:
    mine, theirs = _middle(ours), _middle(official)
    ratio = mine / theirs if mine and theirs else None
    return {f"peak_{what}": mine, f"official_peak_{what}": theirs, f"{what}_ratio": ratio}


def _middle(values: Iterable[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return statistics.median(known) if known else None
