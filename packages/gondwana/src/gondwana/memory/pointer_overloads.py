"""Global pointers in compiled code: arithmetic, attributes, and the address for loads and stores.

A pointer is three words: the address of its segment's table (see `Segment.table`), the rank and the offset in bytes.
With `GONDWANA_CHECK=1` the elements that are accessed are compared with the bounds of the segment.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, overload_attribute, overload_method
from numba.np import arrayobj

from gondwana.compiler.debugging import checks
from gondwana.compiler.debugging.checks_overloads import refuse_unless
from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.types.handle_types import family_type, handle_word, is_handle, with_word
from gondwana.compiler.types.points import INT
from gondwana.compiler.types.records import named_dtype, spelled
from gondwana.compiler.types.records_overloads import element_type, store_record
from gondwana.compiler.types.views import fits
from gondwana.memory.segment import TABLE_HEAD

FAMILY = "global_ptr"
_PointerType = family_type(FAMILY)
_WORD = 8


def is_pointer(kind: Any) -> bool:
    """Return whether a Numba type is that of global pointers. Local."""
    return is_handle(kind, FAMILY)


def element(kind: Any) -> Any:
    """Return the Numba type of the elements that pointers of a type point to. Local."""
    return element_type(named_dtype(kind.parameters[0]))


@inlined
def near(ptr: Any) -> int:
    """The address of the element in this process, 0 if it is out of reach of loads and stores."""
    base = load_word(handle_word(ptr, 0) + (TABLE_HEAD + handle_word(ptr, 1)) * _WORD)
    return base + handle_word(ptr, 2) if base else 0


@intrinsic
def check_bytes(typingctx: Any, ptr: Any, nbytes: Any) -> Any:
    """Refuse bytes from a pointer on that are not inside its segment, if accesses are checked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if checks.active():
            _check_bytes(context, builder, ptr, *args)
        return context.get_dummy_value()

    return types.none(ptr, types.int64), codegen


def _check_bytes(context: Any, builder: Any, ptr: Any, value: Any, nbytes: Any) -> None:
    table, rank, offset = (builder.extract_value(value, word) for word in range(3))
    ranks = builder.load(builder.inttoptr(table, INT.as_pointer()))
    entry = builder.add(builder.add(ranks, rank), INT(TABLE_HEAD))
    place = builder.add(table, builder.mul(entry, INT(_WORD)))
    size = builder.load(builder.inttoptr(place, INT.as_pointer()))
    # No byte is negative, and none lies after the last one; the sum of both could be too large for an integer.
    inside = builder.icmp_signed("<=", nbytes, builder.sub(size, offset))
    for word in (offset, nbytes):
        inside = builder.and_(inside, builder.icmp_signed(">=", word, INT(0)))
    dtype = named_dtype(ptr.parameters[0])
    count = builder.sdiv(nbytes, INT(dtype.itemsize))
    access = checks.Description("segment", dtype=spelled(dtype))
    refuse_unless(context, builder, inside, access, [count, rank, offset, size])


@intrinsic
def check_rank(typingctx: Any, ptr: Any, rank: Any) -> Any:
    """Refuse a rank that is not in the team of the segment, with the place of the call, if accesses are checked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if checks.active():
            table = builder.extract_value(args[0], 0)
            ranks = builder.load(builder.inttoptr(table, INT.as_pointer()))
            inside = builder.icmp_unsigned("<", args[1], ranks)
            refuse_unless(context, builder, inside, checks.Description("rank"), [args[1], ranks])
        return context.get_dummy_value()

    return types.none(ptr, types.int64), codegen


@intrinsic
def element_size(typingctx: Any, ptr: Any) -> Any:
    """Bytes of the element that a pointer points to."""
    nbytes = named_dtype(ptr.parameters[0]).itemsize

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(INT, nbytes)

    return types.int64(ptr), codegen


@intrinsic
def read_element(typingctx: Any, ptr: Any, address: Any) -> Any:
    """Read an element of the pointer's dtype at an address: from memory at every call, in no particular order."""
    kind = element(ptr)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.get_data_type(kind)
        place = builder.inttoptr(args[1], data.as_pointer())
        # LLVM must not move an ordinary load out of a waiting loop; an atomic one stays where it is.
        plain = isinstance(data, ir.LiteralStructType)
        loaded = builder.load(place) if plain else builder.load_atomic(place, "monotonic", context.get_abi_sizeof(data))
        return context.data_model_manager[kind].from_data(builder, loaded)

    return kind(ptr, types.int64), codegen


@intrinsic
def write_element(typingctx: Any, ptr: Any, address: Any, value: Any) -> Any:
    """Write a number as an element of the pointer's dtype to an address: to memory, in no particular order."""
    kind = element(ptr)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = context.cast(builder, args[2], value, kind)
        data = context.data_model_manager[kind].as_data(builder, number)
        place = builder.inttoptr(args[1], data.type.as_pointer())
        if isinstance(data.type, ir.LiteralStructType):
            builder.store(data, place)
        else:
            builder.store_atomic(data, place, "monotonic", context.get_abi_sizeof(data.type))
        return context.get_dummy_value()

    return types.none(ptr, types.int64, value), codegen


