"""The slices of rows of each thread in a sweep, and the threads that it waits for, found from the matrix alone.

A slice is eight rows of a wave. Threads share each wave; before its part of the next one a thread waits until the
others have done the parts that it needs. The result does not depend on the threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.hpcg.split import ENTRIES, WIDTH, Split

Integers = NDArray[np.int64]


class Schedule(NamedTuple):
    """The sweeps of all levels in one direction, for all threads. A block is the part of a wave that a thread does.

    Attributes:
        blocks: the first block of each thread on each level, thread after thread within a level, and the end.
        starts, ends: slices of each block; a thread does its blocks in their order.
        waits: the first wait of each block, and the end.
        source: thread that each wait is for.
        until: number of blocks of this sweep that it must have done.
    """

    blocks: Integers
    starts: Integers
    ends: Integers
    waits: Integers
    source: Integers
    until: Integers


class Schedules(NamedTuple):
    """The sweeps of all levels.

    Attributes:
        down: sweeps from the first row to the last.
        up: sweeps from the last row to the first.
    """

    down: Schedule
    up: Schedule


def plan(matrices: Split, threads: int, sign: int) -> Schedule:
    """Find the sweeps of `threads` threads. Local.

    Args:
        matrices: matrices whose rows are swept over.
        threads: number of threads that share each wave; one has a single block on each level.
        sign: 1: from the first row to the last, -1: the other way.
    """
    columns = matrices.lower_columns if sign > 0 else matrices.upper_columns
    counts, starts, ends = [], [], []
    for level in range(len(matrices.first) - 1):
        waves = matrices.waves[matrices.level_waves[level] : matrices.level_waves[level + 1] + 1]
        if threads == 1:
            waves = waves[[0, -1]]
        # A row for each wave, in the order of the sweep, and in it the part of each thread.
        cuts = waves[:-1, None] + np.diff(waves)[:, None] * np.arange(threads + 1) // threads
        low, high = cuts[::sign, :-1], cuts[::sign, 1:]
        for thread in range(threads):
            there = low[:, thread] < high[:, thread]
            counts.append(int(there.sum()))
            starts.append(low[there, thread])
            ends.append(high[there, thread])
    blocks = np.concatenate(([0], np.cumsum(counts)))
    starts_, ends_ = np.concatenate(starts), np.concatenate(ends)
    latest = np.zeros((len(starts_), threads), np.int64)
    if threads > 1:
        owner, done = np.repeat(np.arange(len(counts)), counts) % threads, np.arange(len(starts_)) + 1
        done -= np.repeat(blocks[:-1], counts)
        block_of = np.empty(int(matrices.waves[-1]), np.int64)
        for block, (start, end) in enumerate(zip(starts_, ends_, strict=True)):
            block_of[start:end] = block
        find_waits(columns, starts_, ends_, block_of, owner, done, latest)
    waiting, source = np.nonzero(latest)
    waits = np.searchsorted(waiting, np.arange(len(starts_) + 1))
    # NumPy gives every second word of an array here: another type, for which all would be compiled again.
    source = np.ascontiguousarray(source)
    return Schedule(blocks, starts_, ends_, waits, source, latest[waiting, source])


@gw.jit
def find_waits(columns: Any, starts: Any, ends: Any, block_of: Any, owner: Any, done: Any, latest: Any) -> None:
    """Find for each block the blocks of each other thread that it needs: their number, with all earlier ones."""
    for block in range(len(starts)):
        for entry in range(ENTRIES * starts[block], ENTRIES * ends[block]):
            needed = block_of[columns[entry] // WIDTH]
            source = owner[needed]
            if source != owner[block]:
                latest[block, source] = max(latest[block, source], done[needed])
