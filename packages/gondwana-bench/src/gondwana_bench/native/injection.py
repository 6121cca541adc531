"""The C functions of `injection.c`, callable by the ranks of a team."""

from __future__ import annotations

import ctypes

from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench import build
from gondwana_bench.closing import CollectiveResource

PUT, ADD, MESSAGE = range(3)
"""What threads do: put a word and flush, fetch and add a word and flush, send windows of messages of a word."""

MOST_THREADS = 64
"""As in `injection.c`."""


class Injection(CollectiveResource):
    """Threads of rank 0 that communicate with rank 1 through MPI, in C. Collective over team.

    Args:
        team: of at least two MPI ranks.

    Raises:
        UsageError: the team has fewer ranks, or no MPI, or there is no C compiler.
    """

    def __init__(self, team: Team) -> None:
        if team.size < 2:
            raise UsageError(f"{team.size} ranks: give at least 2")
        self._library = build.library_with_mpi("injection.c", team, ["-pthread"])
        self._library.injection_create.restype = ctypes.c_void_p
        self._library.injection_run.restype = ctypes.c_double
        for name in ("sum", "received"):
            getattr(self._library, f"injection_{name}").restype = ctypes.c_int64
        self._handle = ctypes.c_void_p(self._library.injection_create(team.comm.py2f()))

    def run(self, what: int, threads: int, calls: int) -> float:
        """Have each thread do something `calls` times; return the seconds on this rank. Collective over team."""
        seconds: float = self._library.injection_run(self._handle, what, threads, ctypes.c_int64(calls))
        return seconds

    def count(self, what: int) -> int:
        """Return how many operations have arrived at this rank by now. Local."""
        name = "received" if what == MESSAGE else "sum"
        return int(getattr(self._library, f"injection_{name}")(self._handle))

    def close(self) -> None:
        """Free the memory. Collective over team."""
        if self._handle:
            self._library.injection_free(self._handle)
            self._handle = ctypes.c_void_p()
