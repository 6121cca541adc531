"""Measure two versions of Gondwana in turns, and print how the times of the new one relate to those of the old one.

Each round runs every benchmark with both versions, one directly after the other, and the version that comes first
changes from round to round: what slows the machine for a while slows both. A row has the median of the ratios new/old
of the rounds, so below 1 the new version is faster, and an interval that holds the true median with the probability
that is printed (order statistics: nothing is assumed about how times are distributed). Rows whose whole interval lies
outside of 1 -+ 3 % are marked, after six rounds or more: with fewer, no interval holds the median with 95 %.

Only the commands of each version are used. Let nothing else run meanwhile, or the intervals are wide.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

COMMANDS = {
    "stencil": "--sizes 64,128 --dtypes float64 --threads 1 --repeat {repeat}",
    "exchange": "-n {ranks} --repeat {repeat}",
    "rma": "-n {ranks} --sizes 8,4096,1048576 --repeat {repeat}",
    "collectives": "-n {ranks} --sizes 8,512,8192,65536,1048576 --repeat {repeat}",
    "npb": "-n {ranks} --classes A --repeat 1",
    "hpcg": "-n {ranks} --sizes 32 --rt 1 --repeat 1",
    "heat": "-n {ranks} --steps 300 --jobs 1",
}
"""Options of each `gondwana bench NAME`, besides `--json FILE`."""

WORDS = ("kernel", "benchmark", "class", "operation", "variant", "size", "dtype", "fields", "faces", "ranks")
"""Keys that identify a row, in this order."""

TOLERANCE = 0.03
PROBABILITY = 0.95
SECONDS_OF_A_COMMAND = 900


@dataclass(frozen=True)
class Version:
    """A version and its environment.

    Attributes:
        name: "old" or "new".
        command: program `gondwana` of the version.
    """

    name: str
    command: Path

    @classmethod
    def at(cls, name: str, given: str) -> Version:
        """Return the version of a checkout that has its environment in `.venv`, or of an interpreter."""
        path = Path(given)
        command = (path / ".venv" / "bin" if path.is_dir() else path.absolute().parent) / "gondwana"
        if not command.is_file():
            sys.exit(f"{name} version {given}: there is no {command}; give a checkout with .venv, or its interpreter")
        return cls(name, command.absolute())


@dataclass(frozen=True)
class Comparison:
    """A row of the result.

    Attributes:
        benchmark: name of the benchmark.
        row: name of the measurement.
        old: seconds of each round with the old version.
        new: the same with the new one.
        ratio: median of new/old.
        low: lower end of its interval.
        high: upper end.
        probability: probability that the interval holds the true median.
        marked: whether the whole interval is further than `TOLERANCE` from 1, and `PROBABILITY` or more.
    """

    benchmark: str
    row: str
    old: tuple[float, ...]
    new: tuple[float, ...]
    ratio: float
    low: float
    high: float
    probability: float
    marked: bool


Times = Mapping[str, float]
"""Seconds by the row of a benchmark."""


def compare(benchmark: str, old: Sequence[Times], new: Sequence[Times]) -> Iterator[Comparison]:
    """Compare the measurements of each round with both versions, row by row: the rows that all rounds have."""
    for row in [row for row in old[0] if all(row in times for times in (*old, *new))]:
        ours, theirs = tuple(times[row] for times in new), tuple(times[row] for times in old)
        ratios = [after / before for after, before in zip(ours, theirs, strict=True)]
        low, high, probability = interval(ratios)
        marked = probability >= PROBABILITY and (low > 1 + TOLERANCE or high < 1 - TOLERANCE)
        yield Comparison(benchmark, row, theirs, ours, statistics.median(ratios), low, high, probability, marked)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the narrowest interval, between two values at equal places from both ends, that holds the median.

    It holds the median of the distribution with `PROBABILITY` or more; few values give all of their range, which holds
    it with less.

    Returns:
        Both ends and the probability.
    """
    ordered, n = sorted(values), len(values)
    outside, left_out, found = 2 * 0.5**n, 0, (0, 1 - 2 * 0.5**n)
    while 1 - outside >= PROBABILITY:
        found = left_out, 1 - outside
        left_out += 1
        outside += 2 * math.comb(n, left_out) * 0.5**n
    left_out, probability = found
    return ordered[left_out], ordered[n - 1 - left_out], max(0.0, probability)


def times_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of each row of a benchmark's result that is about Gondwana, not about a rival."""
    found: dict[str, float] = {}
    for title, rows in result["panels"].items():
        if title == "communication":  # of a row above, whose time has it
            continue
        for row in rows:
            seconds = _seconds(row)
            if seconds is None or row.get("variant") == "C":
                continue
            name = " ".join(f"{row[word]}" for word in WORDS if row.get(word) is not None)
            if found.get(name) == seconds:  # the same beside another rival
                continue
            number = 2
            unique = name
            while unique in found:
                unique, number = f"{name} ({number})", number + 1
            found[unique] = seconds
    return found


def _seconds(row: Mapping[str, Any]) -> float | None:
    if "seconds" in row:
        return float(row["seconds"]["median"])
    return float(row["median"]) * 1e-6 if "median" in row else None  # heat's, in microseconds


