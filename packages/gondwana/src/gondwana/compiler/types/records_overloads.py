"""Records in compiled code: `a[p]` is the address of a record, and its fields are read and written there.

A record has the type of the array that it is part of, and of the offset of its point: so the accesses to its fields
count as accesses to that array, with the same marks and the same footprint as those to numbers.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.imputils import lower_setattr_generic
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer, infer_getattr, signature
from numba.extending import lower_builtin, lower_cast, lower_getattr_generic
from numba.np import arrayobj, numpy_support

from gondwana.compiler.types.arguments import WORD
from gondwana.compiler.types.footprint import recorder
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.views import RecordType, ViewType, address, mark


def element_type(dtype: np.dtype[Any]) -> Any:
    """Return Numba's type of an element of a dtype; fields of records may have any address. Local."""
    if dtype.names is None:
        return numpy_support.from_dtype(dtype)
    places: Any = dtype.fields
    fields = [(name, {"type": element_type(places[name][0]), "offset": places[name][1]}) for name in dtype.names]
    return types.Record(fields, dtype.itemsize, False)


def align_of(record: RecordType, name: str) -> int:
    """Return a number that the address of a field is known to be a multiple of. Local."""
    return math.gcd(record.align, record.fields.offset(name))


def field_type(record: RecordType, name: str) -> Any:
    """Return the type of a field of a record in compiled code. Local.

    Raises:
        TypingError: the record has no such field.
    """
    if name not in record.fields.fields:
        raise errors.TypingError(f"{record} has no field {name!r}: its fields are {', '.join(record.fields.fields)}")
    kind = record.fields.typeof(name)
    if isinstance(kind, types.Record):
        return RecordType(kind, record.view, record.offset, record.readonly, align_of(record, name))
    if isinstance(kind, types.NestedArray):
        aligned = align_of(record, name) % numpy_support.as_dtype(kind.dtype).alignment == 0
        return types.Array(kind.dtype, kind.ndim, "C", readonly=record.readonly, aligned=aligned)
    return kind


def store_record(
    context: Any,
    builder: Any,
    view: ViewType | None,
    place: Any,
    fields: types.Record,
    align: int,
    kind: Any,
    value: Any,
) -> None:
    """Emit code that stores a value which `fits` as a record. Local.

    Args:
        context: context of the lowering.
        builder: builder of the function.
        view: the array that the record is part of, None outside of arrays.
        place: LLVM pointer to the record.
        fields: Numba's type of the record.
        align: number that its address is a multiple of.
        kind: type of the value.
        value: the value, an LLVM value.
    """
    if not isinstance(kind, types.BaseTuple):
        if isinstance(kind, RecordType):
            _note(kind, written=False)
            _copy(builder, place, value, fields.size, math.gcd(align, kind.align))
        else:
            _copy(builder, place, value, fields.size, 1)
        return
    for index, (given, name) in enumerate(zip(kind.types, fields.fields, strict=True)):
        where, step = _member(context, builder, fields, place, name), math.gcd(align, fields.offset(name))
        item = builder.extract_value(value, index)
        _store_part(context, builder, view, where, fields.typeof(name), step, given, item)


def _copy(builder: Any, target: Any, source: Any, nbytes: int, align: int) -> None:
    """Copy a record. What is aligned goes in words: a device would copy bytes."""
    if align == 1:
        cgutils.raw_memcpy(builder, target, source, ir.Constant(INT, nbytes), 1)
        return
    word = ir.IntType(8 * min(align, WORD))
    source, target = (builder.bitcast(place, word.as_pointer()) for place in (source, target))
    for number in range(nbytes * 8 // word.width):
        taken, given = (builder.gep(place, [ir.Constant(INT, number)]) for place in (source, target))
        builder.store(builder.load(taken), given)


def _store_part(
    context: Any, builder: Any, view: ViewType | None, where: Any, member: Any, align: int, kind: Any, value: Any
) -> None:
    """Store a field; a tuple gives several items."""
    if isinstance(member, types.Record):
        store_record(context, builder, view, where, member, align, kind, value)
    elif isinstance(member, types.NestedArray):
        for index, given in enumerate(kind.types):
            item, step = builder.gep(where, [ir.Constant(INT, index)]), math.gcd(align, member.size // member.nitems)
            _store_part(context, builder, view, item, member.dtype, step, given, builder.extract_value(value, index))
    else:
        _store_number(builder, context, view, member, where, align, context.cast(builder, value, kind, member))


def _member(context: Any, builder: Any, fields: types.Record, place: Any, name: str) -> Any:
    """LLVM pointer to a field."""
    kind = fields.typeof(name)
    kind = kind.dtype if isinstance(kind, types.NestedArray) else kind
    where = cgutils.gep_inbounds(builder, place, 0, fields.offset(name))
    return builder.bitcast(where, context.get_data_type(kind).as_pointer())


def _store_number(
    builder: Any, context: Any, view: ViewType | None, kind: Any, where: Any, align: int, number: Any
) -> None:
    stored = builder.store(context.data_model_manager[kind].as_data(builder, number), where, align=align)
    if view is not None:
        mark(builder, stored, view)


def _note(record: RecordType, *, written: bool) -> None:
    """Record an access to a field as one to the array."""
    if record.view is not None:
        recorder.record(record.view, record, written=written)


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = RecordType

    def generic_resolve(self, record: RecordType, name: str) -> Any:
        return field_type(record, name)


@infer
class _Field(AbstractTemplate):  # type: ignore[misc]
    """`record["name"]`."""

    key = "static_getitem"

    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], RecordType) and isinstance(args[1], str):
            return signature(field_type(*args), *args)
        return None


