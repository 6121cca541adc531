"""The benchmark's own count of operations, bytes and memory (HPCG 3.1), and the bytes that the optimised path moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gondwana_apps.hpcg.problem import Level, nonzeros
from gondwana_apps.hpcg.split import PLACES

DOUBLE, INDEX, NUMBER = 8, 4, 8
OFFICIAL_ITERATIONS = 50
"""Iterations of a set that count; more than these are never rewarded."""

_ENTRIES = 27 * (8 + 4 + 8)
_FINEST_ROW = 1 + 32 + _ENTRIES + 24 + 2 * 8
_COARSE_ROW = 4 + 8 + 1 + 32 + _ENTRIES
_FINEST_EXTRA, _COARSE_EXTRA = 140, 448


@dataclass(frozen=True)
class Sizes:
    """Rows and entries of a level, of all ranks together, and the length of a vector of rank 0."""

    rows: int
    nonzeros: int
    columns: int


@dataclass(frozen=True)
class Operations:
    """Floating-point operations by kernel, of all sets and ranks together."""

    dot: float
    combine: float
    multiply: float
    precondition: float

    @property
    def total(self) -> float:
        """Operations of all kernels."""
        return self.dot + self.combine + self.multiply + self.precondition


def sizes(levels: Sequence[Level]) -> list[Sizes]:
    """Return the sizes of all levels. Local."""
    return [Sizes(math.prod(level.geometry.shape), nonzeros(level.geometry.shape), level.columns) for level in levels]


def operations(levels: Sequence[Sizes], sets: int, iterations: int) -> Operations:
    """Count the operations of all sets. Local.

    Args:
        levels: sizes of the levels, the finest first.
        sets: number of sets solved.
        iterations: iterations of a set.

    Example:
        >>> cube = [Sizes(g**3, (3 * g - 2) ** 3, g**3) for g in (104, 52, 26, 13)]
        >>> f"{operations(cube, 5, 50).total:.5e}"
        '1.03347e+11'
    """
    n, done = levels[0].rows, sets * iterations
    vectors = (3.0 * done + sets) * 2.0 * n
    smoothing = sum((4 + 2 + 4) * level.nonzeros for level in levels[:-1]) + 4 * levels[-1].nonzeros
    return Operations(vectors, vectors, (done + sets) * 2.0 * levels[0].nonzeros, float(done) * smoothing)


def model_bytes(levels: Sequence[Sizes], sets: int, iterations: int) -> tuple[float, float]:
    """Return the bytes read and written as the benchmark counts them: those of the reference. Local.

    Twice per cycle and level it counts a written double for each entry rather than each row; so do we.
    """
    n, done = levels[0].rows, sets * iterations
    entry = DOUBLE + INDEX
    vectors = 3.0 * done + sets
    read = 2.0 * vectors * 2.0 * n * DOUBLE + (done + sets) * (float(levels[0].nonzeros) * entry + n * DOUBLE)
    written = vectors * DOUBLE + vectors * n * DOUBLE + (done + sets) * float(n) * DOUBLE
    for level in levels[:-1]:
        read += done * (5.0 * level.nonzeros * entry + 3.0 * level.rows * DOUBLE)
        written += done * (level.rows + 2.0 * level.nonzeros) * DOUBLE
    coarsest = levels[-1]
    read += done * (2.0 * coarsest.nonzeros * entry + coarsest.rows * DOUBLE)
    written += done * float(coarsest.rows) * DOUBLE
    return read, written


def memory(levels: Sequence[Sizes], ranks: int, sent: Sequence[int], sets: int) -> list[float]:
    """Return the bytes of each level as the benchmark counts them. Local.

    Args:
        levels: sizes of the levels, the finest first.
        ranks: number of ranks of the run.
        sent: entries that rank 0 sends on each level.
        sets: number of sets solved; a residual is kept of each.
    """
    found = [levels[0].rows * float(_FINEST_ROW) + _FINEST_EXTRA + 8 * sets]
    found += [level.rows * float(_COARSE_ROW) + _COARSE_EXTRA for level in levels[1:]]
    vectors = [16.0 * ranks * level.columns for level in levels]
    messages = [12.0 * ranks * count if ranks > 1 else 0.0 for count in sent]
    return [sum(parts) for parts in zip(found, vectors, messages, strict=True)]


def moved_bytes(rows: Sequence[int], points: Sequence[int]) -> float:
    """Return the least bytes that an iteration of the optimised path moves: each array of a sweep once. Local.

    Half a matrix is `PLACES` values and columns a row; vectors are read or written once a sweep.

    Args:
        rows: stored rows of each level, including those that fill waves up.
        points: coarse points of each level but the first.
    """
    half = PLACES * (DOUBLE + INDEX)
    total = rows[0] * (2.0 * half + 3 * DOUBLE)  # the product
    total += rows[0] * (2 + 3 + 6) * DOUBLE  # r.z, p = z + beta p, and the update of x and r
    total += sum(rows) * (2.0 * half + (4 + 4) * DOUBLE)  # the sweeps from zero
    total += sum(rows[:-1]) * (2.0 * half + (5 + 4) * DOUBLE)  # the sweeps after the correction
    total += sum(points) * (2.0 * half + (2 + 5 + 3) * DOUBLE + 4 * NUMBER)  # to the coarser level and back
    return total
