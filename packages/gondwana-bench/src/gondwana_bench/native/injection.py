"""The C functions of `injection.c`, callable by the ranks of a team."""

from __future__ import annotations

import ctypes

from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.native.resources import NativeState

PUT, ADD, MESSAGE = range(3)
"""What threads do: put a word and flush, fetch and add a word and flush, send windows of messages of a word."""

MOST_THREADS = 64
"""As in `injection.c`."""


class Injection(NativeState):
    """Threads of rank 0 that communicate with rank 1 through MPI, in C. Collective over team.

    Args:
        team: of at least two MPI ranks.

    Raises:
        UsageError: the team has fewer ranks, or no MPI, or there is no C compiler.
    """

    def __init__(self, team: Team) -> None:
        if team.size < 2:
            raise UsageError(f"{team.size} ranks: give at least 2")
        results = {"run": ctypes.c_double, "sum": ctypes.c_int64, "received": ctypes.c_int64}
        super().__init__("injection", team, results=results, flags=["-pthread"])

    def run(self, what: int, threads: int, calls: int) -> float:
        """Have each thread do something `calls` times; return the seconds on this rank. Collective over team."""
        return float(self._call("run", what, threads, ctypes.c_int64(calls)))

    def count(self, what: int) -> int:
        """Return how many operations have arrived at this rank by now. Local."""
        return int(self._call("received" if what == MESSAGE else "sum"))
