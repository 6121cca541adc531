"""The end of a rank that records: rank 0 makes the trace when all have finished, and prints a summary.

Imported only if a rank records.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
from typing import Any

from gondwana.errors import UsageError
from gondwana.inputs import message_of
from gondwana.io.paths import in_units
from gondwana.runtime import exits
from gondwana.runtime.tracing import Recorder
from gondwana.teams import world
from gondwana.traces.merge import Trace, merge

_WIDEST = 8
"""The most ranks of a matrix that is printed whole."""
_PAIRS = 8
"""Pairs of ranks that are printed of a larger one."""
_MOST, _LONGEST = 12, 25
"""Operations that are printed, and letters of their names."""
_OF_KIND = {"wait": "wait for ", "compile": "compile or load "}
"""Beginnings of names that the kind beside them says, too."""
_FEW = 8
"""The most categories that are printed."""


def at_end_of(one: Recorder) -> None:
    """Register the acts that end the trace of this process. Local."""
    exits.when_all_leave(lambda: _leave_together(one))
    atexit.register(_leave_alone, one)


def _leave_together(one: Recorder) -> None:
    """End the part of this rank, and make the trace on rank 0. Collective over all ranks."""
    one.finish()
    world.comm.Barrier()
    if world.rank == 0:
        _merge(one)


def _leave_alone(one: Recorder) -> None:
    """The same in a process without other ranks."""
    if one.active and exits.alone():
        one.finish()
        _merge(one)
        if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
            # Python ends by SIGINT if the code that it has executed last was interrupted. That was this program's, but
            # modules execute code, too, when they are imported.
            with contextlib.suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")


def _merge(one: Recorder) -> None:
    try:
        trace = merge(one.file)
    except (OSError, UsageError) as error:
        report([f"no trace {one.file}: {message_of(error)}; its parts are in {one.folder}"])
    else:
        report(summary(trace))


def report(lines: list[str]) -> None:
    """Print lines to standard error, since they are not a result of the program. Local."""
    print("".join(f"gondwana: {line}\n" for line in lines), end="", file=sys.stderr, flush=True)


def summary(trace: Trace) -> list[str]:
    """Return the lines: the place of the trace, the shares of the time, the bytes between ranks. Pure."""
    about = trace.about
    found = [f"trace of {_counted(about['ranks'], 'rank')}: {trace.file}, {_counted(sum(about['events']), 'record')}"]
    found.append(f"time of the ranks: {_shares(about)}")
    found += _operations(about)
    found += _traffic(about["matrix"])
    return [*found, *about["notes"]]


def _shares(about: dict[str, Any]) -> str:
    whole = sum(about["seconds"]) or 1.0
    shares = {name: sum(seconds) / whole for name, seconds in about["spans"].items()}
    return ", ".join(f"{name} {share:.1%}" for name, share in list(shares.items())[:_FEW] if share >= 5e-4)


def _operations(about: dict[str, Any]) -> list[str]:
    """A table of what took most of the time."""
    whole = sum(about["seconds"]) or 1.0
    rows = [row for row in about["operations"] if sum(row["seconds"]) >= 5e-4 * whole][:_MOST]
    lines = [f"{'operation':26}{'kind':>11}{'mean':>10}{'slowest':>10}{'rank':>6}{'share':>7}"] if rows else []
    for row in rows:
        seconds = row["seconds"]
        slowest = max(range(len(seconds)), key=seconds.__getitem__)
        name = row["name"].removeprefix(_OF_KIND.get(row["category"], ""))
        name = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
        mean, most = map(_duration, (sum(seconds) / len(seconds), seconds[slowest]))
        lines.append(f"{name:26}{row['category']:>11}{mean:>10}{most:>10}{slowest:>6}{sum(seconds) / whole:>7.1%}")
    return lines


def _duration(seconds: float) -> str:
    return f"{seconds:#.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:#.3g} ms"


def _traffic(matrix: dict[str, list[list[int]]]) -> list[str]:
    nbytes, messages = matrix["bytes"], matrix["messages"]
    size = len(nbytes)
    if not any(map(any, messages)):
        return []
    total = _counted(sum(map(sum, messages)), "message")
    if size > _WIDEST:
        pairs = sorted(((nbytes[a][b], a, b) for a in range(size) for b in range(size)), reverse=True)
        largest = ", ".join(f"{a} to {b}: {in_units(count)}" for count, a, b in pairs[:_PAIRS] if count)
        return [f"sent: {in_units(sum(map(sum, nbytes)))} in {total}; most from {largest}"]
    head = "sent by ".rjust(12) + "".join(f"to {rank}".rjust(11) for rank in range(size))
    rows = [
        f"rank {a}".rjust(12) + "".join((in_units(count) if count else "-").rjust(11) for count in row)
        for a, row in enumerate(nbytes)
    ]
    return [f"sent: {in_units(sum(map(sum, nbytes)))} in {total}", head, *rows]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
