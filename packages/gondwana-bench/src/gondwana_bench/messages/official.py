"""OSU's own programs, in turns with our job: finding them, and reading their output."""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gondwana.errors import UsageError
from gondwana_bench.messages.osu import ALLREDUCE, LATENCY, PAIRS, SMALL
from gondwana_bench.processes import OTHER_MPI, Command, StartNative, last_words, run
from gondwana_bench.rows import Row, both, columns, grouped, relative

PROGRAMS = {LATENCY: "osu_latency", ALLREDUCE: "osu_allreduce"}

COLUMNS = columns(
    "test operation size microseconds official_microseconds ratio verified",
    operation="variant", official_microseconds="OSU's, us", ratio="OSU's/ours (95 %)",
)  # fmt: skip

_LINE = re.compile(r"^(\d+)\s+(\d+(?:\.\d+)?)\b", re.MULTILINE)


def find(folder: Path, tests: Sequence[str]) -> dict[str, Path]:
    """Return the program of each test in a folder, or in the folders where OSU's build puts them. Local.

    Raises:
        UsageError: the folder does not exist, or lacks a program.
    """
    if not folder.is_dir():
        raise UsageError(f"--against {folder}: there is no such folder")
    found = {}
    for test in tests:
        name = PROGRAMS[test]
        places = (
            folder / part / name for part in (".", "pt2pt", "collective", "pt2pt/standard", "collective/blocking")
        )
        path = next((path for path in places if path.is_file() and os.access(path, os.X_OK)), None)
        if path is None:
            raise UsageError(
                f"--against {folder}: {name} is not there; name the folder of OSU's programs, or leave {test} out "
                "of --tests"
            )
        found[test] = path.resolve()
    return found


def options_of(test: str, sizes: Sequence[int]) -> list[str]:
    """Return the options of a program: the counts of small messages; for large ones it has its own. Local."""
    untimed, timed = SMALL
    largest = ["-m", str(max(sizes))] if test == ALLREDUCE else []  # old versions of the other program have no -m
    return ["-i", str(timed), "-x", str(untimed), *largest]


def most_rows(sizes: Mapping[str, Sequence[int]]) -> int:
    """Return the number of rows at most: one for each size and each of C and our variants. Local."""
    variants = {test: {side for pair in PAIRS[test] for side in (pair.ours, pair.rival)} for test in sizes}
    return sum(len(variants[test]) * len(sizes[test]) for test in sizes)


def read(output: str) -> dict[int, float]:
    r"""Read a table of sizes and microseconds. Local.

    Example:
        >>> read("# OSU MPI Latency Test v5.3\n# Size   Latency (us)\n0   0.21\n1   0.25\n")
        {0: 0.21, 1: 0.25}
    """
    return {int(size): float(microseconds) for size, microseconds in _LINE.findall(output)}


def measure(
    programs: Mapping[str, Path],
    sizes: Mapping[str, Sequence[int]],
    ranks: int,
    official: StartNative,
    ours: Callable[[], Sequence[Row]],
    rounds: int,
) -> Iterator[Row]:
    """Run the programs and our job in turns, and compare. Local: starts jobs, one after another.

    Args:
        programs: programs by test, as found.
        sizes: sizes of each test [bytes].
        ranks: number of ranks of our job and of the sums; messages have 2.
        official: starts a program.
        ours: runs our job and returns its rows.
        rounds: number of rounds.

    Returns:
        A row for each size and each of our variants and C, with the medians over the rounds.

    Raises:
        UsageError: a program failed, or printed something else.
    """
    theirs: list[tuple[str, int, float]] = []
    found: list[tuple[str, int, str, float, bool]] = []
    for _ in range(rounds):
        for test, path in programs.items():
            command = official(ranks if test == ALLREDUCE else 2, [str(path), *options_of(test, sizes[test])])
            theirs += [(test, size, microseconds) for size, microseconds in _run(path, command)]
        for row in ours():
            found += _figures(row)
    official_values = grouped(theirs, lambda one: one[:2])
    for (test, size, variant), values in grouped(found, lambda one: one[:3]).items():
        if (test, size) in official_values:
            yield {
                "test": test,
                "operation": variant,
                "size": size,
                "ranks": ranks if test == ALLREDUCE else 2,
                **_compare([one[3] for one in values], [one[2] for one in official_values[test, size]]),
                "verified": all(one[4] for one in values),
            }


def _compare(ours: Sequence[float], theirs: Sequence[float]) -> Row:
    return {**both(ours, theirs, "official_", microseconds=statistics.median), **relative(theirs, ours)}


def _figures(row: Row) -> Iterator[tuple[str, int, str, float, bool]]:
    """The figures of a row of our job, and those of C, which is the rival in one row of each size."""
    for prefix, name in (("", "operation"), ("rival_", "rival")):
        if not prefix or (row["operation"], row["rival"]) == ("compiled", "C"):
            yield row["test"], row["size"], row[name], row[f"{prefix}microseconds"], row["verified"]


def _run(path: Path, command: Command) -> list[tuple[int, float]]:
    done = run(command.argv, command.variables)
    rows = read(done.stdout)
    if done.returncode or not rows:
        raise UsageError(
            f"{path.name} ended with status {done.returncode}{'' if rows else ' and printed no table'}: "
            f"{last_words(done.stdout, done.stderr)}; {OTHER_MPI}"
        )
    # Two decimals are printed; nothing takes no time.
    return [(size, max(microseconds, 0.005)) for size, microseconds in rows.items()]
