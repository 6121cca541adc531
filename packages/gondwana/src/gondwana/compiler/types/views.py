"""Arrays in compiled code: indexed by points in the coordinates of the array's own domain.

The element at point p lies at `origin + sum(p[i] * stride[i])`: `origin` is where the point zero is or would be, so
negative coordinates need no special treatment and no wrap. Each array of a kernel has its own slot; its loads and
stores are marked as not touching the other slots (LLVM's scoped no-alias), which is what `restrict` gives a C compiler.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model
from numba.np import numpy_support

from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.handle_types import build, domain_type, length, product
from gondwana.compiler.types.points import INT, PlainType, PointType, coordinates, give_attributes, give_length


class ElementsType(PlainType):
    """A type with elements indexed by points: an array, however compiled code reaches its memory.

    Attributes:
        dtype: Numba type of an element.
        view: type of the array.
        aligned: largest number that the address of a record is a multiple of, if the size of records is.
    """

    dtype: Any
    view: ViewType
    aligned = 1

    def view_in(self, builder: Any, value: Any) -> Any:
        """The array that a value of this type belongs to."""
        return value

    def among(self, views: Sequence[Any]) -> ElementsType:
        """The type of one of several arrays."""
        raise NotImplementedError

    def unify(self, typingctx: Any, other: Any) -> ElementsType | None:
        """Let one variable hold two arrays that are alike."""
        return self.among([self, other]) if isinstance(other, type(self)) and self.view.is_like(other.view) else None

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """An array may be one of several."""
        alike = isinstance(other, type(self)) and self.view.is_like(other.view)
        return Conversion.safe if alike and set(self.view.slots) <= set(other.view.slots) else None


class ViewType(ElementsType):
    """An array on a rectangular domain.

    Args:
        dtype: Numba type of an element.
        ndim: number of axes.
        unit: the axis whose neighbours are adjacent in memory, -1 without one.
        scaled: whether the domain has a stride that is not contained in the memory strides.
        readonly: whether its memory must not be written.
        slots: positions among the arrays of a kernel: one, or several of which it is one.
        scopes: number of slots that are known not to overlap; 0 if overlap is possible.
        kernel: number of the compilation, so that accesses are recorded by the kernel that they belong to.
    """

    def __init__(
        self,
        dtype: Any,
        ndim: int,
        unit: int,
        scaled: bool,
        readonly: bool,
        slots: tuple[int, ...],
        scopes: int,
        kernel: int,
    ) -> None:
        self.dtype = dtype
        self.ndim = ndim
        self.unit = unit
        self.scaled = scaled
        self.readonly = readonly
        self.slots = slots
        self.scopes = scopes
        self.kernel = kernel
        self.view = self
        access = "read-only " if readonly else ""
        self._alike = dtype, ndim, unit, scaled, readonly, scopes, kernel
        super().__init__(f"{access}array({_spelled(dtype)}, {ndim}d)", *self._alike, slots)

    def is_like(self, other: ViewType) -> bool:
        """Whether another array differs at most in its place among the arguments."""
        return self._alike == other._alike

    def among(self, views: Sequence[ElementsType]) -> ViewType:
        """The type of one of several arrays."""
        if not all(self.is_like(view.view) for view in views):
            raise errors.TypingError(
                "a tuple indexed by a variable has arrays of different types or layouts: "
                f"({', '.join(map(str, views))}); make them equal, or give constant indices"
            )
        dtype, ndim, unit, scaled, readonly, scopes, kernel = self._alike
        slots = tuple(sorted({slot for view in views for slot in view.view.slots}))
        return ViewType(dtype, ndim, unit, scaled, readonly, slots, scopes, kernel)


def _spelled(dtype: Any) -> str:
    """The name of an element type in messages."""
    return f"record({', '.join(dtype.fields)})" if isinstance(dtype, types.Record) else str(dtype)


class RecordType(PlainType):
    """A record in its place: an element of an array, or an argument. See `records_overloads`.

    Args:
        fields: Numba's type of the record.
        view: the array that contains it, None for an argument.
        offset: distance of its point from the kernel's index point, None if not a constant.
        readonly: whether its fields must not be set.
        align: number that its address is known to be a multiple of.
    """

    def __init__(
        self,
        fields: types.Record,
        view: ViewType | None,
        offset: tuple[int, ...] | None,
        readonly: bool,
        align: int = 1,
    ) -> None:
        self.fields = self.dtype = fields
        self.view = view
        self.offset = offset
        self.readonly = readonly
        self.align = align
        super().__init__(_spelled(fields), fields, view, offset, readonly, align)

    def unify(self, typingctx: Any, other: Any) -> RecordType | None:
        """Let one variable hold two records of one array: the offset is no longer known."""
        if isinstance(other, RecordType) and (other.fields, other.view) == (self.fields, self.view):
            return RecordType(self.fields, self.view, None, self.readonly, math.gcd(self.align, other.align))
        return None

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """A record may forget its offset, and its array if it is stored."""
        if other == self.fields:
            return Conversion.safe
        alike = isinstance(other, RecordType) and (other.fields, other.view) == (self.fields, self.view)
        return Conversion.safe if alike and other.offset is None and self.align % other.align == 0 else None


register_model(RecordType)(models.PointerModel)


class DtypeType(types.Type):  # type: ignore[misc]
    """The `dtype` of an array: exists at compile time only."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"dtype({dtype})")


