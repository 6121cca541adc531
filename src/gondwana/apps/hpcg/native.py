"""Pointers to the same place of other ranks, and how threads wait for each other, for compiled code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.compiler.types.handles import extend

extend("gondwana.apps.hpcg.compiled_native")


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


def publish(progress: NDArray[np.int64], place: int, done: int) -> None:
    """Tell the threads of a crew how far this one is, in compiled code: they see all that it wrote before. Local.

    Args:
        progress: words of all threads.
        place: of the word to set.
        done: what it is to be.
    """
    raise RuntimeError("threads wait for each other in compiled code only")


def follow(progress: NDArray[np.int64], place: int, done: int) -> None:
    """Wait until another thread of a crew has come so far, in compiled code. Local.

    Args:
        progress: words of all threads.
        place: of the word to look at.
        done: what it must reach.
    """
    raise RuntimeError("threads wait for each other in compiled code only")
