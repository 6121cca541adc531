"""The common computations of all ranks: each has some rows of the matrix, and its part of every vector over the points.

Sums over points are those of small blocks of points, which belong to one rank each, added up in their order. So every
number that decides anything has the same bits on all ranks, and for any number of ranks.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana_apps.products import BAND, PARTS, PITCH, ROWS, WIDTH, multiply
from gondwana_apps.timers import Timers

Vectors: TypeAlias = npt.NDArray[np.float64]
"""Some vectors over points, one a row: [K, n] for the points of this rank, [K, N] for all."""

EXCHANGES = ("ring", "allgather")
_BLOCKS = 256


def divide(points: int, ranks: int) -> tuple[int, list[int]]:
    """Return the points of a block, and the first points of each rank, with the end. Local.

    Example:
        >>> divide(1000, 3)
        (4, [0, 332, 664, 1000])
    """
    block = -(-points // _BLOCKS)
    blocks = -(-points // block)
    return block, [min(points, block * (blocks * rank // ranks)) for rank in range(ranks + 1)]


class Rows:
    """The rows of a dissimilarity matrix that this rank has. Local to create.

    Args:
        team: ranks that share the matrix.
        d: dissimilarities [n, N] from the points that `divide` gives to this rank to all points.
        scale: scale of the numbers in `d`.
        exchange: transport of parts of vectors to other ranks: "ring", from rank to rank, or "allgather", by MPI.

    Attributes:
        points: number of points of all ranks.
        own: slice of the points of this rank.
        timed: seconds of this rank in communication, by purpose.
    """

    def __init__(self, team: gw.Team, d: npt.NDArray[Any], scale: float = 1.0, exchange: str = "ring") -> None:
        self.team, self.d, self.scale, self._exchange = team, d, scale, exchange
        self.points = d.shape[1]
        self._block, self._cuts = divide(self.points, team.size)
        self._block_cuts = [-(-cut // self._block) for cut in self._cuts]
        self.own = slice(*self._cuts[team.rank : team.rank + 2])
        self.timed = Timers()

    def multiply(self, x: Vectors) -> Vectors:
        """Return D x for the points of this rank [K, n], where x is given for all points [K, N]. Local."""
        padded = aligned(len(x), self.points)
        padded[:, : self.points] = x
        y, threads = np.empty((len(x), len(self.d))), gw.threads()
        tiles, sums = aligned(threads, ROWS * PITCH), aligned(threads, BAND * len(x) * PARTS)
        gw.parallel(multiply, self.d, padded, self.scale, y, tiles, sums)
        return y

    def gather(self, x: npt.NDArray[Any], purpose: str = "send_receive") -> npt.NDArray[Any]:
        """Return vectors for all points [K, N] from the parts of all ranks. Collective over the team.

        Args:
            x: part of this rank [K, n].
            purpose: name of the timer.
        """
        with self.timed(purpose):
            return (self._ring if self._exchange == "ring" else self._allgather)(x, self._cuts)

    def total(self, x: Vectors) -> Vectors:
        """Return the sums of vectors over all points [K], in an order that is always the same. Collective."""
        parts = np.add.reduceat(x, np.arange(0, x.shape[1], self._block), axis=1)
        with self.timed("allreduce"):
            everyone = self._allgather(parts, self._block_cuts)
        sums: Vectors = everyone.sum(axis=1)
        return sums

    def _allgather(self, part: npt.NDArray[Any], cuts: list[int]) -> npt.NDArray[Any]:
        whole = np.empty((cuts[-1], len(part)), part.dtype)  # by points, so that those of a rank are side by side
        self.team.Allgatherv(np.ascontiguousarray(part.T), (whole, len(part) * np.diff(cuts)))
        return np.ascontiguousarray(whole.T)

    def _ring(self, part: npt.NDArray[Any], cuts: list[int]) -> npt.NDArray[Any]:
        rank, size = self.team.rank, self.team.size
        blocks = [np.empty((len(part), width), part.dtype) for width in np.diff(cuts)]
        blocks[rank] = np.ascontiguousarray(part)
        for step in range(size - 1):
            passed, received = blocks[(rank - step) % size], blocks[(rank - step - 1) % size]
            self.team.Sendrecv(passed, (rank + 1) % size, 0, received, (rank - 1) % size, 0)
        return np.concatenate(blocks, axis=1)


def aligned(vectors: int, points: int) -> Vectors:
    """Return zeros in rows that begin at cache lines: an access that crosses lines takes twice as long. Local.

    Rows are filled up to a multiple of WIDTH.
    """
    pitch = -(-points // WIDTH) * WIDTH
    memory = np.zeros(vectors * pitch + WIDTH)
    first = -memory.ctypes.data // memory.itemsize % WIDTH
    return memory[first : first + vectors * pitch].reshape(vectors, pitch)
