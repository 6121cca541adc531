"""Arrays in a kernel on a device: elements needed again in the next plane stay in registers.

A thread walks along one axis, the march. A `ColumnType` is an array as such a thread sees it at one point: the address
of the element there, and the elements at some offsets (`held`), kept as values. One step of the march moves each held
element to its new offset, and loads only those that were not held before. Loads and stores at
other offsets go to memory at the address of the point plus a constant.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
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
_BYTE = ir.IntType(8)


@dataclass(frozen=True)
class Access:
    """The way to reach the elements of one array.

    Args:
        held: offsets whose elements are kept in registers.
        ahead: number of the last planes of `held` that are loaded before their time.
        constant: whether no thread writes the array while the kernel runs.
        streamed: whether stored elements will not be read again soon, and need not stay in the cache.
        packed: number of adjacent elements that are loaded at once; their place is a multiple of it.
        gathered: number of adjacent elements that are stored after all points of a thread, `packed` at once.
    """

    held: tuple[Offset, ...] = ()
    ahead: int = 0
    constant: bool = False
    streamed: bool = False
    packed: int = 1
    gathered: int = 0


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
        if column.access.gathered:  # elements to store, and whether there are any
            members += [("elements", types.CPointer(column.dtype)), ("there", types.CPointer(types.uint8))]
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
    return load(context, builder, column, _pointer(context, builder, column, index, *args))


@lower_builtin(operator.setitem, ColumnType, types.Any, types.Any)
def _lower_store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    column, index, _ = sig.args
    recorder.record(column.view, index, written=True)
    value = context.data_model_manager[column.dtype].as_data(builder, args[2])
    if column.access.gathered:
        places = _gathered(builder, column, args[0], index.offset[column.view.unit])
        for memory, kept in zip(places, (value, _BYTE(1)), strict=True):
            builder.store(kept, memory)
    else:
        _store(context, builder, column, _pointer(context, builder, column, index, *args[:2]), [value])
    return context.get_dummy_value()


def _gathered(builder: Any, column: ColumnType, value: Any, lane: int) -> list[Any]:
    """Pointers to an element that will be stored, and to whether it is there."""
    members = 2 + len(column.access.held), 3 + len(column.access.held)
    return [builder.gep(builder.extract_value(value, member), [ir.Constant(INT, lane)]) for member in members]


@lower_builtin(operator.setitem, ColumnType, types.Any, RecordType)
@lower_builtin(operator.setitem, ColumnType, types.Any, types.BaseTuple)
def _store_record(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    column, index, kind = sig.args
    recorder.record(column.view, index, written=True)
    place = _lower_load(context, builder, signature(column.dtype, column, index), args[:2])
    align = math.gcd(column.dtype.size, column.aligned)
    store_record(context, builder, column.view, place, column.dtype, align, kind, args[2])
    return context.get_dummy_value()


def load(context: Any, builder: Any, column: ColumnType, pointer: Any) -> Any:
    """Load one element."""
    return context.data_model_manager[column.dtype].from_data(builder, _read(builder, column, pointer))


def _read(builder: Any, column: ColumnType, pointer: Any) -> Any:
    loaded = builder.load(pointer)
    mark(builder, loaded, column.view)
    if column.access.constant:
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _store(context: Any, builder: Any, column: ColumnType, pointer: Any, elements: list[Any]) -> None:
    """Store adjacent elements at once."""
    kind, count = elements[0].type, len(elements)
    if column.access.streamed and isinstance(kind, ir.DoubleType | ir.FloatType):
        name, letter = ("f64", "d") if isinstance(kind, ir.DoubleType) else ("f32", "f")
        many, given = (f".v{count}", f"{{{', '.join(f'${1 + i}' for i in range(count))}}}") if count > 1 else ("", "$1")
        function = ir.FunctionType(ir.VoidType(), [INT, *[kind] * count])
        text, places = f"st.global.cs{many}.{name} [$0], {given};", ",".join(["l", *letter * count])
        code = ir.InlineAsm(function, text, places, side_effect=True)
        builder.call(code, [builder.ptrtoint(pointer, INT), *elements])
        return
    value = elements[0]
    if count > 1:
        value = ir.Constant(ir.VectorType(kind, count), ir.Undefined)
        for i, element in enumerate(elements):
            value = builder.insert_element(value, element, ir.Constant(INT, i))
    stored = builder.store(value, builder.bitcast(pointer, value.type.as_pointer(_GLOBAL)))
    if count > 1:
        stored.align = count * context.get_abi_sizeof(kind)
    mark(builder, stored, column.view)


def gathering(context: Any, builder: Any, column: ColumnType, value: Any) -> Any:
    """A column whose stores are gathered from now on."""
    access = column.access
    for i, kind in enumerate((context.get_data_type(column.dtype), _BYTE) if access.gathered else ()):
        memory = cgutils.alloca_once(builder, kind, size=access.gathered)
        value = builder.insert_value(value, memory, 2 + len(access.held) + i)
    for lane in range(access.gathered):
        builder.store(_BYTE(0), _gathered(builder, column, value, lane)[1])
    return value


def stored(context: Any, builder: Any, column: ColumnType, value: Any) -> Any:
    """A column whose gathered elements are stored: at once if all are there, which most kernels' compiler knows."""
    packed, zero = column.access.packed, (0,) * column.view.ndim
    for first in range(0, column.access.gathered, packed):
        lanes = [_beside(column, zero, lane) for lane in range(first, first + packed)]
        kept = [_gathered(builder, column, value, lane[column.view.unit]) for lane in lanes]
        elements = [builder.load(element) for element, _ in kept]
        there = [builder.icmp_unsigned("!=", builder.load(flag), _BYTE(0)) for _, flag in kept]
        with builder.if_else(functools.reduce(builder.and_, there)) as (all_there, some):
            with all_there:
                _store(context, builder, column, neighbour(context, builder, column, value, lanes[0]), elements)
            with some:
                for lane, element, one in zip(lanes, elements, there, strict=True):
                    with builder.if_then(one):
                        _store(context, builder, column, neighbour(context, builder, column, value, lane), [element])
    return value


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
    here, unit = builder.extract_value(value, 1), 0
    for axis, steps in enumerate(offset):
        if axis == column.view.unit:
            unit = steps
        elif steps:
            here = _moved(context, builder, column, value, here, axis, steps)
    first = builder.inttoptr(here, data.as_pointer(_GLOBAL))
    return builder.gep(first, [ir.Constant(INT, unit)]) if unit else first