@intrinsic
def record_address(typingctx: Any, ptr: Any, value: Any) -> Any:
    """The address of a record of the pointer's dtype."""
    _check_record(typingctx, ptr, value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(context.cast(builder, args[1], value, element(ptr)), INT)

    return types.int64(ptr, value), codegen


@intrinsic
def write_record(typingctx: Any, ptr: Any, address: Any, value: Any) -> Any:
    """Write a tuple as a record of the pointer's dtype to an address."""
    _check_record(typingctx, ptr, value)
    kind = element(ptr)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[1], context.get_data_type(kind).as_pointer())
        store_record(context, builder, None, place, kind, 1, value, args[2])
        return context.get_dummy_value()

    return types.none(ptr, types.int64, value), codegen


def _check_record(typingctx: Any, ptr: Any, value: Any) -> None:
    if not fits(typingctx, value, element(ptr)):
        names = ", ".join(element(ptr).fields)
        raise TypingError(f"put of {value} as a record: give another one, or a tuple with a value for each of {names}")


@intrinsic
def element_slot(typingctx: Any, ptr: Any) -> Any:
    """Memory for an element of the pointer's dtype on the stack of the calling function; its address."""
    kind = element(ptr)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(cgutils.alloca_once(builder, context.get_data_type(kind)), INT)

    return types.int64(ptr), codegen


@intrinsic
def _array_at(typingctx: Any, ptr: Any, address: Any, count: Any) -> Any:
    """The elements from an address on, as an array without ownership."""
    kind = types.Array(element(ptr), 1, "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = arrayobj.make_array(kind)(context, builder)
        nbytes = named_dtype(ptr.parameters[0]).itemsize
        arrayobj.populate_array(
            array,
            data=builder.inttoptr(args[1], context.get_data_type(kind.dtype).as_pointer()),
            shape=cgutils.pack_array(builder, [context.cast(builder, args[2], count, types.int64)]),
            strides=cgutils.pack_array(builder, [ir.Constant(INT, nbytes)]),
            itemsize=ir.Constant(INT, nbytes),
            meminfo=None,
        )
        return array._getvalue()

    return kind(ptr, types.int64, count), codegen


@overload_attribute(_PointerType, "rank", jit_options=INLINED)
def _rank(ptr: Any) -> Any:
    def read(ptr: Any) -> Any:
        return handle_word(ptr, 1)

    return read


@overload_attribute(_PointerType, "offset", jit_options=INLINED)
def _offset(ptr: Any) -> Any:
    def read(ptr: Any) -> Any:
        return handle_word(ptr, 2)

    return read


@overload_attribute(_PointerType, "is_local", jit_options=INLINED)
def _is_local(ptr: Any) -> Any:
    def read(ptr: Any) -> Any:
        return near(ptr) != 0

    return read


@overload_method(_PointerType, "on", jit_options=INLINED)
def _on(ptr: Any, rank: Any) -> Any:
    if not isinstance(rank, types.Integer):
        raise TypingError(f"ptr.on({rank}): give an integer, a rank of the team of the segment")

    def move(ptr: Any, rank: Any) -> Any:
        check_rank(ptr, rank)
        if rank < 0 or rank >= load_word(handle_word(ptr, 0)):
            raise IndexError("ptr.on: there is no such rank in the team of the segment")
        return with_word(ptr, 1, rank)

    return move


@overload_method(_PointerType, "local", jit_options=INLINED)
def _local(ptr: Any, count: Any = 1) -> Any:
    def view(ptr: Any, count: Any = 1) -> Any:
        address = near(ptr)
        if address == 0:
            raise ValueError("ptr.local: loads and stores do not reach this memory; use gw.get and gw.put")
        check_bytes(ptr, count * element_size(ptr))
        return _array_at(ptr, address, count)

    return view


@overload(operator.add, jit_options=INLINED)
def _add(ptr: Any, count: Any) -> Any:
    if not is_pointer(ptr):
        return None
    if not isinstance(count, types.Integer):
        raise TypingError(f"{count} added to a global pointer: give an integer, a number of elements")

    def move(ptr: Any, count: Any) -> Any:
        return with_word(ptr, 2, handle_word(ptr, 2) + count * element_size(ptr))

    return move


@overload(operator.sub, jit_options=INLINED)
def _sub(ptr: Any, other: Any) -> Any:
    if not is_pointer(ptr):
        return None
    if is_pointer(other):
        if other.parameters != ptr.parameters:
            raise TypingError(f"{ptr} - {other}: only pointers with one dtype can be subtracted")

        def distance(ptr: Any, other: Any) -> Any:
            return (handle_word(ptr, 2) - handle_word(other, 2)) // element_size(ptr)

        return distance

    def move(ptr: Any, other: Any) -> Any:
        return ptr + (-other)

    return move