def fits(spent: float, rounds: Sequence[float], budget: float) -> bool:
    """Return whether one more round fits into a budget, after rounds that took so long [s]."""
    return not rounds or spent + rounds[-1] <= budget  # the first one may have compiled much


def measure(version: Version, benchmark: str, ranks: int, repeat: int) -> dict[str, float]:
    """Run a benchmark with a version."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        options = COMMANDS[benchmark].format(ranks=ranks, repeat=repeat).split()
        words = [str(version.command), "bench", benchmark, *options, "--json", str(file)]
        path = f"{version.command.parent}{os.pathsep}{os.environ['PATH']}"
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GONDWANA_"))}
        done = subprocess.run(
            words,
            env={**variables, "PATH": path},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_OF_A_COMMAND,
        )
        if not file.exists():
            sys.exit(f"{version.name}: status {done.returncode}: {' '.join(words)}\n{done.stdout}{done.stderr}")
        if done.returncode:
            print(f"{version.name}: status {done.returncode}: {' '.join(words)}", file=sys.stderr)
        return times_of(json.loads(file.read_text(encoding="utf-8")))


def table(rows: Sequence[Comparison]) -> str:
    """Return the rows as text, the slowest first."""
    width = max(len(f"{row.benchmark} {row.row}") for row in rows)
    lines = [f"{'':{width}}        old        new  new/old  interval"]
    for row in sorted(rows, key=lambda row: -row.ratio):
        before, after = (_with_unit(statistics.median(seconds)) for seconds in (row.old, row.new))
        mark = "" if not row.marked else "  SLOWER" if row.ratio > 1 else "  faster"
        name = f"{row.benchmark} {row.row}"
        lines.append(f"{name:{width}} {before:>10} {after:>10}  {row.ratio:7.3f}  {row.low:.3f}-{row.high:.3f}{mark}")
    return "\n".join(lines)


def _with_unit(seconds: float) -> str:
    unit, factor = next(
        (pair for pair in (("s", 1.0), ("ms", 1e3), ("us", 1e6)) if seconds * pair[1] >= 1), ("ns", 1e9)
    )
    return f"{seconds * factor:.4g} {unit}"


def main(words: Sequence[str] | None = None) -> int:
    """Measure as the command line says; the status is 1 if a row is slower beyond noise."""
    options = _parser().parse_args(words)
    versions = Version.at("old", options.old), Version.at("new", options.new)
    begin, rounds = time.monotonic(), []
    measured: dict[str, dict[str, list[dict[str, float]]]] = {
        name: {"old": [], "new": []} for name in options.benchmarks
    }
    load = os.getloadavg()
    rows: list[Comparison] = []
    while len(rounds) < options.rounds and fits(time.monotonic() - begin, rounds, 60 * options.minutes):
        start = time.monotonic()
        for benchmark, times in measured.items():
            for version in versions if len(rounds) % 2 == 0 else reversed(versions):
                times[version.name].append(measure(version, benchmark, options.ranks, options.repeat))
        rounds.append(time.monotonic() - start)
        print(f"round {len(rounds)}: {rounds[-1]:.0f} s", file=sys.stderr, flush=True)
        rows = [row for name, times in measured.items() for row in compare(name, times["old"], times["new"])]
        if options.json is not None:
            content = {"old": str(versions[0].command), "new": str(versions[1].command), "rounds": len(rounds)}
            content |= {"ranks": options.ranks, "repeat": options.repeat, "load_average": [load, os.getloadavg()]}
            content |= {"rows": [asdict(row) for row in rows]}
            options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print(table(rows))
    known, n = rows[0].probability, len(rows)
    slower, faster = (sum(row.marked and (row.ratio > 1) == is_slower for row in rows) for is_slower in (True, False))
    verdict = f"{slower} of {n} rows slower and {faster} faster by more than {100 * TOLERANCE:.0f} % beyond noise"
    if known < PROBABILITY:
        verdict = "too few rounds to mark any row"
    loads = f"load average {load[0]:.1f} before and {os.getloadavg()[0]:.1f} after"
    print(f"{len(rounds)} rounds, intervals of {100 * known:.1f} %, {loads}: {verdict}")
    return int(slower > 0)


def _parser() -> argparse.ArgumentParser:
    description, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="checkout with an environment in .venv, or the interpreter of one")
    parser.add_argument("new", help="the same for the version that is compared with it")
    parser.add_argument(
        "--benchmarks", type=_names, default=tuple(COMMANDS), metavar="NAME,...", help=f"of {', '.join(COMMANDS)} [all]"
    )
    parser.add_argument("--rounds", type=_positive, default=7, metavar="N", help="at most [%(default)s]")
    parser.add_argument("--minutes", type=float, default=20, help="no round begins that would end later [%(default)s]")
    parser.add_argument("-n", "--ranks", type=_positive, default=2, metavar="N", help="of each job [%(default)s]")
    parser.add_argument("--repeat", type=_positive, default=5, metavar="N", help="samples of a row [%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in COMMANDS]:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}: legal are {', '.join(COMMANDS)}")
    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
