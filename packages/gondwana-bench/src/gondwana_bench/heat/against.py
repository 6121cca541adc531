"""Our time steps beside those of a user's build of the Kokkos tutorial's program, in turns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from gondwana.errors import UsageError
from gondwana_bench import processes
from gondwana_bench.measure import in_turns
from gondwana_bench.rows import Row, relative
from gondwana_bench.statistics import summarize

EDGES = (20, 100, 200)

COLUMNS = {
    "edge": "edge", "ranks": "ranks", "steps": "steps", "ours": "ours, us a step", "theirs": "theirs",
    "ratio": "theirs/ours (95 %)", "value": "T at the end", "verified": "same",
}  # fmt: skip

_CELLS = 4e8
"""Cells that a run computes, about, for a second or so."""

_LINE = re.compile(r"^(\d+) T=(\S+) Time \((\S+) (\S+)\)$", re.MULTILINE)
_TOLERANCE = 1e-10


class Run(NamedTuple):
    """The output of a program: seconds a step after the first, and 10^9 times the mean temperature at the end."""

    seconds: float
    value: float


def steps_of(edge: int) -> int:
    """Return how many steps are timed for a cube. Local."""
    return max(20, min(20000, int(_CELLS / edge**3)))


def options_of(edge: int) -> list[str]:
    """Return the options that both programs get. Local."""
    steps = str(steps_of(edge))
    return ["-X", str(edge), "-Y", str(edge), "-Z", str(edge), "-N", steps, "-I", steps]


def measure(edge: int, ranks: int, ours: processes.Command, theirs: processes.Command, repeat: int) -> Iterator[Row]:
    """Run both programs in turns and return one row. Local: starts jobs one after another.

    Args:
        edge: cells a side of the cube.
        ranks: number of ranks of both.
        ours: the command.
        theirs: the command.
        repeat: rounds; one more is the first and does not count.

    Raises:
        UsageError: a program failed, or printed something else.
    """
    commands = {"theirs": theirs, "ours": ours}
    jobs = {name: partial(_run, command, steps_of(edge)) for name, command in commands.items()}
    runs = in_turns(jobs, repeat, discard=1)
    seconds = {name: [run.seconds for run in of_name] for name, of_name in runs.items()}
    values = [run.value for of_name in runs.values() for run in of_name]
    yield {
        "edge": edge, "ranks": ranks, "steps": steps_of(edge),
        **{name: 1e6 * summarize(samples).median for name, samples in seconds.items()},
        **relative(seconds["theirs"], seconds["ours"]), "value": values[0],
        "verified": max(values) - min(values) <= _TOLERANCE * max(map(abs, values)),
    }  # fmt: skip


def read(output: str, steps: int) -> Run | None:
    r"""Read the first and the last line of a run; None where they are not there. Local.

    Example:
        >>> read("0 T=0.000000 Time (0.5 0.5)\n100 T=42.5 Time (2.5 2.0)\n", 100)
        Run(seconds=0.02, value=42.5)
    """
    lines = _LINE.findall(output)
    if len(lines) < 2 or (int(lines[0][0]), int(lines[-1][0])) != (0, steps):
        return None
    return Run((float(lines[-1][2]) - float(lines[0][2])) / steps, float(lines[-1][1]))


def _run(command: processes.Command, steps: int) -> Run:
    done = processes.run(command.argv, command.variables)
    found = read(done.stdout, steps)
    if done.returncode or found is None:
        words = " ".join(command.argv[-1 - len(options_of(1)) :])
        raise UsageError(
            f"{words} ended with status {done.returncode} and without the lines of steps 0 and {steps}: "
            f"{processes.last_words(done.stdout, done.stderr)}; {processes.OTHER_MPI}"
        )
    return found
