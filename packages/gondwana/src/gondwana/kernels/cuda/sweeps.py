"""The loops around a kernel, or a fused pair, on a device. The same source runs compiled and in numba's simulator.

A tile is the work of a block at a time: a piece of the march over `y` rows of `x * lanes` points. Tiles are numbered
along rows first, so that blocks that run at the same time share rows in the cache. Only the functions of `Parts` know
points and arrays.

For a pair, a block walks along the march. At each step its threads run the first kernel on a plane of their tile, which
is one point wider on each side than the result of the second kernel, and then the second one on the plane before. So
the first kernel runs again on the points that the tiles of two blocks share, and its results never go to memory. A
tile that would reach beyond a box is moved back, so that it recomputes some points of another block, with the same
bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gondwana.kernels.cuda.shapes import AXES, Shape

Inlined = Callable[[Any], Any]
"""A decorator of functions that become part of their callers."""

TILES_X, TILES_Y, PIECES, STEPS, RESULTS = range(3 * AXES, 3 * AXES + 5)

BORDER = 1
"""Points at each end of a tile of a pair where only the first kernel runs."""


@dataclass(frozen=True)
class Body:
    """The work of a thread at each step of its march.

    Args:
        enter: `enter(args, p, steps)`, the arguments as a thread sees them at `p`, before a march of `steps` steps.
        advance: `advance(args, left)`, the same one step on, with `left` more steps to follow.
        at: `at(args, p)`, the arguments as a thread sees them at a point, without a march.
        run: `run(total, p, args)`, runs the kernel and folds its values into `total`.
    """

    enter: Any
    advance: Any
    at: Any
    run: Any


@dataclass(frozen=True)
class Parts:
    """The parts of a sweep.

    Args:
        load: `load(words)`, the arguments of the kernel.
        point: `point(words, slab, step, row, column)`, the index point there.
        several: body at all points of a thread, of which that of the march is the first.
        one: body at that point only, if not all are in the box, or not aligned.
        aligned: `aligned(args, p)`, whether several points can be loaded at once from `p`.
        start: `start()`, the value to fold into.
        finish: `finish(words, total)`, called once by every thread at the end.
    """

    load: Any
    point: Any
    several: Body
    one: Body
    aligned: Any
    start: Any
    finish: Any


@dataclass(frozen=True)
class PairParts:
    """The parts of the sweep of a pair; see `Parts` and `Body`.

    Args:
        load_first: `load_first(words)`, the arguments of the first kernel.
        load_second: the same for the second.
        point: `point(words, slab, step, row, column)`.
        enter: `enter(args, p, steps)`, the arguments of the first kernel, before a march of `steps` steps.
        advance: `advance(args, left)`, the same one step on.
        at: `at(args, p)`, the arguments of the second kernel at a point.
        make: `make(place)`, the state of a thread for the intermediates.
        leave: `leave(state, parity)`, ends the step of a plane.
        seen: `seen(args, state, parity)`, arguments with the intermediates in them.
        first: `first(total, p, args)`, runs the first kernel at all points of a thread.
        second: `second(total, p, args, column)`, runs the second at those that are not on the border of the tile.
    """

    load_first: Any
    load_second: Any
    point: Any
    enter: Any
    advance: Any
    at: Any
    make: Any
    leave: Any
    seen: Any
    first: Any
    second: Any


def sweep(
    cuda: Any,
    inlined: Inlined,
    shape: Shape,
    parts: Parts,
    *,
    marching: bool,
    folding: bool = False,
    flat: bool = False,
) -> Any:
    """Return the function of a kernel's parameters that runs one thread's share of a launch over one box.

    Args:
        cuda: numba-cuda, or its simulator.
        inlined: decorator of the functions that it calls.
        shape: shape of the launch; its threads are those that the launch has.
        parts: parts of the sweep.
        marching: whether elements are held along the march.
        folding: whether there are fewer blocks than tiles, else there is one for each.
        flat: whether there is one axis only.
    """
    walk = _marching if marching else _stepping
    one, lanes = walk(inlined, parts.point, parts.one, 1), shape.lanes
    if lanes == 1:
        columns = _column(cuda, inlined, one)
    else:
        columns = _columns(cuda, inlined, lanes, parts, walk(inlined, parts.point, parts.several, lanes), one)
    load, start, finish = parts.load, parts.start, parts.finish
    split = inlined(_split_row if flat else _split)

    @inlined
    def of_tile(total: Any, words: Any, args: Any, tile: int) -> Any:
        column, row, slab, first, end = split(tile, words)
        i, j = column * cuda.blockDim.x * lanes, row * cuda.blockDim.y + cuda.threadIdx.y
        return columns(total, words, args, slab, first, end, j, i) if j < words[6] else total

    def run(words: Any) -> None:
        args = load(words)
        finish(words, of_tile(start(), words, args, np.int64(cuda.blockIdx.x)))

    def run_all(words: Any) -> None:
        args = load(words)
        total = start()
        tile, tiles = np.int64(cuda.blockIdx.x), words[4] * words[PIECES] * words[TILES_Y] * words[TILES_X]
        while tile < tiles:
            total = of_tile(total, words, args, tile)
            tile += cuda.gridDim.x
        finish(words, total)

    return run_all if folding else run


def sweep_pair(cuda: Any, inlined: Inlined, shape: Shape, parts: PairParts) -> Any:
    """Return the function of a kernel's parameters that runs one thread's share of a launch over one box."""
    width, height = shape.x * shape.lanes, shape.y
    load_first, load_second, point = parts.load_first, parts.load_second, parts.point
    enter, advance, at = parts.enter, parts.advance, parts.at
    make, leave, seen = parts.make, parts.leave, parts.seen
    run_first, run_second = parts.first, parts.second
    split = inlined(_split)

    def run(words: Any) -> None:
        ahead, behind = load_first(words), load_second(words)
        across, rows = cuda.threadIdx.x, cuda.threadIdx.y
        state = make(rows * width + across)
        total = 0
        column, row, slab, first, end = split(np.int64(cuda.blockIdx.x), words)
        i = min(column * (width - 2), words[7] - (width - 2)) - 1 + across
        j = min(row * (height - 2), words[6] - (height - 2)) - 1 + rows
        held = enter(ahead, point(words, slab, first - 2, j, i), end - first + 2)
        for m in range(first - 1, end + 1):
            held = advance(held, end - m)
            total = run_first(total, point(words, slab, m, j, i), seen(held, state, m & 1))
            if m > first and 0 < rows < height - 1:
                p = point(words, slab, m - 1, j, i)
                total = run_second(total, p, seen(at(behind, p), state, (m - 1) & 1), across)
            leave(state, m & 1)
            cuda.syncthreads()

    return run


def _split(tile: int, words: Any) -> tuple[int, int, int, int, int]:
    """The column, row and slab of a tile, its first step and the end of its steps.

    There are fewer than 2^32 tiles: a device divides longer numbers by a function, and all code around it waits.
    """
    rest = (tile & 0xFFFFFFFF) // (words[TILES_X] & 0xFFFFFFFF)
    above = rest // (words[TILES_Y] & 0xFFFFFFFF)
    slab = above // (words[PIECES] & 0xFFFFFFFF)
    first = (above - slab * words[PIECES]) * words[STEPS]
    end = min(first + words[STEPS], words[5])
    return tile - rest * words[TILES_X], rest - above * words[TILES_Y], slab, first, end


def _split_row(tile: int, words: Any) -> tuple[int, int, int, int, int]:
    """The same along the only axis."""
    return tile, 0, 0, 0, 1


def _column(cuda: Any, inlined: Inlined, one: Any) -> Any:
    """A thread with one column of a tile that begins at `i`."""

    @inlined
    def column(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        i += cuda.threadIdx.x
        return one(total, words, args, slab, first, end, j, i) if i < words[7] else total

    return column


def _columns(cuda: Any, inlined: Inlined, lanes: int, parts: Parts, several: Any, one: Any) -> Any:
    """A thread with several columns of a tile that begins at `i`.

    They are adjacent and run together if all are in the box and aligned. Else they run one after the other, and those
    of a block that are not aligned lie apart, so that threads beside each other load elements beside each other.
    """
    point, aligned = parts.point, parts.aligned

    @inlined
    def columns(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        k, stop, step = i + lanes * cuda.threadIdx.x, words[7], 1
        if not aligned(args, point(words, slab, first, j, k)):
            k, stop, step = i + cuda.threadIdx.x, min(i + lanes * cuda.blockDim.x, stop), cuda.blockDim.x
        elif k + lanes <= stop:
            return several(total, words, args, slab, first, end, j, k)
        while k < stop:
            total = one(total, words, args, slab, first, end, j, k)
            k += step
        return total

    return columns


def _marching(inlined: Inlined, point: Any, body: Body, together: int) -> Any:
    """The walk of a thread along the march, holding elements.

    A round of its loop is two steps if it computes several points: half as often do elements change registers.
    """
    enter, advance, run, even = body.enter, body.advance, body.run, together > 1

    @inlined
    def walk(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        held = enter(args, point(words, slab, first - 1, j, i), end - first)
        left = np.int32(end - first)  # 32 bits suffice, and take half the registers
        while even and left > 1:
            held = advance(held, left - 1)
            total = run(total, point(words, slab, end - left, j, i), held)
            held = advance(held, left - 2)
            total = run(total, point(words, slab, end - left + 1, j, i), held)
            left = np.int32(left - 2)
        while left > 0:
            held = advance(held, left - 1)
            total = run(total, point(words, slab, end - left, j, i), held)
            left = np.int32(left - 1)
        return total

    return walk


def _stepping(inlined: Inlined, point: Any, body: Body, together: int) -> Any:
    """The walk of a thread along the march, computing each point anew."""
    at, run = body.at, body.run

    @inlined
    def walk(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        for m in range(first, end):
            p = point(words, slab, m, j, i)
            total = run(total, p, at(args, p))
        return total

    return walk
