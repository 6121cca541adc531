"""The sweeps of device kernels in numba's CUDA simulator, with parts in plain Python, against the interpreter's loop.

A program of its own: `NUMBA_ENABLE_CUDASIM=1 python simulated_parts.py`. The simulator replaces all of numba-cuda in a
process, so nothing compiled can run beside it. It prints the cases that agree and fails at the first that does not.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

import gondwana as gw
from gondwana.kernels.cuda import shapes, sweeps
from gondwana.kernels.cuda.shapes import AXES, Shape
from gondwana.kernels.variant import box_table

Kernel = Callable[..., None]


def plain(function: Any) -> Any:
    """Decorator of functions that the simulator calls as they are."""
    return function


def launched(make: Callable[[Any], Any], blocks: int, shape: Shape, words: Any) -> None:
    """Run what `make(cuda)` returns in the simulator, which has the name `cuda` mean something else in a kernel."""

    def kernel(words: Any) -> None:
        make(cuda)(words)

    cuda.jit(kernel)[max(1, blocks), (shape.x, shape.y)](words)


def point_of(ndim: int, order: str) -> Any:
    """The point at numbers of loops."""
    loops = shapes.coordinates(ndim, order)  # type: ignore[arg-type]

    def point(words: Any, *numbers: int) -> gw.Point:
        return gw.Point(*(int(words[loop] + words[2 * AXES + loop] * numbers[loop]) for loop in loops))

    return point


def single_parts(
    kernel: Kernel, arrays: tuple[Any, ...], ndim: int, order: str, shape: Shape, aligned: bool
) -> sweeps.Parts:
    """The parts of a sweep; a held column is the arguments and the point that it should be at."""
    march = shapes.march(ndim, order) or (0,) * ndim  # type: ignore[arg-type]
    row = shapes.row(ndim, order)  # type: ignore[arg-type]

    def one(total: int, p: gw.Point, held: Any) -> int:
        assert held[1] is None or held[1] == p, f"a column is at {held[1]}, the kernel at {p}"
        kernel(p, *held[0])
        return total + 1

    def lanes(total: int, p: gw.Point, held: Any) -> int:
        assert held[1] is None or held[1] == p
        for lane in range(shape.lanes):
            total = one(total, p + gw.Point(*row) * lane, (held[0], None))
        return total

    def body(run: Any) -> sweeps.Body:
        return sweeps.Body(
            enter=lambda args, p, *steps: (args, p),
            advance=lambda held, left: (held[0], held[1] + gw.Point(*march)),
            at=lambda args, p: (args, p),
            run=run,
        )

    return sweeps.Parts(
        load=lambda words: arrays,
        point=point_of(ndim, order),
        several=body(lanes),
        one=body(one),
        aligned=lambda args, p: aligned,
        start=lambda: 0,
        finish=lambda words, total: None,
    )


def run_single(
    kernel: Kernel, box: gw.RectDomain, arrays: tuple[Any, ...], shape: Shape, order: str, march: bool, folding: bool
) -> None:
    """Run a sweep over a box in the simulator: with half the blocks if it folds, so that each takes several tiles."""
    rows, _, _ = box_table(box, order)  # type: ignore[arg-type]
    where = shapes.geometry(struct.unpack(f"{len(rows) // 8}q", rows), shape)
    words = (*struct.unpack(f"{len(where.words) // 8}q", where.words), 0)
    parts = single_parts(kernel, arrays, box.ndim, order, shape, aligned=not folding)
    how = {"marching": march, "folding": folding, "flat": box.ndim == 1}
    blocks = where.tiles // 2 if folding else where.tiles
    launched(lambda cuda: sweeps.sweep(cuda, plain, shape, parts, **how), blocks, shape, words)


def copy_twice(p: gw.Point, target: Any, source: Any) -> None:
    """Count how often each point is visited, with what the source has there."""
    target[p] = target[p] + source[p] + 1.0


def check_single(
    lo: tuple[int, ...], extents: tuple[int, ...], shape: Shape, order: str, march: bool, step: int, folding: bool
) -> None:
    """Every point is visited once, and no other."""
    hi = tuple(a + step * n for a, n in zip(lo, extents, strict=True))
    box = gw.RectDomain(lo, hi, (step,) * len(lo))
    around = gw.RectDomain(lo, hi).accrete(1)
    source, target = gw.Array.full(around, 2.0), gw.Array.zeros(around)
    run_single(copy_twice, box, (target, source), shape, order, march, folding)
    expected = gw.Array.zeros(around)
    for p in box:
        expected[p] = 3.0
    assert np.array_equal(target.numpy(), expected.numpy()), (lo, extents, shape, order, march)


def check_pair(extents: tuple[int, int, int], shape: Shape, order: str) -> None:
    """Two steps of a sum over neighbours in one sweep."""
    box = gw.RectDomain((0, 0, 0), extents)
    around = box.accrete(2)
    rng = np.random.default_rng(1)
    source, target = gw.Array(rng.random(around.shape), around), gw.Array.zeros(around)
    between = gw.Array.zeros(box.accrete(1))
    offsets = [s * gw.Point(*axis) for axis in np.eye(3, dtype=int).tolist() for s in (1, -1)]

    def summed(p: gw.Point, a: Any) -> float:
        return float(sum(a[p + offset] for offset in offsets))

    march = gw.Point(*(shapes.march(3, order) or ()))  # type: ignore[arg-type]
    row = gw.Point(*shapes.row(3, order))  # type: ignore[arg-type]
    width = shape.x * shape.lanes
    visited: dict[gw.Point, int] = {}

    def first(total: int, p: gw.Point, held: Any) -> int:
        assert held[1] == p, f"a column is at {held[1]}, the kernel at {p}"
        for lane in range(shape.lanes):
            q = p + row * (lane * shape.x)
            between[q] = summed(q, source)
        return total

    def second(total: int, p: gw.Point, held: Any, column: int) -> int:
        for lane in range(shape.lanes):
            if 0 < column + lane * shape.x < width - 1:
                q = p + row * (lane * shape.x)
                target[q] = summed(q, between)
                visited[q] = visited.get(q, 0) + 1
        return total

    parts = sweeps.PairParts(
        load_first=lambda words: (),
        load_second=lambda words: (),
        point=point_of(3, order),
        enter=lambda args, p, *steps: (args, p),
        advance=lambda held, left: (held[0], held[1] + march),
        at=lambda args, p: (args, p),
        make=lambda place: None,
        leave=lambda state, parity: None,
        seen=lambda args, state, parity: args,
        first=first,
        second=second,
    )
    rows, _, _ = box_table(box, order)  # type: ignore[arg-type]
    where = shapes.geometry(struct.unpack(f"{len(rows) // 8}q", rows), shape, sweeps.BORDER)
    words = (*struct.unpack(f"{len(where.words) // 8}q", where.words), 0)
    launched(lambda cuda: sweeps.sweep_pair(cuda, plain, shape, parts), where.tiles, shape, words)
    middle = {p: summed(p, source) for p in box.accrete(1)}
    for p in box:
        assert visited.get(p, 0) >= 1, f"{p} was left out"
        assert abs(target[p] - sum(middle[p + offset] for offset in offsets)) < 1e-12
    assert set(visited) == set(box)


def main() -> None:
    """Try all cases."""
    cases = [
        ((-2,), (11,), Shape(x=4, y=1), 1),
        ((0,), (13,), Shape(x=4, y=1, lanes=2), 1),
        ((3, -1), (7, 9), Shape(x=4, y=1, steps=3), 1),
        ((0, 0), (4, 5), Shape(x=2, y=1, steps=8), 3),
        ((-1, 2, 0), (5, 3, 6), Shape(x=2, y=2, steps=2), 1),
        ((0, 0, 0), (4, 4, 7), Shape(x=2, y=2, lanes=2, steps=3), 1),
        ((0, 0, 0), (4, 2, 3), Shape(x=2, y=2, steps=3), 2),
        ((0, 0, 0, 0), (2, 3, 2, 5), Shape(x=2, y=2, steps=2), 1),
    ]
    for (lo, extents, shape, step), order in itertools.product(cases, "CF"):
        for march in (False, True) if step == 1 and len(lo) > 1 else (False,):
            check_single(lo, extents, shape, order, march, step, order == "F")
            print(f"sweep of {extents} in order {order}, {shape}: as the interpreter")
    for extents, shape in [((5, 4, 6), Shape(x=4, y=4, steps=2)), ((3, 3, 7), Shape(x=3, y=4, lanes=2, steps=9))]:
        for order in "CF":
            ordered = extents if order == "C" else extents[::-1]
            check_pair(ordered, shape, order)  # type: ignore[arg-type]
            print(f"pair over {ordered} in order {order}, {shape}: as the interpreter")


if __name__ == "__main__":
    main()