def _moved(context: Any, builder: Any, column: ColumnType, value: Any, here: Any, axis: int, steps: int) -> Any:
    """An address some steps along an axis that is not the innermost one."""
    size = context.get_abi_sizeof(context.get_data_type(column.dtype))
    stride = field(builder, column.view, builder.extract_value(value, 0), "stride", axis)
    return builder.add(here, builder.mul(stride, ir.Constant(INT, steps * size), flags=["nsw"]))


def at_point(context: Any, builder: Any, column: ColumnType, view: Any, point: PointType, at: Any) -> Any:
    """A column of an array at a point, without held elements yet."""
    value = ir.Constant(context.get_value_type(column), ir.Undefined)
    value = builder.insert_value(value, view, 0)
    if not column.has_place(point.ndim):
        return value
    here = builder.ptrtoint(address(context, builder, column.view, view, point, at), INT)
    return builder.insert_value(value, here, 1)


def aligned(context: Any, builder: Any, column: ColumnType, view: Any, point: PointType, at: Any) -> Any:
    """Whether elements can be loaded together, as the access says, at a point and its neighbours."""
    if not column.has_place(point.ndim):
        return cgutils.true_bit
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
    held = column.access.held
    early = {offset: _early(column.access, offset, march) for offset in held if _plus(offset, march, -1) in held}
    return loaded(context, builder, column, value, early, march, steps)


