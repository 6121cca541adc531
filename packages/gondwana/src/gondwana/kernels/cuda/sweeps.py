"""The loops around a kernel on a device. The same source runs compiled and in numba's simulator.

A tile is what a block does at a time: a piece of the march over `y` rows of `x * lanes` points. Tiles are numbered
along rows first, so that blocks that run at the same time share rows in the cache. Nothing but the functions of `Parts`
knows what a point or an array is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gondwana.kernels.cuda.shapes import AXES, Shape

TILES_X, TILES_Y, PIECES, STEPS, RESULTS = range(3 * AXES, 3 * AXES + 5)


@dataclass(frozen=True)
class Body:
    """What a thread does at each step of its march.

    Args:
        enter: `enter(args, p, steps)`, the arguments as a thread sees them at `p`, before a march of so many steps.
        advance: `advance(args, left)`, the same one step on, where `left` more steps follow.
        at: `at(args, p)`, the arguments as a thread sees them at a point, without a march.
        run: `run(total, p, args)`, run the kernel and fold its values into `total`.
    """

    enter: Any
    advance: Any
    at: Any
    run: Any


@dataclass(frozen=True)
class Parts:
    """What a sweep is made of.

    Args:
        load: `load(words)`, the arguments of the kernel.
        point: `point(words, slab, step, row, column)`, the index point there.
        several: at all points of a thread, of which that of the march is the first.
        one: at that point only, where not all are in the box.
        start: `start()`, the value to fold into.
        finish: `finish(words, total)`, called once by every thread at the end.
    """

    load: Any
    point: Any
    several: Body
    one: Body
    start: Any
    finish: Any


def sweep(cuda: Any, inlined: Callable[[Any], Any], shape: Shape, parts: Parts, *, marching: bool) -> Any:
    """Return the function of a kernel's parameters that runs one thread's share of a launch over one box.

    Args:
        cuda: numba-cuda, or its simulator.
        inlined: decorator of the functions that it calls.
        shape: of the launch.
        parts: see above.
        marching: whether elements are held along the march.
    """
    walk = _marching if marching else _stepping
    one = walk(inlined, parts.point, parts.one)
    if shape.lanes == 1:
        columns = _column(inlined, one)
    else:
        columns = _columns(inlined, shape, walk(inlined, parts.point, parts.several), one)
    width, height = shape.x * shape.lanes, shape.y
    load, start, finish = parts.load, parts.start, parts.finish

    def run(words: Any) -> None:
        args = load(words)
        total = start()
        slabs, steps, rows = words[4], words[5], words[6]
        for tile in range(cuda.blockIdx.x, slabs * words[PIECES] * words[TILES_Y] * words[TILES_X], cuda.gridDim.x):
            rest = tile // words[TILES_X]
            i = (tile - rest * words[TILES_X]) * width + cuda.threadIdx.x
            above = rest // words[TILES_Y]
            j = (rest - above * words[TILES_Y]) * height + cuda.threadIdx.y
            slab = above // words[PIECES]
            first = (above - slab * words[PIECES]) * words[STEPS]
            end = min(first + words[STEPS], steps)
            if j < rows:
                total = columns(total, words, args, slab, first, end, j, i)
        finish(words, total)

    return run


def _column(inlined: Callable[[Any], Any], one: Any) -> Any:
    """A thread that has one column."""

    @inlined
    def column(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        return one(total, words, args, slab, first, end, j, i) if i < words[7] else total

    return column


def _columns(inlined: Callable[[Any], Any], shape: Shape, several: Any, one: Any) -> Any:
    """A thread that has several columns, at once where all are in the box, else one after the other."""
    width, last = shape.x, (shape.lanes - 1) * shape.x

    @inlined
    def columns(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        if i + last < words[7]:
            total = several(total, words, args, slab, first, end, j, i)
        else:
            for k in range(i, words[7], width):
                total = one(total, words, args, slab, first, end, j, k)
        return total

    return columns


def _marching(inlined: Callable[[Any], Any], point: Any, body: Body) -> Any:
    """How a thread walks along the march, holding elements."""
    enter, advance, run = body.enter, body.advance, body.run

    @inlined
    def walk(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        held = enter(args, point(words, slab, first - 1, j, i), end - first)
        for m in range(first, end):
            held = advance(held, end - 1 - m)
            total = run(total, point(words, slab, m, j, i), held)
        return total

    return walk


def _stepping(inlined: Callable[[Any], Any], point: Any, body: Body) -> Any:
    """How a thread walks along the march, looking at each point anew."""
    at, run = body.at, body.run

    @inlined
    def walk(total: Any, words: Any, args: Any, slab: int, first: int, end: int, j: int, i: int) -> Any:
        for m in range(first, end):
            p = point(words, slab, m, j, i)
            total = run(total, p, at(args, p))
        return total

    return walk
