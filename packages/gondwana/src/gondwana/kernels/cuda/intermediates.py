"""Intermediates of a fused pair as its two kernels see them. Imports numba-cuda.

Each thread keeps its own column of an intermediate in registers: the planes before, at and after the one that the
second kernel is at. It finds its neighbours' elements of that plane in shared memory.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import errors, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.cuda import cgutils
from numba.cuda.extending import intrinsic
from numba.extending import lower_builtin, models, register_model

from gondwana.compiler.types.arguments import HandleSpec, Spec, TupleSpec
from gondwana.compiler.types.points import INT, PlainType, PointType, give_attributes
from gondwana.compiler.types.unpack import scalar_type
from gondwana.compiler.types.views import DTYPE
from gondwana.kernels.cuda import shapes
from gondwana.kernels.cuda.shapes import Offset, Shape
from gondwana.kernels.intermediate import FAMILY, REFUSED_READ, REFUSED_STAR, REFUSED_STORE, REFUSED_WRITE
from gondwana.kernels.variant import Order

_SHARED = 3
"""The address space of shared memory."""

BEFORE, AT, BEHIND = 0, 1, 2
"""The planes of a thread's own columns, as seen by the second kernel; the first one writes the last."""


@dataclass(frozen=True)
class Tile:
    """The place of one plane of an intermediate in a block.

    Args:
        shape: shape of the launch; a block holds `shape.x * shape.lanes` by `shape.y` elements.
        ndim: number of axes.
        order: order of the loops, which gives the innermost axis.
    """

    shape: Shape
    ndim: int
    order: Order

    @property
    def width(self) -> int:
        """Number of elements of a row."""
        return self.shape.x * self.shape.lanes

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.width * self.shape.y

    def place(self, offset: Offset) -> tuple[int, int, int]:
        """Split a constant offset into steps of the march, rows and columns."""
        loops = shapes.coordinates(self.ndim, self.order)
        steps = dict(zip(loops, offset, strict=True))
        return steps.get(1, 0), steps.get(2, 0), steps.get(3, 0)


class IntermediateType(PlainType):
    """An intermediate as one of the two kernels sees it: `writes` is the first."""

    def __init__(self, dtype: Any, number: int, tile: Tile, *, writes: bool) -> None:
        self.dtype = dtype
        self.number = number
        self.tile = tile
        self.writes = writes
        super().__init__(f"Intermediate({dtype})", dtype, number, tile, writes)


def intermediates_in(kind: Any, spec: Spec, tile: Tile, *, writes: bool) -> Any:
    """The type of an argument with handles of intermediates replaced as a kernel sees them, in tuples too."""
    if isinstance(spec, HandleSpec) and spec.family == FAMILY:
        dtype, _, number = spec.parameters
        return IntermediateType(scalar_type(str(dtype)), int(str(number)), tile, writes=writes)
    if isinstance(spec, TupleSpec):
        members = [intermediates_in(k, s, tile, writes=writes) for k, s in zip(kind.types, spec.items, strict=True)]
        return types.Tuple(members) if spec.cls is None else types.NamedTuple(members, spec.cls)
    return kind


@register_model(IntermediateType)
class _MiddleModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, intermediate: IntermediateType) -> None:
        # The thread's columns; its own place in shared memory, in the plane that the second kernel is at.
        super().__init__(
            manager, intermediate, [("columns", types.CPointer(intermediate.dtype)), ("here", types.int64)]
        )


