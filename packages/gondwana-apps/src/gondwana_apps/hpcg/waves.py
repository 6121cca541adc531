"""The order of rows in the optimised path: by wave, eight at a time.

A sweep in natural order must do a row after those before it that it is coupled with. Its wave is the longest chain of
such rows: on a grid x + 2 y + 4 z. Rows of a wave do not need each other, so that a sweep from wave to wave has the
result of the natural order, and may do eight rows at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw

Integers = NDArray[np.int64]

WIDTH = 8
"""Rows in a slice: elements of a vector."""


class Order(NamedTuple):
    """The new numbers of the rows of a level.

    Attributes:
        place: for each row; numbers between are of rows without entries that fill a wave up.
        starts: the first number of each wave, and the end: multiples of eight.
    """

    place: Integers
    starts: Integers


def order(columns: NDArray[np.uint32], counts: NDArray[np.uint8]) -> Order:
    """Number the rows of a level by waves, and within a wave as they were. Local.

    Args:
        columns: of the entries (rows x places); the pattern is symmetric among the rows of this rank.
        counts: entries of each row.
    """
    wave = np.zeros(len(counts), np.int64)
    find_waves(columns, counts, wave)
    sizes = np.bincount(wave)
    starts = np.concatenate(([0], np.cumsum(-(-sizes // WIDTH) * WIDTH)))
    by_wave = np.argsort(wave, kind="stable")
    place = np.empty(len(wave), np.int64)
    place[by_wave] = np.arange(len(wave)) + np.repeat(starts[:-1] - np.cumsum(sizes) + sizes, sizes)
    return Order(place, starts)


@gw.jit
def find_waves(columns: Any, counts: Any, wave: Any) -> None:
    """Give each row a wave behind those of the rows before it that it is coupled with."""
    for row in range(len(counts)):
        for entry in range(counts[row]):
            column = columns[row, entry]
            if column < row:
                wave[row] = max(wave[row], wave[column] + 1)