@infer
class _SetField(AbstractTemplate):  # type: ignore[misc]
    """`record["name"] = value`."""

    key = "static_setitem"

    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], RecordType) and isinstance(args[1], str):
            return signature(types.void, args[0], types.literal(args[1]), field_type(*args[:2]))
        return None


@lower_getattr_generic(RecordType)
def _load_field(context: Any, builder: Any, record: RecordType, place: Any, name: str) -> Any:
    kind, where = record.fields.typeof(name), _member(context, builder, record.fields, place, name)
    if isinstance(kind, types.Record):
        return where
    _note(record, written=False)
    if isinstance(kind, types.NestedArray):
        if not record.readonly:
            _note(record, written=True)  # its items may be set
        return _items(context, builder, field_type(record, name), kind, where)
    loaded = builder.load(where, align=align_of(record, name))
    if record.view is not None:
        mark(builder, loaded, record.view)
    return context.data_model_manager[kind].from_data(builder, loaded)


def _items(context: Any, builder: Any, kind: Any, nested: types.NestedArray, where: Any) -> Any:
    """A field of several items, as an array without ownership."""
    array = arrayobj.make_array(kind)(context, builder)
    counts, strides = (
        cgutils.pack_array(builder, [ir.Constant(INT, number) for number in numbers])
        for numbers in (nested.shape, nested.strides)
    )
    arrayobj.populate_array(
        array, data=where, shape=counts, strides=strides, itemsize=ir.Constant(INT, nested.size), meminfo=None
    )
    return array._getvalue()


@lower_builtin("static_getitem", RecordType, types.StringLiteral)
def _load_named(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _load_field(context, builder, sig.args[0], args[0], args[1])


@lower_setattr_generic(RecordType)
def _store_field(context: Any, builder: Any, sig: Any, args: Any, name: str) -> Any:
    record, given = sig.args
    if record.readonly:
        raise errors.TypingError(f"the field {name!r} of {record} is set, but it is read-only: pass a copy")
    kind, where = record.fields.typeof(name), _member(context, builder, record.fields, args[0], name)
    if isinstance(kind, types.NestedArray):
        raise errors.TypingError(f"the field {name!r} of {record} has several items: set them one by one")
    _note(record, written=True)
    if isinstance(kind, types.Record):
        store_record(context, builder, record.view, where, kind, align_of(record, name), given, args[1])
    else:
        value = context.cast(builder, args[1], given, kind)
        _store_number(builder, context, record.view, kind, where, align_of(record, name), value)


@lower_builtin("static_setitem", RecordType, types.StringLiteral, types.Any)
def _store_named(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    record, name, given = sig.args
    _store_field(context, builder, signature(types.void, record, given), (args[0], args[2]), name.literal_value)
    return context.get_dummy_value()


@lower_builtin(operator.setitem, ViewType, types.Any, RecordType)
@lower_builtin(operator.setitem, ViewType, types.Any, types.Record)
@lower_builtin(operator.setitem, ViewType, types.Any, types.BaseTuple)
def _store_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    view, index, kind = sig.args
    recorder.record(view, index, written=True)
    place = address(context, builder, view, args[0], index, args[1])
    store_record(context, builder, view, place, view.dtype, 1, kind, args[2])
    return context.get_dummy_value()


@lower_cast(RecordType, types.Record)
@lower_cast(RecordType, RecordType)
def _read(context: Any, builder: Any, record: RecordType, target: Any, value: Any) -> Any:
    """Read the whole record, which is needed elsewhere."""
    if isinstance(target, RecordType) and target.fields != record.fields:
        raise errors.TypingError(f"{record} cannot be stored as {target}: their fields differ")
    _note(record, written=False)
    return value
