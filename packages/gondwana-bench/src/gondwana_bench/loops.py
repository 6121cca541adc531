"""Irregular loops beside the same in C: sparse rows, tiles, random updates, sums that wait for each other."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana import RectDomain, Team, X, foreach, jit, zeros
from gondwana_bench.build import library
from gondwana_bench.measure import interleave, timed
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, beside_c, check_names, check_numbers, columns, in_milliseconds, relative

SIZES = (1048576, 16777216)
"""Elements: as many as fit into a cache, and more."""
TILE, ENTRIES, KINDS = 32, 17, 1024
"""Rows of a tile, entries of a sparse row, bins of the histogram."""
TOLERANCE = 1e-12
"""Relative to the largest value: sums may be taken in other orders."""
RIVAL, FAST = "C", "C -ffast-math"
FAST_MATH = "-ffast-math", "-nostartfiles"
"""Without gcc's start files, which make subnormal numbers zero for the thread that loads the library."""

COLUMNS = columns(
    "loop size ranks variant ms c_ms ratio fast_ratio verified",
    size="elements", c_ms=RIVAL, ratio="C/variant (95 %)", fast_ratio="-ffast-math/variant (95 %)",
)  # fmt: skip

Values = NDArray[Any]


@foreach
def product_row(p: Any, y: Any, starts: Any, columns: Any, values: Any, x: Any) -> None:
    """Compute a row of y = A x; `starts` says where each row begins among the entries."""
    total = 0.0
    for entry in range(starts[p], starts[p + X]):
        total += values[entry] * x[columns[entry]]
    y[p] = total


@jit
def product(y: Any, starts: Any, columns: Any, values: Any, x: Any) -> None:
    """Compute all rows of y = A x."""
    for row in range(len(y)):
        total = 0.0
        for entry in range(starts[row], starts[row + 1]):
            total += values[entry] * x[columns[entry]]
        y[row] = total


@foreach
def transpose_tile(p: Any, b: Any, a: Any) -> None:
    """Add a tile of the transpose of a to b."""
    for j in range(TILE * p[1], TILE * p[1] + TILE):
        for i in range(TILE * p[0], TILE * p[0] + TILE):
            b[i, j] += a[j, i]


@jit
def transposition(b: Any, a: Any) -> None:
    """Add the transpose of a to b."""
    for column in range(0, b.shape[1], TILE):
        for row in range(0, b.shape[0], TILE):
            for j in range(column, column + TILE):
                for i in range(row, row + TILE):
                    b[i, j] += a[j, i]


@foreach
def update(p: Any, table: Any, adder: Any, keys: Any) -> None:
    """Add 1 to the word of a key."""
    adder.add(table + keys[p], 1)


@jit
def updates(table: Any, adder: Any, keys: Any) -> None:
    """Add 1 to the words of all keys."""
    for i in range(len(keys)):
        adder.add(table + keys[i], 1)


@jit
def histogram(counts: Any, keys: Any) -> None:
    """Count the keys of each kind."""
    for i in range(len(keys)):
        counts[keys[i]] += 1


@jit
def prefix(sums: Any, x: Any) -> None:
    """Compute the sums of the numbers up to each."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        sums[i] = total


@jit
def wavefront(a: Any) -> None:
    """Compute each element from those beside it, of the same array."""
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = a[i - 1, j] + a[i, j - 1] - a[i - 1, j - 1]


@jit
def wavefront_last(a: Any) -> None:
    """Compute the same, but add the element that was computed last at the end."""
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = a[i - 1, j] - a[i - 1, j - 1] + a[i, j - 1]


@jit
def dot(out: Any, x: Any, y: Any) -> None:
    """Compute the sum of the products."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    out[0] = total


@dataclass(frozen=True)
class Problem:
    """A loop with its data.

    Attributes:
        variants: spellings other than in C, by name.
        count: first argument of the C function.
        arrays: its other arguments; the first is written.
        expected: the first array after the loop.
    """

    variants: Mapping[str, Callable[[], object]]
    count: int
    arrays: tuple[Values, ...]
    expected: Values


def _problem(function: Any, count: int, values: tuple[Values, ...], expected: Values, kernel: Any = None) -> Problem:
    """The problem of a function, and perhaps of a kernel over `count` points along each axis, of global arrays."""
    box = RectDomain((0,) * values[0].ndim, (count,) * values[0].ndim)
    ours, arrays = [], []
    for given in values:
        order: Any = "C" if given.flags.c_contiguous else "F"
        ours.append(zeros(RectDomain((0,) * given.ndim, given.shape), dtype=given.dtype, order=order))
        arrays.append(ours[-1].local.numpy())
        arrays[-1][...] = given
    variants = {
        **({} if kernel is None else {"foreach": partial(kernel, box, *ours)}),
        "jit": partial(function, *ours),
        "jit, reassociate": partial(jit(reassociate=True)(function.py_func), *ours),
        "Numba": partial(numba.njit(function.py_func), *arrays),
    }
    return Problem(variants, count, tuple(arrays), expected)