@infer_global(operator.getitem)
class _Load(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        intermediate, index = args
        if not isinstance(intermediate, IntermediateType):
            return None
        if intermediate.writes:
            raise errors.TypingError(REFUSED_READ)
        _check_star(intermediate, index)
        return signature(intermediate.dtype, intermediate, index)


@infer_global(operator.setitem)
class _Store(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        intermediate, index, value = args
        if not isinstance(intermediate, IntermediateType):
            return None
        if not intermediate.writes:
            raise errors.TypingError(REFUSED_WRITE)
        if (
            not isinstance(index, PointType)
            or index.offset is None
            or intermediate.tile.place(index.offset)[:2] != (0, 0)
        ):
            raise errors.TypingError(REFUSED_STORE)
        if self.context.can_convert(value, intermediate.dtype) is None:
            raise errors.TypingError(f"{value} cannot be an element of an intermediate of {intermediate.dtype}")
        return signature(types.none, intermediate, index, intermediate.dtype)


def _check_star(intermediate: IntermediateType, index: Any) -> None:
    offset = getattr(index, "offset", None)
    if isinstance(index, PointType) and offset is not None:
        step, row, column = intermediate.tile.place(offset)
        lane, rest = _lane(intermediate.tile, column)
        reach = abs(step) + abs(row) + abs(rest)
        if 0 <= lane < intermediate.tile.shape.lanes and reach <= 1:
            return
    raise errors.TypingError(REFUSED_STAR)


def _lane(tile: Tile, column: int) -> tuple[int, int]:
    """The point of a thread that a constant number of columns belongs to, and the distance from it."""
    lane = (column + 1) // tile.shape.x
    return lane, column - lane * tile.shape.x


def _own(builder: Any, intermediate: IntermediateType, value: Any, plane: int, lane: int) -> Any:
    """Pointer to an element of the thread's own columns."""
    return builder.gep(
        builder.extract_value(value, 0), [ir.Constant(INT, plane * intermediate.tile.shape.lanes + lane)]
    )


@lower_builtin(operator.getitem, IntermediateType, types.Any)
def _lower_load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    intermediate, index = sig.args
    step, row, column = intermediate.tile.place(index.offset)
    lane, rest = _lane(intermediate.tile, column)
    if row == 0 and rest == 0:
        return builder.load(_own(builder, intermediate, args[0], AT + step, lane))
    data = context.get_data_type(intermediate.dtype)
    here = builder.inttoptr(builder.extract_value(args[0], 1), data.as_pointer(_SHARED))
    return builder.load(builder.gep(here, [ir.Constant(INT, row * intermediate.tile.width + column)]))


@lower_builtin(operator.setitem, IntermediateType, types.Any, types.Any)
def _lower_store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    intermediate, index, _ = sig.args
    lane, _ = _lane(intermediate.tile, intermediate.tile.place(index.offset)[2])
    builder.store(args[2], _own(builder, intermediate, args[0], BEHIND, lane))
    return context.get_dummy_value()


give_attributes(IntermediateType, dtype=DTYPE)


Kinds = dict[int, str]
"""The dtypes of the intermediates of a pair, by number."""


def keeper(kinds: Kinds, tile: Tile) -> tuple[Any, Any, Any]:
    """Return the compiled functions that keep the columns of a thread.

    `make(place)` returns the state of a thread whose place in a plane is `place`; `leave(state, parity)` copies the
    elements written by the first kernel into shared memory, where planes of equal parity replace each other, and
    moves the columns on; `seen(args, state, parity)` gives a kernel's arguments the intermediates, at the plane of a
    parity.
    """
    order = sorted(kinds)
    lanes, size, step = tile.shape.lanes, tile.size, tile.shape.x
    numba_kinds = [scalar_type(kinds[number]) for number in order]
    state_type = types.Tuple([types.Tuple((types.CPointer(kind), types.int64)) for kind in numba_kinds])

    @intrinsic
    def make(typingctx: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            states = []
            for number, kind, pair in zip(order, numba_kinds, state_type.types, strict=True):
                data = context.get_data_type(kind)
                columns = cgutils.alloca_once(builder, data, size=3 * lanes)
                plane = _planes(builder.module, data, 2 * size, number)
                first = builder.ptrtoint(builder.gep(plane, [ir.Constant(INT, 0), args[0]]), INT)
                states.append(context.make_tuple(builder, pair, [columns, first]))
            return context.make_tuple(builder, state_type, states)

        return state_type(types.int64), codegen

    @intrinsic
    def leave(typingctx: Any, state: Any, parity: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for i, kind in enumerate(numba_kinds):
                data = context.get_data_type(kind)
                columns = builder.extract_value(builder.extract_value(args[0], i), 0)
                here = _at_parity(builder, builder.extract_value(args[0], i), args[1], data, size)
                for lane in range(lanes):
                    held = [builder.gep(columns, [ir.Constant(INT, p * lanes + lane)]) for p in (BEFORE, AT, BEHIND)]
                    at, behind = builder.load(held[AT]), builder.load(held[BEHIND])
                    builder.store(behind, builder.gep(here, [ir.Constant(INT, lane * step)]))
                    builder.store(at, held[BEFORE])
                    builder.store(behind, held[AT])
            return context.get_dummy_value()

        return types.none(state, parity), codegen

    @intrinsic
    def seen(typingctx: Any, args: Any, state: Any, parity: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _seen(context, builder, args, *values)

        return args(args, state, parity), codegen

    return make, leave, seen


def _planes(module: Any, data: Any, count: int, number: int) -> Any:
    """Shared memory for the planes of an intermediate."""
    name = f"gondwana_intermediate_{number}"
    if name in module.globals:
        return module.globals[name]
    planes = ir.GlobalVariable(module, ir.ArrayType(data, count), name, addrspace=_SHARED)
    planes.linkage = "internal"
    planes.initializer = ir.Constant(planes.type.pointee, ir.Undefined)
    planes.align = 16
    return planes


def _at_parity(builder: Any, state: Any, parity: Any, data: Any, size: int) -> Any:
    """Pointer to a thread's place in the plane of a parity, in shared memory."""
    own = builder.inttoptr(builder.extract_value(state, 1), data.as_pointer(_SHARED))
    return builder.gep(own, [builder.mul(parity, ir.Constant(INT, size))])


def _seen(context: Any, builder: Any, kind: Any, value: Any, states: Any, parity: Any) -> Any:
    """An argument of a kernel whose intermediates have the state of the thread."""
    if isinstance(kind, IntermediateType):
        state = builder.extract_value(states, kind.number)
        here = _at_parity(builder, state, parity, context.get_data_type(kind.dtype), kind.tile.size)
        filled = builder.insert_value(value, builder.extract_value(state, 0), 0)
        return builder.insert_value(filled, builder.ptrtoint(here, INT), 1)
    if isinstance(kind, types.BaseTuple):
        members = [
            _seen(context, builder, member, builder.extract_value(value, i), states, parity)
            for i, member in enumerate(kind.types)
        ]
        return context.make_tuple(builder, kind, members)
    return value
