"""A clock, and pointers to the same place of other ranks, for compiled code and for Python."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.jit.handles import extend

extend("gondwana.apps.hpcg.compiled_native")


def nanoseconds() -> int:
    """Return the nanoseconds of the monotonic clock. Local."""
    return time.monotonic_ns()


def at_rank(ptr: gw.GlobalPtr, rank: int) -> gw.GlobalPtr:
    """Return a pointer to the same place of the segment on another rank. Local."""
    return ptr.segment.pointer(rank, ptr.dtype, ptr.offset)


def meet(gate: NDArray[np.int64], threads: int) -> None:
    """Wait for all threads of a crew, in compiled code. Local.

    Args:
        gate: 16 words: arrivals, and on another cache line the number of meetings so far.
        threads: that meet; one has nobody to wait for.
    """
    raise RuntimeError("threads meet in compiled code only")
