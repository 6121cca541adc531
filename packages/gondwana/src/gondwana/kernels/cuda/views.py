"""Arrays in a kernel on a device: elements needed again in the next plane stay in registers.

A thread walks along one axis, the march. A `ColumnType` is an array as such a thread sees it at one point: the address
of the element there, and the elements at some offsets (`held`), kept as values. One step of the march moves each held
element to its new offset, and loads only those that were not held before. Loads and stores at
other offsets go to memory at the address of the point plus a constant.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.extending import lower_builtin, models, register_model

from gondwana.compiler.types.arguments import WORD
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import INT, PointType
from gondwana.compiler.types.records_overloads import store_record
from gondwana.compiler.types.views import ElementsType, RecordType, ViewType, address, field, mark

Offset = tuple[int, ...]
_GLOBAL = 1
"""The address space of a device's memory."""


@dataclass(frozen=True)
class Access:
    """The way to reach the elements of one array.

    Args:
        held: offsets whose elements are kept in registers.
        ahead: number of the last planes of `held` that are loaded before their time.
        constant: whether no thread writes the array while the kernel runs.
        packed: number of adjacent elements that are loaded and stored at once, the first at a multiple of it, or 0.
    """

    held: tuple[Offset, ...] = ()
    ahead: int = 0
    constant: bool = False
    packed: int = 0


class ColumnType(ElementsType):
    """An array as a thread sees it at one point of its march.

    Memory that is not known to be aligned would be read byte by byte: `describe_elements` checks where records are.
    """

    aligned = WORD

    def __init__(self, view: ViewType, access: Access) -> None:
        self.view = view
        self.access = access
        self.dtype = view.dtype
        super().__init__(str(view), view, access)

    def view_in(self, builder: Any, value: Any) -> Any:
        """The array that a value of this type belongs to."""
        return builder.extract_value(value, 0)

    def among(self, views: Sequence[ColumnType]) -> ColumnType:
        """The type of one of several arrays: its elements come from memory."""
        access = Access(constant=all(column.access.constant for column in views))
        return ColumnType(self.view.among(views), access)

    def has_place(self, ndim: int) -> bool:
        """Whether it knows the address of the element at the index point of a kernel of `ndim` axes."""
        return self.view.ndim == ndim and not self.view.scaled


@register_model(ColumnType)
class _ColumnModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, column: ColumnType) -> None:
        members = [("view", column.view), ("here", types.int64)]
        members += [(f"held{i}", column.dtype) for i in range(len(column.access.held))]
        super().__init__(manager, column, members)


@lower_builtin(operator.getitem, ColumnType, types.Any)
def _lower_load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    column, index = sig.args
    if isinstance(column.dtype, types.Record):
        place = _pointer(context, builder, column, index, *args)
        return builder.addrspacecast(place, place.type.pointee.as_pointer())
    recorder.record(column.view, index, written=False)
    offset = getattr(index, "offset", None)
    if offset in column.access.held:
        return builder.extract_value(args[0], 2 + column.access.held.index(offset))
    return load(context, builder, column, _pointer(context, builder, column, index, *args), offset)


@lower_builtin(operator.setitem, ColumnType, types.Any, types.Any)
def _lower_store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    column, index, _ = sig.args
    recorder.record(column.view, index, written=True)
    value = context.data_model_manager[column.dtype].as_data(builder, args[2])
    pointer = _pointer(context, builder, column, index, *args[:2])
    _describe(context, builder, column, getattr(index, "offset", None), builder.store(value, pointer), value.type)
    return context.get_dummy_value()