def _product(random: np.random.Generator, size: int) -> Problem:
    rows = max(1, size // ENTRIES)
    columns = random.integers(0, rows, ENTRIES * rows, np.int32)
    values, x = random.random(ENTRIES * rows), random.random(rows)
    starts = ENTRIES * np.arange(rows + 1, dtype=np.int32)
    expected = (values * x[columns]).reshape(rows, ENTRIES).sum(axis=1)
    return _problem(product, rows, (np.zeros(rows), starts, columns, values, x), expected, product_row)


def _transposition(random: np.random.Generator, size: int) -> Problem:
    tiles = max(1, math.isqrt(size) // TILE)
    a = random.random((tiles * TILE, tiles * TILE)).T
    return _problem(transposition, tiles, (np.zeros(a.shape, order="F"), a), a.T, transpose_tile)


def _updates(random: np.random.Generator, size: int) -> Problem:
    team, words = gw.world, max(1, size // 4)
    keys = random.integers(0, words, (team.size, size))
    table, mine = gw.Segment(team, 8 * words), keys[team.rank]
    given = table.pointer(0, "i8"), gw.AtomicDomain("i8", {"add"}, team), gw.Array(mine)
    variants = {"foreach": partial(update, RectDomain(0, size), *given), "jit": partial(updates, *given)}
    return Problem(variants, size, (table.view(0).view(np.int64), mine), np.bincount(keys.ravel(), minlength=words))


def _histogram(random: np.random.Generator, size: int) -> Problem:
    keys = random.integers(0, KINDS, size, np.int32)
    return _problem(histogram, size, (np.zeros(KINDS, np.int64), keys), np.bincount(keys, minlength=KINDS))


def _prefix(random: np.random.Generator, size: int) -> Problem:
    x = random.random(size)
    return _problem(prefix, size, (np.zeros(size), x), np.cumsum(x))


def _wavefront(random: np.random.Generator, size: int, function: Any = wavefront) -> Problem:
    side = max(2, math.isqrt(size))
    a = np.zeros((side, side))
    a[0], a[:, 0] = random.random(side), random.random(side)
    return _problem(function, side, (a,), a[:, :1] + a[:1] - a[0, 0])


def _dot(random: np.random.Generator, size: int) -> Problem:
    x, y = random.random((2, size))
    return _problem(dot, size, (np.zeros(1), x, y), np.array([math.fsum(x * y)]))


LOOPS: dict[str, Callable[[np.random.Generator, int], Problem]] = {
    "product": _product,
    "transposition": _transposition,
    "updates": _updates,
    "histogram": _histogram,
    "prefix": _prefix,
    "wavefront": _wavefront,
    "wavefront-last": partial(_wavefront, function=wavefront_last),
    "dot": _dot,
}
TOGETHER = ("updates",)
"""Loops that several ranks do together."""


def check(loops: Sequence[str], sizes: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_names("--loops", loops, LOOPS)
    check_numbers("--sizes", sizes, "numbers of at least 1, such as 1048576")


def measure(team: Team, loops: Sequence[str], sizes: Sequence[int] = SIZES, **timing: Any) -> Iterator[Row]:
    """Measure loops of every size, on one thread a rank. Collective over team.

    Args:
        team: the world, of one rank, or of ranks of a node.
        loops: names in `LOOPS`, of several ranks in `TOGETHER`.
        sizes: elements, about.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on every rank, one for each variant: its time, the speed relative to C without and with
        -ffast-math with intervals (above 1: faster), and whether all wrote what NumPy computes.
    """
    check(loops, sizes)
    for size in sizes:
        for loop in loops:
            yield from _rows(team, loop, size, timing)


def _rows(team: Team, loop: str, size: int, timing: Mapping[str, Any]) -> Iterator[Row]:
    problem = LOOPS[loop](np.random.default_rng(0), size)
    calls = dict(problem.variants)
    for name, flags in ((RIVAL, ()), (FAST, FAST_MATH)):
        function = library("loops.c", flags)[loop.partition("-")[0]]
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in problem.arrays]
        calls[name] = partial(function, ctypes.c_long(problem.count), *addresses)
    start = problem.arrays[0].copy()
    right = {name: _is_right(team, problem, start, call) for name, call in calls.items()}
    variants = {name: timed(call) for name, call in calls.items()}
    samples = interleave(variants, team=team, **timing)
    for name in problem.variants:
        verified = right[name] and right[RIVAL] and right[FAST]
        yield {
            "loop": loop,
            "size": size,
            "ranks": team.size,
            "variant": name,
            **beside_c({"ours": samples[name], "c": samples[RIVAL]}, verified, ms=in_milliseconds),
            **relative(samples[FAST], samples[name], "fast_ratio"),
        }


def _is_right(team: Team, problem: Problem, start: Values, call: Callable[[], object]) -> bool:
    """Run a variant and return on every rank whether its output is as expected."""
    written = problem.arrays[0]
    team.barrier()
    written[...] = start  # all ranks the same
    team.barrier()
    call()
    team.barrier()
    right = np.allclose(written, problem.expected, rtol=0.0, atol=TOLERANCE * np.abs(problem.expected).max())
    return all(team.allgather(right))


if __name__ == "__main__":
    sys.exit(measure_on_ranks("loops", COLUMNS, measure, pinned=True))
