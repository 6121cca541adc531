"""The user's official programs: finding them, and reading their output."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gondwana.errors import UsageError
from gondwana_bench.npb.jobs import Finished
from gondwana_bench.processes import OTHER_MPI, last_words

BENCHMARKS = ("mg", "ft", "cg")
_NAME = re.compile(r"(mg|ft|cg)\.([SWA-F])(?:\.x)?")
_TOTCOMM = re.compile(r"timer\s+\d+\(\s*totcomm\s*\)\s*:\s+\S+\s+\S+\s+(\S+)")


@dataclass(frozen=True)
class Official:
    """The figures in the output of an official program.

    Attributes:
        mops: millions of operations a second, its most exact form of the time.
        verified: the program's own verification.
        communication: seconds, the average over the ranks; None if it ran without its timers.
        peak_rss: the same as for `jobs.Finished`.
        peak_memory: the same as for `jobs.Finished`.
    """

    mops: float
    verified: bool
    communication: float | None
    peak_rss: int | None
    peak_memory: int | None


def find(folder: Path, benchmarks: Sequence[str], classes: Sequence[str], *, all_: bool) -> dict[tuple[str, str], Path]:
    """Find the programs of these benchmarks and classes in a folder. Local.

    Args:
        folder: folder with files such as `mg.A.x` or `mg.A`.
        benchmarks: names of `BENCHMARKS`.
        classes: their letters.
        all_: whether all must be there, else one must.

    Raises:
        UsageError: the folder does not exist, is empty, or lacks a program.
    """
    if not folder.is_dir():
        raise UsageError(f"--against {folder}: there is no such folder")
    there = _programs(folder)
    if not there:
        raise UsageError(f"--against {folder}: no program of NPB is there; build some, whose names are such as mg.A.x")
    wanted = [(name, letter) for name in benchmarks for letter in classes]
    found = {key: there[key] for key in wanted if key in there}
    missing = [f"{name}.{letter}.x" for name, letter in wanted if (name, letter) not in there]
    if not found or (all_ and missing):
        listed = ", ".join(path.name for path in there.values())
        raise UsageError(f"--against {folder}: {', '.join(missing)} is not there; there are {listed}")
    return found


def read(finished: Finished, program: str, ranks: int) -> Official:
    """Read the output of a program. Local.

    Raises:
        UsageError: it failed, ran on another number of processes or printed other words than expected.
    """
    if finished.status:
        hint = f"; {OTHER_MPI}" if ranks > 1 else ""
        raise UsageError(
            f"{program} ended with status {finished.status}: {last_words(finished.output, finished.errors)}{hint}"
        )
    pairs = dict(line.split("=", 1) for line in finished.output.splitlines() if line.count("=") == 1)
    values = {key.strip(): value.strip() for key, value in pairs.items()}
    try:
        processes, mops = int(values["Total processes"]), float(values["Mop/s total"])
        verified = values["Verification"] == "SUCCESSFUL"
    except (KeyError, ValueError):
        raise UsageError(
            f"{program} is no program of NPB, or failed: {last_words(finished.output, finished.errors)}"
        ) from None
    if processes != ranks:
        raise UsageError(f"{program} ran on {processes} processes instead of {ranks}: {OTHER_MPI}")
    if not mops > 0:
        raise UsageError(f"{program} took no time that its clock could measure; take a larger class")
    match = _TOTCOMM.search(finished.output)
    return Official(mops, verified, float(match[1]) if match else None, finished.peak_rss, finished.peak_memory)


def _programs(folder: Path) -> dict[tuple[str, str], Path]:
    there = {}
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file() and os.access(path, os.X_OK):
            there[match[1], match[2]] = path.resolve()
    return there
