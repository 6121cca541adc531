"""The loops around a kernel, as the compiler sees them: plain nests over dense rows. Imports Numba.

A sweep gives each thread a contiguous range of rows (a row is a run along the innermost loop), the same for every
launch on the same domain. `step(total, p, args)` runs the kernel at one point and folds its value into `total`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.memory_order import load_word
from gondwana.compiler.types.points import PointType, make
from gondwana.kernels.boxes import Order

NBOXES, BOXES = 24, 32


def box_reader(ndim: int) -> Any:
    """A compiled function: the integers of box number `b` of an argument block, three an axis, as a tuple."""
    count = 3 * ndim
    result = types.UniTuple(types.int64, count)

    @intrinsic
    def read_box(typingctx: Any, block: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(64)
            slot = builder.inttoptr(builder.add(args[0], ir.Constant(word, BOXES)), word.as_pointer())
            first = builder.add(builder.load(slot), builder.mul(args[1], ir.Constant(word, 8 * count)))
            row = builder.inttoptr(first, word.as_pointer())
            values = [builder.load(builder.gep(row, [ir.Constant(word, i)])) for i in range(count)]
            return context.make_tuple(builder, result, values)

        return result(types.int64, types.int64), codegen

    return read_box


def point_maker(ndim: int, order: Order) -> Any:
    """A compiled function: the index point at loop coordinates, which run from the outermost loop inwards."""
    kind = PointType(ndim, (0,) * ndim)

    @intrinsic
    def make_point(typingctx: Any, loops: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [builder.extract_value(args[0], i) for i in range(ndim)]
            return make(context, builder, kind, values if order == "C" else values[::-1])

        return kind(loops), codegen

    return make_point


def sweep(ndim: int, order: Order, dense: bool, step: Any, load: Any, start: Any, store: Any) -> Any:
    """The function `(block, thread, threads)` that runs one thread's share of a launch.

    Args:
        ndim: axes of the domain, 1 to 4.
        order: "C" if the last axis is the innermost loop, "F" if the first is.
        dense: whether all boxes have stride one.
        step: `step(total, p, args)`, see above.
        load: from the block to the arguments of the kernel.
        start: `start(block, thread)`, the value to fold into.
        store: `store(block, thread, total)`, called once at the end.
    """
    nests = {1: _sweep_1d, 2: _sweep_2d, 3: _sweep_3d, 4: _sweep_4d}
    body = _dense_row if dense else _strided_row
    point = point_maker(ndim, order)
    return nests[ndim](box_reader(ndim), point, body(ndim, point, step), load, start, store)


def _dense_row(ndim: int, point: Any, step: Any) -> Any:
    from gondwana.compiler.inlining import inlined

    @inlined
    def row(total: Any, head: Any, first: int, begin: int, end: int, stride: int, args: Any) -> Any:
        for i in range(begin, end):
            total = step(total, point((*head, first + i)), args)
        return total

    return row


def _strided_row(ndim: int, point: Any, step: Any) -> Any:
    from gondwana.compiler.inlining import inlined

    @inlined
    def row(total: Any, head: Any, first: int, begin: int, end: int, stride: int, args: Any) -> Any:
        for i in range(begin, end):
            total = step(total, point((*head, first + stride * i)), args)
        return total

    return row


def _sweep_1d(read_box: Any, point: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, n0, s0 = read_box(block, b)
            total = row(total, (), i0, n0 * thread // threads, n0 * (thread + 1) // threads, s0, args)
        store(block, thread, total)
        return 0

    return run


def _sweep_2d(read_box: Any, point: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, j0, n0, n1, s0, s1 = read_box(block, b)
            for i in range(n0 * thread // threads, n0 * (thread + 1) // threads):
                total = row(total, (i0 + s0 * i,), j0, 0, n1, s1, args)
        store(block, thread, total)
        return 0

    return run


def _sweep_3d(read_box: Any, point: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, j0, k0, n0, n1, n2, s0, s1, s2 = read_box(block, b)
            first = n0 * n1 * thread // threads
            last = n0 * n1 * (thread + 1) // threads
            for i in range(first // n1, (last + n1 - 1) // n1):
                for j in range(max(first - i * n1, 0), min(last - i * n1, n1)):
                    total = row(total, (i0 + s0 * i, j0 + s1 * j), k0, 0, n2, s2, args)
        store(block, thread, total)
        return 0

    return run


def _sweep_4d(read_box: Any, point: Any, row: Any, load: Any, start: Any, store: Any) -> Any:
    def run(block: int, thread: int, threads: int) -> int:
        args = load(block)
        total = start(block, thread)
        for b in range(load_word(block + NBOXES)):
            i0, j0, k0, l0, n0, n1, n2, n3, s0, s1, s2, s3 = read_box(block, b)
            first = n0 * n1 * thread // threads
            last = n0 * n1 * (thread + 1) // threads
            for i in range(first // n1, (last + n1 - 1) // n1):
                for j in range(max(first - i * n1, 0), min(last - i * n1, n1)):
                    for k in range(n2):
                        total = row(total, (i0 + s0 * i, j0 + s1 * j, k0 + s2 * k), l0, 0, n3, s3, args)
        store(block, thread, total)
        return 0

    return run