def stepped(context: Any, builder: Any, column: ColumnType, value: Any, march: Offset, left: Any) -> Any:
    """A column one step of the march on, after which `left` more follow: held elements move, new ones are loaded."""
    if not column.has_place(len(march)):
        return value
    held = column.access.held
    here = _moved(context, builder, column, value, builder.extract_value(value, 1), march.index(1), 1)
    moved = builder.insert_value(value, here, 1)
    early = {}
    for i, offset in enumerate(held):
        before = _plus(offset, march, 1)
        if before in held:
            moved = builder.insert_value(moved, builder.extract_value(value, 2 + held.index(before)), 2 + i)
        else:
            early[offset] = _early(column.access, offset, march)
    return loaded(context, builder, column, moved, early, march, left)


def loaded(
    context: Any, builder: Any, column: ColumnType, value: Any, early: dict[Offset, int], march: Offset, left: Any
) -> Any:
    """A column with held elements loaded, adjacent ones at once, at a point after which `left` steps follow.

    `early` has the elements, and how many steps before its time each is loaded. One that no step will need may lie
    outside of the array: then another one of the same column is loaded.
    """
    for first, count in _packs(column, early):
        pointer = neighbour(context, builder, column, value, first)
        if early[first] > 0:
            needed = builder.icmp_signed(">=", left, ir.Constant(INT, early[first]))
            nearest = neighbour(context, builder, column, value, _plus(first, march, -early[first]))
            pointer = builder.select(needed, pointer, nearest)
        for i, element in enumerate(_load_pack(context, builder, column, pointer, count)):
            place = column.access.held.index(_beside(column, first, i))
            value = builder.insert_value(value, element, 2 + place)
    return value


def _early(access: Access, offset: Offset, march: Offset) -> int:
    """The number of steps that a held element is loaded before its time."""
    axis = march.index(1)
    foot = _plus(offset, march, -offset[axis])
    planes = [other[axis] for other in access.held if _plus(other, march, -other[axis]) == foot]
    return max(0, offset[axis] + access.ahead - max(planes)) if len(planes) > 1 else 0


def _packs(column: ColumnType, early: dict[Offset, int]) -> Iterator[tuple[Offset, int]]:
    """The first of each group of elements that are loaded at once, and their number."""
    unit, packed = column.view.unit, column.access.packed
    done: set[Offset] = set()
    for offset in early:
        if offset in done:
            continue
        first = _beside(column, offset, -(offset[unit] % packed)) if packed > 1 else offset
        group = [_beside(column, first, i) for i in range(packed)]
        whole = packed > 1 and all(early.get(other) == early[offset] for other in group)
        done.update(group if whole else [offset])
        yield (first, packed) if whole else (offset, 1)


def _beside(column: ColumnType, offset: Offset, steps: int) -> Offset:
    return tuple(x + steps * (axis == column.view.unit) for axis, x in enumerate(offset))


def _load_pack(context: Any, builder: Any, column: ColumnType, pointer: Any, count: int) -> Iterator[Any]:
    """Load `count` adjacent elements at once."""
    if count == 1:
        yield load(context, builder, column, pointer)
        return
    kind = ir.VectorType(pointer.type.pointee, count)
    loaded = _read(builder, column, builder.bitcast(pointer, kind.as_pointer(_GLOBAL)))
    loaded.align = count * context.get_abi_sizeof(pointer.type.pointee)
    for i in range(count):
        element = builder.extract_element(loaded, ir.Constant(INT, i))
        yield context.data_model_manager[column.dtype].from_data(builder, element)


def _plus(offset: Offset, march: Offset, steps: int) -> Offset:
    return tuple(a + steps * b for a, b in zip(offset, march, strict=True))
