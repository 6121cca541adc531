"""The C functions of `messages.c`, callable by the ranks of a team."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gondwana import Team
from gondwana_bench.native.resources import NativeProgram

Words = NDArray[np.int64]


class _Rank(ctypes.Structure):
    """The data of a rank of the ring, as in `messages.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("data", "inbox", "total", "product")),
        *((name, ctypes.c_int64) for name in ("words", "reads", "writes", "flops")),
    )


class Messages(NativeProgram):
    """MPI's messages and collectives in C. Collective over team; each method returns the seconds on this rank.

    Args:
        team: a team of MPI ranks.

    Raises:
        UsageError: the team has no MPI, or no C compiler was found.
    """

    def __init__(self, team: Team) -> None:
        names = ("ping_pong", "allreduce", "ring", "barrier", "bcast", "add")
        super().__init__("messages", team, dict.fromkeys(names, ctypes.c_double))

    def ping_pong(self, sent: NDArray[np.uint8], received: NDArray[np.uint8], calls: int) -> float:
        """Send `sent` of rank 0 to `sent` of rank 1 and back to `received`, `calls` times."""
        return self._time("ping_pong", _at(sent), _at(received), ctypes.c_int64(sent.size), ctypes.c_int64(calls))

    def allreduce(self, given: NDArray[np.float32], sums: NDArray[np.float32], calls: int) -> float:
        """Add `given` of all ranks in `sums`, `calls` times, each followed by a barrier that does not count."""
        return self._time("allreduce", _at(given), _at(sums), ctypes.c_int64(given.size), ctypes.c_int64(calls))

    def barrier(self, calls: int) -> float:
        """Come together `calls` times."""
        return self._time("barrier", ctypes.c_int64(calls))

    def bcast(self, data: NDArray[np.float64], calls: int) -> float:
        """Broadcast `data` of rank 0, `calls` times."""
        return self._time("bcast", _at(data), ctypes.c_int64(data.size), ctypes.c_int64(calls))

    def add(self, data: NDArray[np.float64], calls: int) -> float:
        """Add `data` of all ranks in place, `calls` times without a barrier between them."""
        return self._time("add", _at(data), ctypes.c_int64(data.size), ctypes.c_int64(calls))

    def ring(
        self,
        data: Words,
        inbox: Words,
        total: Words,
        product: NDArray[np.float64],
        work: tuple[int, int, int],
        supersteps: int,
        phases: NDArray[np.float64] | None,
        calls: int,
    ) -> float:
        """Run `calls` times as many supersteps of the ring as `bench.messages.ring` describes.

        Args:
            data: data of the rank; its first words, as many as `inbox` has, travel to the next rank.
            inbox: room for the words of the previous rank.
            total: one word, the sum of all that was read.
            product: one number, the product of the floating-point operations.
            work: reads, writes and floating-point operations of a superstep.
            supersteps: supersteps of a run.
            phases: array to which the seconds of the four phases are added; None: without clocks between phases.
            calls: runs.
        """
        rank = _Rank(*(array.ctypes.data for array in (data, inbox, total, product)), inbox.size, *work)
        clocks = None if phases is None else _at(phases)
        return self._time("ring", ctypes.byref(rank), ctypes.c_int64(supersteps), clocks, ctypes.c_int64(calls))


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
