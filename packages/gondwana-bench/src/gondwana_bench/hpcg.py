"""HPCG: ours beside the user's official program, interleaved, with the same boxes, ranks and seconds."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gondwana.errors import UsageError
from gondwana_bench import processes, triad
from gondwana_bench.processes import Command, StartNative
from gondwana_bench.rows import Row, both, relative
from gondwana_bench.statistics import summarize

SIZES = (16, 32, 64)
RANKS = (1, 2, 4)
"""The boxes of a rank and the ranks of the study that ported HPCG to Julia (its figure 10)."""

RATING = {
    "size": "local", "ranks": "ranks", "official_rating": "official GFLOP/s", "rating": "ours",
    "ratio": "ours/official", "product": "SpMV", "cycle": "MG", "dots": "DDOT", "combinations": "WAXPBY",
    "iterations": "iterations", "bandwidth_gb_s": "GB/s moved", "of_triad": "of triad", "verified": "valid",
}  # fmt: skip
ITERATION = {
    "size": "local", "ranks": "ranks", "official_milliseconds": "official [ms an iteration]", "milliseconds": "ours",
    "iteration_ratio": "official/ours",
}  # fmt: skip

KERNELS = {"product": "SpMV", "cycle": "MG", "dots": "DDOT", "combinations": "WAXPBY"}
"""The names of the kernels in a result file."""

_RATING = "Final Summary::HPCG result is VALID with a GFLOP/s rating of"
_TIME, _ITERATIONS = "Benchmark Time Summary", "Iteration Count Information"
_SAME = (
    "Machine Summary::Distributed Processes", "Processor Dimensions::npx", "Processor Dimensions::npy",
    "Processor Dimensions::npz", "Linear System Information::Number of Nonzero Terms",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The contents of the result file of one run, official or ours.

    Attributes:
        values: values by key, as text.
        json: results that only our program writes.
    """

    values: Mapping[str, str]
    json: Row

    @property
    def valid(self) -> bool:
        """Whether the run is valid according to its file."""
        return _RATING in self.values

    @property
    def rating(self) -> float:
        """GFLOP/s, 0 if the run is not valid."""
        return float(self.values.get(_RATING, 0.0))

    def per_iteration(self, kernel: str) -> float:
        """Return the seconds of a kernel, or of "Total", for one iteration. Local."""
        done = int(self.values[f"{_ITERATIONS}::Total number of optimized iterations"])
        return float(self.values[f"{_TIME}::{kernel}"]) / done


def measure(
    cases: Iterable[tuple[int, int]], official: StartNative | None, *, seconds: int, repeat: int
) -> Iterator[Row]:
    """Run every case and compare. Local: starts jobs one after another, in an order that changes every round.

    Args:
        cases: points a side of each rank's box, and ranks.
        official: function that starts the official program; None: only ours is run.
        seconds: length of the timed phase; 0: the quick path.
        repeat: rounds.

    Returns:
        A row for each case: medians of both, the speed of ours relative to the official program, and our bandwidth
        relative to that of the triad.

    Raises:
        UsageError: a program failed, or solved another problem.
    """
    for size, ranks in cases:
        samples: dict[str, list[Result]] = {"ours": [], "official": []}
        bandwidths: list[float] = []
        words = [f"--n{axis}={size}" for axis in "xyz"] + [f"--rt={seconds}"]
        for number in range(repeat):
            bandwidths.append(triad.run(ranks))
            for who in ("ours", "official") if number % 2 == 0 else ("official", "ours"):
                if who == "ours":
                    samples[who].append(run(ours(ranks, words), who))
                elif official is not None:
                    samples[who].append(run(official(ranks, words), who))
            for theirs in samples["official"][-1:]:
                _check_same(samples["ours"][-1], theirs)
        yield _row(size, ranks, samples["ours"], samples["official"], statistics.median(bandwidths))


def ours(ranks: int, words: Sequence[str]) -> Command:
    """Return the command that runs ours. Local."""
    return Command(processes.our_command(ranks, "hpcg", *words, "--json", "result.json"), os.environ)


def run(command: Command, who: str) -> Result:
    """Run a program in a folder of its own and read its result file. Local.

    Raises:
        UsageError: it cannot be started, failed, or left no result file of HPCG 3.1.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = processes.run(*command, folder)
        files = list(Path(folder).glob("HPCG-Benchmark*3.1*.txt"))
        if len(files) != 1:
            found = f"{who}: {len(files)} result files of HPCG 3.1 instead of one"
            said = processes.last_words(done.stdout, done.stderr)
            hint = f"; {processes.OTHER_MPI}" if who == "official" else ""
            raise UsageError(f"{found}, status {done.returncode}: {said}{hint}")
        values = parse(files[0].read_text(encoding="utf-8", errors="replace"))
        extra = Path(folder) / "result.json"
        return Result(values, json.loads(extra.read_text()) if extra.exists() else {})


def parse(text: str) -> dict[str, str]:
    """Read the lines of a result file, of HPCG 3.1 or ours. Local.

    Example:
        >>> parse("A::b=2")
        {'A::b': '2'}
    """
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _check_same(mine: Result, theirs: Result) -> None:
    for key in _SAME:
        if mine.values.get(key) != theirs.values.get(key):
            raise UsageError(
                f"the official program has {key.rpartition('::')[2]} {theirs.values.get(key)} and ours "
                f"{mine.values.get(key)}: was it built with MPI, the one of the launcher? See --mpirun"
            )


def _row(size: int, ranks: int, mine: Sequence[Result], theirs: Sequence[Result], bandwidth: float) -> Row:
    """The medians; figures that need the official program are None if it was not run."""
    others = list(theirs) or None
    # Time for the work of one rated operation, so that the ratio is of speeds.
    cost, their_cost = ([1.0 / max(found.rating, 1e-9) for found in runs] for runs in (mine, theirs))
    seconds, their_seconds = ([found.per_iteration("Total") for found in runs] for runs in (mine, theirs))
    moved = statistics.median([run.json["bandwidth_gb_s"] for run in mine])
    return {
        "size": size,
        "ranks": ranks,
        **both(mine, others, "official_", rating=lambda runs: statistics.median([run.rating for run in runs])),
        **relative(their_cost or None, cost),
        **{name: _speed(key, mine, theirs) for name, key in KERNELS.items()},
        **both(seconds, their_seconds or None, "official_", milliseconds=lambda of: 1e3 * statistics.median(of)),
        **relative(their_seconds or None, seconds, "iteration_ratio"),
        **both(seconds, their_seconds or None, "official_", seconds=lambda of: asdict(summarize(of))),
        "iterations": max(run.json["iterations_optimised"] for run in mine),
        "bandwidth_gb_s": moved,
        "triad_gb_s": bandwidth,
        "of_triad": moved / bandwidth,
        **both(mine, theirs, "official_", samples=lambda runs: [run.rating for run in runs]),
        "verified": all(run.valid for run in theirs) and all(run.json["verified"] for run in mine),
    }


def _speed(kernel: str, mine: Sequence[Result], theirs: Sequence[Result]) -> float | None:
    """Return our speed relative to theirs; None without theirs, or if a clock was too coarse."""
    if not theirs:
        return None
    times = [statistics.median([run.per_iteration(kernel) for run in runs]) for runs in (mine, theirs)]
    return times[1] / times[0] if min(times) > 0.0 else None
