"""The end of a rank that records: rank 0 makes the trace when all have finished. Imported only where a rank records."""

from __future__ import annotations

import atexit
import sys

from gondwana.errors import UsageError
from gondwana.inputs import message_of
from gondwana.runtime import exits
from gondwana.runtime.tracing import Recorder
from gondwana.teams import world
from gondwana.traces import summary
from gondwana.traces.merge import merge


def at_end_of(one: Recorder) -> None:
    """Register what ends the trace of this process. Local."""
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


def _merge(one: Recorder) -> None:
    try:
        trace = merge(one.file)
    except (OSError, UsageError) as error:
        report([f"no trace {one.file}: {message_of(error)}; its parts are in {one.folder}"])
    else:
        report(summary.lines(trace))


def report(lines: list[str]) -> None:
    """Print lines to standard error, which is no result of the program. Local."""
    print("".join(f"gondwana: {line}\n" for line in lines), end="", file=sys.stderr, flush=True)
