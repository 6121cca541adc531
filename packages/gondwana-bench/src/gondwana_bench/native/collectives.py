"""The C functions of `collectives.c`, callable by the ranks of a team."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from gondwana import Team
from gondwana_bench import build


class Collectives:
    """MPI's collectives in C. Collective over team; each method returns the seconds on this rank.

    Args:
        team: of MPI ranks.

    Raises:
        UsageError: the team has no MPI, or there is no C compiler.
    """

    def __init__(self, team: Team) -> None:
        self._library = build.library_with_mpi("collectives.c", team)
        self._handle = team.comm.py2f()
        for name in ("barrier", "bcast", "allreduce"):
            getattr(self._library, f"collectives_{name}").restype = ctypes.c_double

    def barrier(self, calls: int) -> float:
        """Come together `calls` times."""
        seconds: float = self._library.collectives_barrier(self._handle, ctypes.c_int64(calls))
        return seconds

    def bcast(self, data: NDArray[np.float64], calls: int) -> float:
        """Fill `data` with that of rank 0, `calls` times."""
        return self._move(self._library.collectives_bcast, data, calls)

    def allreduce(self, data: NDArray[np.float64], calls: int) -> float:
        """Add `data` of all ranks in place, `calls` times."""
        return self._move(self._library.collectives_allreduce, data, calls)

    def _move(self, function: ctypes._NamedFuncPointer, data: NDArray[np.float64], calls: int) -> float:
        where = ctypes.c_void_p(data.ctypes.data)
        seconds: float = function(self._handle, where, ctypes.c_int64(data.size), ctypes.c_int64(calls))
        return seconds