register_model(DtypeType)(models.OpaqueModel)
DTYPE = (
    lambda elements: DtypeType(elements.dtype),
    lambda context, builder, elements, value: context.get_dummy_value(),
)
"""The attribute `dtype` of a type that has one, for `give_attributes`."""

FIELDS = ("stride", "lo", "hi", "step")


@register_model(ViewType)
class _ViewModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, view: ViewType) -> None:
        members = [("origin", types.CPointer(view.dtype))]
        members += [(f"{field}{axis}", types.int64) for field in FIELDS for axis in range(view.ndim)]
        super().__init__(manager, view, members)


def field(builder: Any, view: ViewType, value: Any, name: str, axis: int) -> Any:
    """One integer of the descriptor of an array (see `FIELDS`)."""
    return builder.extract_value(value, 1 + FIELDS.index(name) * view.ndim + axis)


def axis_extent(builder: Any, view: ViewType, value: Any, axis: int) -> tuple[Any, Any]:
    """The number of elements along an axis, and their distance in memory, in elements."""
    lo, hi, step, stride = (field(builder, view, value, name, axis) for name in ("lo", "hi", "step", "stride"))
    distance = stride if view.scaled else builder.mul(stride, step)
    return length(builder, lo, hi, step), distance


@infer_global(operator.getitem)
class _Load(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        elements, index = args
        if isinstance(elements, ElementsType) and is_index(elements.view, index):
            return signature(_loaded(elements, index), elements, index)
        return None


def _loaded(elements: ElementsType, index: Any) -> Any:
    """The type of an element in compiled code."""
    if not isinstance(elements.dtype, types.Record):
        return elements.dtype
    align = math.gcd(elements.dtype.size, elements.aligned)
    return RecordType(elements.dtype, elements.view, getattr(index, "offset", None), elements.view.readonly, align)


@infer_global(operator.setitem)
class _Store(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        elements, index, value = args
        if isinstance(elements, ElementsType) and is_index(elements.view, index):
            if elements.view.readonly:
                raise errors.TypingError("the array is read-only: pass a copy, or an array that may be written")
            if isinstance(elements.dtype, types.Record):
                if not fits(self.context, value, elements.dtype):
                    names = ", ".join(elements.dtype.fields)
                    raise errors.TypingError(
                        f"{value} cannot be a record: give another one, or a tuple with a value for each of {names}"
                    )
                return signature(types.none, elements, index, value)
            if self.context.can_convert(value, elements.dtype) is None:
                raise errors.TypingError(f"{value} cannot be an element of an array of {elements.dtype}")
            return signature(types.none, elements, index, elements.dtype)
        return None


def fits(context: Any, value: Any, fields: types.Record) -> bool:
    """Return whether a value can be stored as a record: another record, or a tuple with a value for each field. Local.

    Args:
        context: context of the typing.
        value: type of the value.
        fields: Numba's type of the record.
    """
    if isinstance(value, RecordType | types.Record):
        return (value.fields if isinstance(value, RecordType) else value) == fields  # type: ignore[no-any-return]
    if not isinstance(value, types.BaseTuple) or len(value) != len(fields):
        return False
    kinds = [member.type for member in fields.fields.values()]
    return all(_fits_field(context, given, kind) for given, kind in zip(value.types, kinds, strict=True))


def _fits_field(context: Any, given: Any, kind: Any) -> bool:
    if isinstance(kind, types.Record):
        return fits(context, given, kind)
    if isinstance(kind, types.NestedArray):
        several = isinstance(given, types.BaseTuple) and (len(given),) == kind.shape
        return several and all(_fits_field(context, item, kind.dtype) for item in given.types)
    return context.can_convert(given, kind) is not None


def is_index(view: ViewType, index: Any) -> bool:
    """Whether `index` can index `view`: a point, an integer for one axis, or a tuple of those for all axes."""
    if isinstance(index, PointType):
        if index.ndim != view.ndim:
            raise errors.TypingError(f"an array of {view.ndim} axes is indexed by a point of {index.ndim} axes")
        return True
    if isinstance(index, types.Integer):
        return view.ndim == 1
    members = index.types if isinstance(index, types.BaseTuple) else ()
    known = all(isinstance(member, types.Integer | PointType) for member in members)
    return known and sum(getattr(member, "ndim", 1) for member in members) == view.ndim


def index_values(context: Any, builder: Any, index: Any, value: Any) -> list[Any]:
    """The coordinates of an index as LLVM integers."""
    if isinstance(index, PointType):
        return coordinates(builder, index, value)
    if isinstance(index, types.Integer):
        return [context.cast(builder, value, index, types.int64)]
    parts = (
        index_values(context, builder, kind, builder.extract_value(value, i)) for i, kind in enumerate(index.types)
    )
    return [coordinate for part in parts for coordinate in part]


def address(context: Any, builder: Any, view: ViewType, value: Any, index: Any, at: Any) -> Any:
    """Pointer to the element: the origin plus the sum of coordinate times stride (in elements)."""
    distance = None
    for axis, coordinate in enumerate(index_values(context, builder, index, at)):
        term = coordinate
        if view.scaled:
            term = builder.sub(term, field(builder, view, value, "lo", axis), flags=["nsw"])
            term = builder.sdiv(term, field(builder, view, value, "step", axis))
        if axis != view.unit:
            term = builder.mul(term, field(builder, view, value, "stride", axis), flags=["nsw"])
        distance = term if distance is None else builder.add(distance, term, flags=["nsw"])
    return builder.gep(builder.extract_value(value, 0), [distance])


def mark(builder: Any, instruction: Any, view: ViewType) -> None:
    """Declare that this access touches no array of other slots."""
    mark_apart(builder, instruction, view.scopes, view.kernel, view.slots)


def mark_apart(builder: Any, instruction: Any, arrays: int, kernel: int, slots: tuple[int, ...] = ()) -> None:
    """Declare that an access touches none of the arrays of a kernel, or only those of some slots."""
    module = builder.module
    domain = module.add_metadata([f"gondwana kernel {kernel}"])
    scopes = [module.add_metadata([f"slot {number} of kernel {kernel}", domain]) for number in range(arrays)]
    own = [scopes[slot] for slot in slots if scopes]
    others = [scope for scope in scopes if scope not in own]
    for name, found in (("alias.scope", own), ("noalias", others)):
        if found:
            instruction.set_metadata(name, module.add_metadata(found))


@lower_builtin(operator.getitem, ViewType, types.Any)
def _lower_load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    view, index = sig.args
    if isinstance(view.dtype, types.Record):
        return address(context, builder, view, args[0], index, args[1])
    recorder.record(view, index, written=False)
    loaded = builder.load(address(context, builder, view, args[0], index, args[1]))
    mark(builder, loaded, view)
    return context.data_model_manager[view.dtype].from_data(builder, loaded)


@lower_builtin(operator.setitem, ViewType, types.Any, types.Any)
def _lower_store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    view, index, _ = sig.args
    recorder.record(view, index, written=True)
    value = context.data_model_manager[view.dtype].as_data(builder, args[2])
    stored = builder.store(value, address(context, builder, view, args[0], index, args[1]))
    mark(builder, stored, view)
    return context.get_dummy_value()


def _extents(builder: Any, elements: ElementsType, value: Any) -> tuple[list[Any], list[Any]]:
    """The number of elements along each axis, and their distance in memory, in bytes."""
    view, inside = elements.view, elements.view_in(builder, value)
    counts, distances = zip(*(axis_extent(builder, view, inside, axis) for axis in range(view.ndim)), strict=True)
    item = ir.Constant(INT, _item_size(view))
    return list(counts), [builder.mul(distance, item) for distance in distances]


def _item_size(view: ViewType) -> int:
    return int(numpy_support.as_dtype(view.dtype).itemsize)


def _domain(context: Any, builder: Any, elements: ElementsType, value: Any) -> Any:
    view, inside = elements.view, elements.view_in(builder, value)
    words = [field(builder, view, inside, name, axis) for name in ("lo", "hi", "step") for axis in range(view.ndim)]
    return build(context, builder, domain_type(view.ndim), words)


def _tuple_type(elements: ElementsType) -> Any:
    return types.UniTuple(types.int64, elements.view.ndim)


def _tuple(builder: Any, elements: ElementsType, value: Any, which: int) -> Any:
    return cgutils.pack_array(builder, _extents(builder, elements, value)[which])


give_length(ElementsType, lambda builder, elements, value: _extents(builder, elements, value)[0][0])
give_attributes(
    ElementsType,
    dtype=DTYPE,
    ndim=(lambda elements: types.int64, lambda context, builder, elements, value: ir.Constant(INT, elements.view.ndim)),
    size=(
        lambda elements: types.int64,
        lambda context, builder, elements, value: product(builder, _extents(builder, elements, value)[0]),
    ),
    nbytes=(
        lambda elements: types.int64,
        lambda context, builder, elements, value: product(
            builder, [*_extents(builder, elements, value)[0], ir.Constant(INT, _item_size(elements.view))]
        ),
    ),
    shape=(_tuple_type, lambda context, builder, elements, value: _tuple(builder, elements, value, 0)),
    strides=(_tuple_type, lambda context, builder, elements, value: _tuple(builder, elements, value, 1)),
    domain=(lambda elements: domain_type(elements.view.ndim), _domain),
)
