"""The parts of a sweep as compiled code: see `sweeps.Parts`. Imports numba-cuda."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.cuda.extending import intrinsic

from gondwana.compiler.types.points import INT, PointType, coordinates as values_of, make
from gondwana.compiler.types.views import ViewType
from gondwana.kernels.cuda import shapes, views
from gondwana.kernels.cuda.compiler import device_function
from gondwana.kernels.cuda.shapes import AXES, Shape
from gondwana.kernels.cuda.views import Access, ColumnType
from gondwana.kernels.variant import Order

Accesses = dict[int, Access]
"""The way to reach each array of a kernel, by slot."""


def point_maker(ndim: int, order: Order, *, dense: bool) -> Any:
    """A compiled function that returns the index point at numbers of loops, of the box that the parameters describe."""
    kind = PointType(ndim, (0,) * ndim)
    loops = shapes.coordinates(ndim, order)

    @intrinsic
    def point(typingctx: Any, words: Any, slab: Any, step: Any, row: Any, column: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = []
            for loop in loops:
                first = builder.extract_value(args[0], loop)
                stride = INT(1) if dense else builder.extract_value(args[0], 2 * AXES + loop)
                found.append(builder.add(first, builder.mul(stride, args[1 + loop], flags=["nsw"]), flags=["nsw"]))
            return make(context, builder, kind, found)

        return kind(words, *[types.int64] * AXES), codegen

    return point


def lane_of(ndim: int, order: Order, distance: int) -> Any:
    """A compiled function that returns the point at a distance along the row from another, which knows its offset."""
    offset = tuple(distance * step for step in shapes.row(ndim, order))
    kind = PointType(ndim, offset)

    @intrinsic
    def lane(typingctx: Any, p: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            at = values_of(builder, signature.args[0], args[0])
            moved = [builder.add(x, ir.Constant(INT, step), flags=["nsw"]) for x, step in zip(at, offset, strict=True)]
            return make(context, builder, kind, moved)

        return kind(p), codegen

    return lane


def lanes(one: Any, ndim: int, order: Order, count: int, distance: int) -> Any:
    """A compiled function that runs `one` at `count` points along the row, `distance` apart."""
    if count == 1:
        return one
    rest = lanes(one, ndim, order, count - 1, distance)
    lane = lane_of(ndim, order, (count - 1) * distance)

    @device_function
    def several(total: Any, p: Any, args: Any) -> Any:
        return one(rest(total, p, args), lane(p), args)

    return several


def inner_lanes(one: Any, ndim: int, order: Order, shape: Shape, count: int) -> Any:
    """The same, except for points whose column in the tile, counted from that of the thread, is on its border."""
    distance, last = (count - 1) * shape.x, shape.x * shape.lanes - 1
    rest = inner_lanes(one, ndim, order, shape, count - 1) if count > 1 else None
    lane = lane_of(ndim, order, distance)

    @device_function
    def only(total: Any, p: Any, args: Any, column: int) -> Any:
        return one(total, lane(p), args) if 0 < column + distance < last else total

    if rest is None:
        return only

    @device_function
    def several(total: Any, p: Any, args: Any, column: int) -> Any:
        return only(rest(total, p, args, column), p, args, column)

    return several


def seen_as(kind: Any, accesses: Accesses) -> Any:
    """The type of an argument as a thread sees it: arrays become columns, in tuples too."""
    if isinstance(kind, ViewType):
        return ColumnType(kind, accesses.get(kind.slots[0], Access()))
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        return types.NamedTuple([seen_as(member, accesses) for member in kind.types], kind.instance_class)
    if isinstance(kind, types.BaseTuple):
        return types.Tuple([seen_as(member, accesses) for member in kind.types])
    return kind


Change = Callable[[ColumnType, Any], Any]
"""Makes the value of a column from the value that it replaces."""


def _changed(context: Any, builder: Any, kind: Any, value: Any, change: Change) -> Any:
    """An argument with the arrays in it changed; `kind` is the resulting type."""
    if isinstance(kind, ColumnType):
        return change(kind, value)
    if isinstance(kind, types.BaseTuple):
        members = [builder.extract_value(value, i) for i in range(len(kind.types))]
        pairs = zip(kind.types, members, strict=True)
        return context.make_tuple(builder, kind, [_changed(context, builder, k, v, change) for k, v in pairs])
    return value


def aligner(accesses: Accesses) -> Any:
    """A compiled function `aligned(args, p)`: whether all elements at the points of a thread at `p` can be joined."""

    @intrinsic
    def aligned(typingctx: Any, args: Any, p: Any) -> Any:
        kind = seen_as(args, accesses)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            found = [cgutils.true_bit]

            def check(column: ColumnType, view: Any) -> Any:
                if column.view.slots[0] in accesses and column.has_place(p.ndim):
                    found.append(views.aligned(context, builder, column, view, p, values[1]))
                return ir.Constant(context.get_value_type(column), ir.Undefined)

            _changed(context, builder, kind, values[0], check)
            return functools.reduce(builder.and_, found)

        return types.boolean(args, p), codegen

    return aligned


def walker(accesses: Accesses, march: shapes.Offset) -> tuple[Any, Any, Any]:
    """The compiled functions `enter`, `advance` and `at` of `sweeps.Body`."""

    @intrinsic
    def enter(typingctx: Any, args: Any, p: Any, steps: Any) -> Any:
        kind = seen_as(args, accesses)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            def change(column: ColumnType, view: Any) -> Any:
                there = views.at_point(context, builder, column, view, p, values[1])
                return views.filled(context, builder, column, there, march, values[2])

            return _changed(context, builder, kind, values[0], change)

        return kind(args, p, types.int64), codegen

    @intrinsic
    def advance(typingctx: Any, held: Any, left: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            def change(column: ColumnType, value: Any) -> Any:
                return views.stepped(context, builder, column, value, march, values[1])

            return _changed(context, builder, held, values[0], change)

        return held(held, types.int64), codegen

    @intrinsic
    def at(typingctx: Any, args: Any, p: Any) -> Any:
        kind = seen_as(args, accesses)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            def change(column: ColumnType, view: Any) -> Any:
                return views.at_point(context, builder, column, view, p, values[1])

            return _changed(context, builder, kind, values[0], change)

        return kind(args, p), codegen

    return enter, advance, at
