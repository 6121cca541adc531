"""The loops around two kernels of which the second reads what the first leaves, in one sweep over three axes.

A block walks along the march. At each step its threads run the first kernel on a plane of their tile, which is one
point wider on each side than what the second kernel is to compute, and then the second one on the plane before. So the
first kernel runs again on the points that the tiles of two blocks share, and its results never go to memory.

A tile that would reach beyond a box is moved back, so that it computes some points again that another block computes
too: to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.cuda.sweeps import PIECES, STEPS, TILES_X, TILES_Y

BORDER = 1
"""Points at each end of a tile where only the first kernel runs."""


@dataclass(frozen=True)
class PairParts:
    """What the sweep of a pair is made of; see `sweeps.Parts` and `sweeps.Body`.

    Args:
        load_first: `load_first(words)`, the arguments of the first kernel.
        load_second: the same of the second.
        point: `point(words, slab, step, row, column)`.
        enter: `enter(args, p, steps)`, the arguments of the first kernel, before a march of so many steps.
        advance: `advance(args, left)`, the same one step on.
        at: `at(args, p)`, the arguments of the second kernel at a point.
        make: `make(place)`, what a thread keeps of the intermediates.
        leave: `leave(state, parity)`, end the step of a plane.
        seen: `seen(args, state, parity)`, arguments with the intermediates in them.
        first: `first(total, p, args)`, run the first kernel at all points of a thread.
        second: `second(total, p, args, column)`, run the second at those that are not on the border of the tile.
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


def sweep(cuda: Any, shape: Shape, parts: PairParts) -> Any:
    """Return the function of a kernel's parameters that runs one thread's share of a launch over one box."""
    width, height = shape.x * shape.lanes, shape.y
    load_first, load_second, point = parts.load_first, parts.load_second, parts.point
    enter, advance, at = parts.enter, parts.advance, parts.at
    make, leave, seen = parts.make, parts.leave, parts.seen
    run_first, run_second = parts.first, parts.second

    def run(words: Any) -> None:
        ahead, behind = load_first(words), load_second(words)
        across, rows = cuda.threadIdx.x, cuda.threadIdx.y
        state = make(rows * width + across)
        total = 0
        for tile in range(cuda.blockIdx.x, words[4] * words[PIECES] * words[TILES_Y] * words[TILES_X], cuda.gridDim.x):
            rest = tile // words[TILES_X]
            i = min((tile - rest * words[TILES_X]) * (width - 2), words[7] - (width - 2)) - 1 + across
            above = rest // words[TILES_Y]
            j = min((rest - above * words[TILES_Y]) * (height - 2), words[6] - (height - 2)) - 1 + rows
            slab = above // words[PIECES]
            first = (above - slab * words[PIECES]) * words[STEPS]
            end = min(first + words[STEPS], words[5])
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