@lower_builtin(operator.setitem, ColumnType, types.Any, RecordType)
@lower_builtin(operator.setitem, ColumnType, types.Any, types.BaseTuple)
def _store_record(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    column, index, kind = sig.args
    recorder.record(column.view, index, written=True)
    place = _lower_load(context, builder, signature(column.dtype, column, index), args[:2])
    align = math.gcd(column.dtype.size, column.aligned)
    store_record(context, builder, column.view, place, column.dtype, align, kind, args[2])
    return context.get_dummy_value()


def load(context: Any, builder: Any, column: ColumnType, pointer: Any, offset: Offset | None) -> Any:
    """Load one element."""
    loaded = builder.load(pointer)
    _describe(context, builder, column, offset, loaded, loaded.type)
    if column.access.constant:
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return context.data_model_manager[column.dtype].from_data(builder, loaded)


def _describe(
    context: Any, builder: Any, column: ColumnType, offset: Offset | None, instruction: Any, kind: Any
) -> None:
    """Tell the compiler what lets it join the loads, and the stores, of adjacent elements: their place, arrays apart.

    That arrays do not overlap is said twice: NVVM joins by the rules of C's types, for capabilities below 10.
    """
    view, packed, add = column.view, column.access.packed, builder.module.add_metadata
    if offset is not None and packed > 1 and offset[view.unit] % packed == 0:
        instruction.align = packed * context.get_abi_sizeof(kind)
    mark(builder, instruction, view)
    if view.scopes and len(view.slots) == 1:
        slot = add([f"slot {view.slots[0]} of kernel {view.kernel}", add(["arrays apart"]), INT(0)])
        instruction.set_metadata("tbaa", add([slot, slot, INT(0)]))


def _pointer(context: Any, builder: Any, column: ColumnType, index: Any, value: Any, at: Any) -> Any:
    """The address of an element, in the device's memory."""
    offset = getattr(index, "offset", None)
    if offset is None or column.view.scaled:
        plain = address(context, builder, column.view, builder.extract_value(value, 0), index, at)
        return builder.addrspacecast(plain, plain.type.pointee.as_pointer(_GLOBAL))
    return neighbour(context, builder, column, value, offset)


def neighbour(context: Any, builder: Any, column: ColumnType, value: Any, offset: Offset) -> Any:
    """The address of the element at a constant offset from the point where a column is."""
    data = context.get_data_type(column.dtype)
    first = builder.inttoptr(builder.extract_value(value, 1), data.as_pointer(_GLOBAL))
    view, unit = builder.extract_value(value, 0), 0
    for axis, steps in enumerate(offset):
        if axis == column.view.unit:
            unit = steps
        elif steps:
            stride = field(builder, column.view, view, "stride", axis)
            first = builder.gep(first, [builder.mul(stride, ir.Constant(INT, steps), flags=["nsw"])])
    return builder.gep(first, [ir.Constant(INT, unit)]) if unit else first


def at_point(context: Any, builder: Any, column: ColumnType, view: Any, point: PointType, at: Any) -> Any:
    """A column of an array at a point, without held elements yet."""
    value = ir.Constant(context.get_value_type(column), ir.Undefined)
    value = builder.insert_value(value, view, 0)
    if not column.has_place(point.ndim):
        return value
    here = builder.ptrtoint(address(context, builder, column.view, view, point, at), INT)
    return builder.insert_value(value, here, 1)


def aligned(context: Any, builder: Any, column: ColumnType, view: Any, point: PointType, at: Any) -> Any:
    """Whether elements can be joined, as the access says, at a point and its neighbours."""
    if not column.access.packed:
        return cgutils.false_bit
    size = context.get_abi_sizeof(context.get_data_type(column.dtype))
    found = builder.ptrtoint(address(context, builder, column.view, view, point, at), INT)
    for axis in range(point.ndim):
        if axis != column.view.unit:
            stride = field(builder, column.view, view, "stride", axis)
            found = builder.or_(found, builder.mul(stride, ir.Constant(INT, size), flags=["nsw"]))
    rest = builder.and_(found, ir.Constant(INT, column.access.packed * size - 1))
    return builder.icmp_unsigned("==", rest, ir.Constant(INT, 0))


def filled(context: Any, builder: Any, column: ColumnType, value: Any, march: Offset, steps: Any) -> Any:
    """A column with the held elements that the first of `steps` steps of a march takes over and does not load."""
    for i, offset in enumerate(column.access.held):
        if _plus(offset, march, -1) in column.access.held:
            loaded = _loaded_ahead(context, builder, column, value, offset, march, steps)
            value = builder.insert_value(value, loaded, 2 + i)
    return value


def stepped(context: Any, builder: Any, column: ColumnType, value: Any, march: Offset, left: Any) -> Any:
    """A column one step of the march on, after which `left` more follow: held elements move, new ones are loaded."""
    if not column.has_place(len(march)):
        return value
    held = column.access.held
    axis, size = march.index(1), context.get_abi_sizeof(context.get_data_type(column.dtype))
    stride = field(builder, column.view, builder.extract_value(value, 0), "stride", axis)
    move = builder.mul(stride, ir.Constant(INT, size), flags=["nsw"])
    moved = builder.insert_value(value, builder.add(builder.extract_value(value, 1), move), 1)
    for i, offset in enumerate(held):
        before = _plus(offset, march, 1)
        if before in held:
            element = builder.extract_value(value, 2 + held.index(before))
        else:
            element = _loaded_ahead(context, builder, column, moved, offset, march, left)
        moved = builder.insert_value(moved, element, 2 + i)
    return moved


def _loaded_ahead(
    context: Any, builder: Any, column: ColumnType, value: Any, offset: Offset, march: Offset, left: Any
) -> Any:
    """Load a held element at a point after which `left` steps follow.

    An element that no step will need may lie outside of the array: then another one of the same column is loaded.
    """
    access, axis = column.access, march.index(1)
    foot = _plus(offset, march, -offset[axis])
    last = max(other[axis] for other in access.held if _plus(other, march, -other[axis]) == foot) - access.ahead
    pointer = neighbour(context, builder, column, value, offset)
    early = offset[axis] - last
    if early > 0:
        needed = builder.icmp_signed(">=", left, ir.Constant(INT, early))
        nearest = neighbour(context, builder, column, value, _plus(offset, march, -early))
        pointer = builder.select(needed, pointer, nearest)
    return load(context, builder, column, pointer, offset)


def _plus(offset: Offset, march: Offset, steps: int) -> Offset:
    return tuple(a + steps * b for a, b in zip(offset, march, strict=True))
