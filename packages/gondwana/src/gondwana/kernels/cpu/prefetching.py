"""Rows of a kernel that ask for the elements of the next plane while they compute. Imports Numba.

A kernel whose planes are in the cache computes and waits for memory by turns, unless what it needs next is on its way:
processors look ahead less far than one row of a tile.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.types.footprint import Footprint
from gondwana.compiler.types.points import INT, PointType, coordinates, make
from gondwana.compiler.types.views import ViewType, address
from gondwana.kernels.boxes import Order

_LINE = 64
_LINES = 4
"""Cache lines of a row that are asked for at once."""

_LOCALITY, _DATA = 2, 1
"""LLVM's words for: into the second level of the cache; not the instructions."""


def row(point: Any, step: Any, order: Order, itemsize: int, footprints: dict[int, Footprint]) -> Any:
    """Return `row(total, plane, row, first, count, args)`: it runs a kernel along dense points and folds its values.

    Args:
        point: from loop coordinates to the point.
        step: `step(total, p, args)`.
        order: which axis is the innermost loop.
        itemsize: bytes of the largest element of an array.
        footprints: of the arrays of the kernel, by slot.
    """
    ask = _asker(order, footprints)
    line = max(1, _LINE // itemsize)
    chunk = _LINES * line

    @inlined
    def run(total: Any, plane: int, row: int, first: int, count: int, args: Any) -> Any:
        chunks = count // chunk
        for number in range(chunks):
            begin = first + chunk * number
            for i in range(0, chunk, line):
                ask(args, point((plane, row, begin + i)))
            for i in range(chunk):
                total = step(total, point((plane, row, begin + i)), args)
        for i in range(chunks * chunk, count):
            total = step(total, point((plane, row, first + i)), args)
        return total

    return run


def split(outside: Any, inside: Any) -> Any:
    """Return a function like `row` that runs another kernel where the row is in the interior. Local.

    It has one argument more, the box of the interior as `sweeps.box_reader` gives it.

    Args:
        outside: runs a kernel along a row; see `row`.
        inside: runs the other kernel; None if there is none.
    """
    if inside is None:

        @inlined
        def whole(total: Any, plane: int, row: int, first: int, count: int, args: Any, interior: Any) -> Any:
            return outside(total, plane, row, first, count, args)

        return whole

    @inlined
    def run(total: Any, plane: int, row: int, first: int, count: int, args: Any, interior: Any) -> Any:
        i0, j0, k0, n0, n1, n2, _, _, _ = interior
        begin = end = first
        if i0 <= plane < i0 + n0 and j0 <= row < j0 + n1:
            begin = min(max(k0, first), first + count)
            end = max(begin, min(k0 + n2, first + count))
        total = outside(total, plane, row, first, begin - first, args)
        total = inside(total, plane, row, begin, end - begin, args)
        return outside(total, plane, row, end, first + count - end, args)

    return run


def _asker(order: Order, footprints: dict[int, Footprint]) -> Any:
    """A compiled function that asks for what a kernel is the first to touch one plane after a point."""
    march = 0 if order == "C" else 2

    @intrinsic
    def ask(typingctx: Any, args: Any, p: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            for view, value in _views(builder, args, values[0]):
                footprint = footprints.get(view.slot)
                if footprint is None or len(footprint.hi) != p.ndim:
                    continue
                at = coordinates(builder, p, values[1])
                at[march] = builder.add(at[march], ir.Constant(INT, footprint.hi[march] + 1))
                _prefetch(builder, _address(context, builder, view, value, at), write=footprint.written)
            return context.get_dummy_value()

        return types.none(args, p), codegen

    return ask


def _address(context: Any, builder: Any, view: ViewType, value: Any, at: list[Any]) -> Any:
    index = PointType(len(at), None)
    return address(context, builder, view, value, index, make(context, builder, index, at))


def _views(builder: Any, kind: Any, value: Any) -> list[tuple[ViewType, Any]]:
    """The arrays in an argument, in tuples too."""
    if isinstance(kind, ViewType):
        return [(kind, value)]
    if not isinstance(kind, types.BaseTuple):
        return []
    members = ((member, builder.extract_value(value, i)) for i, member in enumerate(kind.types))
    return [found for member, part in members for found in _views(builder, member, part)]


def _prefetch(builder: Any, pointer: Any, *, write: bool) -> None:
    word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    hints = [ir.Constant(word, number) for number in (int(write), _LOCALITY, _DATA)]
    builder.call(function, [builder.bitcast(pointer, byte), *hints])
