"""In which order threads sweep over the rows of a level, found from the matrix alone.

Rows that each need the one before are a block, which one thread does in natural order. Blocks of a stage need only
blocks of earlier stages, so that threads share them; between two stages they meet. The result is that of the natural
order, to the last bit.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw

Integers = NDArray[np.int64]


class Schedule(NamedTuple):
    """The sweeps of all levels in one direction.

    Attributes:
        levels: the first stage of each level, and the end.
        stages: the first block of each stage, and the end.
        starts, ends: rows of each block.
    """

    levels: Integers
    stages: Integers
    starts: Integers
    ends: Integers


def plan(first: Integers, columns: NDArray[np.uint32], near: NDArray[np.uint32], staged: int, sign: int) -> Schedule:
    """Find the stages of the finest levels; on the others one block is all, which one thread does. Local.

    Args:
        first: the first row of each level, and the end.
        columns: that the rows need in this direction; their own row where a place is unused.
        near: the column of L next to the diagonal of each row.
        staged: levels that have stages.
        sign: 1: from the first row to the last, -1: the other way.
    """
    levels, counts, starts, ends = [0], [], [], []
    for level, (start, end) in enumerate(itertools.pairwise(first.tolist())):
        found: tuple[list[int], Integers, Integers] = [1], np.array([start]), np.array([end])
        if level < staged:
            found = _blocks(columns[start:end], near[start:end], start, sign)
        counts += found[0]
        starts.append(found[1])
        ends.append(found[2])
        levels.append(len(counts))
    stages = np.concatenate(([0], np.cumsum(counts)))
    return Schedule(np.array(levels, np.int64), stages, np.concatenate(starts), np.concatenate(ends))


def _blocks(
    columns: NDArray[np.uint32], near: NDArray[np.uint32], first: int, sign: int
) -> tuple[list[int], Integers, Integers]:
    """The blocks of each stage of a level, and the rows of the blocks in the order of the stages."""
    rows = len(near)
    begins = near != first + np.arange(rows) - 1
    begins[0] = True
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], rows)
    stage = np.zeros(len(starts), np.int64)
    find_stages(columns, first, np.cumsum(begins) - 1, starts, ends, sign, stage)
    order = np.argsort(stage, kind="stable")
    return np.bincount(stage).tolist(), starts[order] + first, ends[order] + first


@gw.jit
def find_stages(columns: Any, first: int, block_of: Any, starts: Any, ends: Any, sign: int, stage: Any) -> None:
    """Give each block a stage above those of the blocks that it needs."""
    count = len(starts)
    for number in range(count):
        block = number if sign > 0 else count - 1 - number
        for row in range(starts[block], ends[block]):
            for place in range(columns.shape[1]):
                needed = block_of[columns[row, place] - first]
                if needed != block:
                    stage[block] = max(stage[block], stage[needed] + 1)
