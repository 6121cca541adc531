"""Buffers in compiled code: the address and the number of elements of an array, and small buffers on the stack."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np import arrayobj, numpy_support

from gondwana.compiler.inlining import inlined
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.views import ViewType, axis_extent, field

ROOM = 4096
"""Bytes on the stack for data in transit."""

BITS = ir.IntType(1)

_TRANSPOSED = -2


def is_array(kind: Any) -> bool:
    """Return whether a Numba type is an array: NumPy's or ours. Local."""
    return isinstance(kind, types.Array | ViewType)


def check_array(kind: Any, what: str, *, writable: bool = False) -> None:
    """Refuse, at compile time, an argument that cannot be a buffer. Local.

    Raises:
        TypingError: `kind` is not an array, or read-only and to be written, or known to have gaps.
    """
    if not is_array(kind):
        raise TypingError(f"{what} is {kind}: give an array, of NumPy or of Gondwana")
    if writable and (kind.readonly if isinstance(kind, ViewType) else not kind.mutable):
        raise TypingError(f"{what} is a read-only array, but the operation writes into it")
    if isinstance(kind, types.Array) and kind.layout not in "CF":
        raise TypingError(f"{what} is not contiguous: copy it into a contiguous array first")


@inlined
def contiguous_count(array: Any) -> int:
    """The number of elements of an array without gaps whose axes are in C's order: see `teams.buffers`."""
    count = _extent(array)
    if count == _TRANSPOSED:
        raise ValueError("the array is in Fortran's order, and elements travel in C's: give its transpose, or a copy")
    if count < 0:
        raise ValueError("the array is not contiguous: copy it into a contiguous one first")
    return count  # type: ignore[no-any-return]


@intrinsic
def address_of(typingctx: Any, array: Any) -> Any:
    """The address of the first element of an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if isinstance(array, types.Array):
            return builder.ptrtoint(arrayobj.make_array(array)(context, builder, args[0]).data, INT)
        first = builder.extract_value(args[0], 0)
        if not array.scaled:
            for axis in range(array.ndim):
                lo, stride = (field(builder, array, args[0], name, axis) for name in ("lo", "stride"))
                first = builder.gep(first, [builder.mul(lo, stride)])
        return builder.ptrtoint(first, INT)

    return types.int64(array), codegen


@intrinsic
def item_size(typingctx: Any, array: Any) -> Any:
    """Bytes of a number, or of an element of an array."""
    nbytes = numpy_support.as_dtype(types.unliteral(getattr(array, "dtype", array))).itemsize

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(INT, nbytes)

    return types.int64(array), codegen


@intrinsic
def _extent(typingctx: Any, array: Any) -> Any:
    """The number of elements of an array; `_TRANSPOSED` in Fortran's order, or -1 if there are gaps between them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        transposed, gaps = ir.Constant(INT, _TRANSPOSED), ir.Constant(INT, -1)
        if isinstance(array, types.Array):
            memory = arrayobj.make_array(array)(context, builder, args[0])
            if array.layout == "C" or array.ndim < 2:
                return memory.nitems
            lengths = cgutils.unpack_tuple(builder, memory.shape, array.ndim)
            axes, distance = [], ir.Constant(INT, 1)
            for length in lengths:
                axes.append((length, distance))
                distance = builder.mul(distance, length)
            is_ordered, count = _gapless(builder, reversed(axes))
            is_ordered = builder.or_(is_ordered, builder.icmp_signed("==", count, ir.Constant(INT, 0)))
            return builder.select(is_ordered, count, transposed)
        axes = [axis_extent(builder, array, args[0], axis) for axis in range(array.ndim)]
        row_major, count = _gapless(builder, reversed(axes))
        column_major, _ = _gapless(builder, axes)
        row_major = builder.or_(row_major, builder.icmp_signed("==", count, ir.Constant(INT, 0)))
        return builder.select(row_major, count, builder.select(column_major, transposed, gaps))

    return types.int64(array), codegen


def _gapless(builder: Any, axes: Any) -> tuple[Any, Any]:
    """Whether axes, the fastest first, leave no gaps; and the product of their lengths."""
    dense, product = ir.Constant(BITS, 1), ir.Constant(INT, 1)
    for length, distance in axes:
        single = builder.icmp_signed("==", length, ir.Constant(INT, 1))
        fits = builder.or_(single, builder.icmp_signed("==", distance, product))
        dense, product = builder.and_(dense, fits), builder.mul(product, length)
    return dense, product


@intrinsic
def on_stack(typingctx: Any, value: Any) -> Any:
    """Store a number on the stack of the calling function and return its address."""
    kind = types.unliteral(value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.data_model_manager[kind].as_data(builder, context.cast(builder, args[0], value, kind))
        slot = cgutils.alloca_once(builder, data.type)
        builder.store(data, slot)
        return builder.ptrtoint(slot, INT)

    return types.int64(value), codegen


@intrinsic
def room_on_stack(typingctx: Any) -> Any:
    """The address of `ROOM` bytes on the stack of the calling function."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(8), ROOM)), INT)

    return types.int64(), codegen


@intrinsic
def load_like(typingctx: Any, address: Any, value: Any) -> Any:
    """Read the number at an address, of the type of `value`."""
    kind = types.unliteral(value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], context.get_data_type(kind).as_pointer())
        return context.data_model_manager[kind].from_data(builder, builder.load(pointer))

    return kind(types.int64, value), codegen


@intrinsic
def element(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Read element `index` of an array at an address; the type is that of a number, or of the elements of an array."""
    kind = types.unliteral(getattr(value, "dtype", value))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _element_pointer(context, builder, kind, args)
        return context.data_model_manager[kind].from_data(builder, builder.load(pointer))

    return kind(types.int64, types.int64, value), codegen


@intrinsic
def set_element(typingctx: Any, address: Any, index: Any, number: Any, value: Any) -> Any:
    """Write a number as element `index` of an array at an address; see `element`."""
    kind = types.unliteral(getattr(value, "dtype", value))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.data_model_manager[kind].as_data(builder, context.cast(builder, args[2], number, kind))
        builder.store(data, _element_pointer(context, builder, kind, args))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, number, value), codegen


def _element_pointer(context: Any, builder: Any, kind: Any, args: Any) -> Any:
    first = builder.inttoptr(args[0], context.get_data_type(kind).as_pointer())
    return builder.gep(first, [args[1]])
