"""Intermediates of a fused pair as its two kernels see them, on the host. Imports Numba.

A thread has a ring of three planes of each intermediate. The second kernel is at the central one of them and reads the
planes before and after it too; the first writes the plane that it is at.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import errors, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np import numpy_support

from gondwana.compiler.types.arguments import HandleSpec, Spec, TupleSpec
from gondwana.compiler.types.points import INT, PlainType, PointType, coordinates, give_attributes
from gondwana.compiler.types.unpack import scalar_type
from gondwana.compiler.types.views import DTYPE, mark
from gondwana.kernels.cpu.launch import PLANES
from gondwana.kernels.intermediate import FAMILY, REFUSED_READ, REFUSED_STAR, REFUSED_STORE, REFUSED_WRITE
from gondwana.kernels.variant import Order


class RingType(PlainType):
    """An intermediate as one of the two kernels sees it.

    Args:
        dtype: Numba type of an element.
        number: number of the intermediate.
        order: order of the loops, which gives the innermost axis.
        slot: position among the arrays of the pair, by which the compiler knows what does not overlap.
        scopes: number of the arrays and intermediates of the pair.
        kernel: number of the compilation.
        writes: whether the kernel is the first.
    """

    def __init__(
        self, dtype: Any, number: int, order: Order, slot: int, scopes: int, kernel: int, *, writes: bool
    ) -> None:
        self.dtype = dtype
        self.number = number
        self.order = order
        self.slots = (slot,)
        self.scopes = scopes
        self.kernel = kernel
        self.writes = writes
        super().__init__(f"Intermediate({dtype})", dtype, number, order, slot, scopes, kernel, writes)

    def loops(self, axes: Any) -> Any:
        """Offsets or coordinates from the outermost loop inwards."""
        return axes if self.order == "C" else axes[::-1]


@register_model(RingType)
class _RingModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, ring: RingType) -> None:
        # Addresses of the elements of row and column zero, existing or not, in the planes before, at, after the point.
        planes = [(f"plane{number}", types.CPointer(ring.dtype)) for number in range(PLANES)]
        super().__init__(manager, ring, [*planes, ("row", types.int64)])


def rings_in(kind: Any, spec: Spec, order: Order, arrays: int, scopes: int, kernel: int, *, writes: bool) -> Any:
    """The type of an argument with handles of intermediates replaced as a kernel sees them, in tuples too.

    Args:
        kind: type of the argument.
        spec: spec of the argument.
        order: order of the loops, which gives the innermost axis.
        arrays: number of the arrays of the pair.
        scopes: number of the arrays and intermediates.
        kernel: number of the compilation.
        writes: whether it is an argument of the first kernel.
    """
    if isinstance(spec, HandleSpec) and spec.family == FAMILY:
        dtype, _, number = spec.parameters
        place = int(str(number))
        return RingType(scalar_type(str(dtype)), place, order, arrays + place, scopes, kernel, writes=writes)
    if isinstance(spec, TupleSpec):
        members = [
            rings_in(k, s, order, arrays, scopes, kernel, writes=writes)
            for k, s in zip(kind.types, spec.items, strict=True)
        ]
        return types.Tuple(members) if spec.cls is None else types.NamedTuple(members, spec.cls)
    return kind


def _offset(ring: RingType, index: Any) -> tuple[int, ...] | None:
    """The constant offset of a point from that of the kernel, from the outermost loop inwards."""
    offset = index.offset if isinstance(index, PointType) else None
    return None if offset is None else ring.loops(offset)


@infer_global(operator.getitem)
class _Load(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        ring, index = args
        if not isinstance(ring, RingType):
            return None
        if ring.writes:
            raise errors.TypingError(REFUSED_READ)
        offset = _offset(ring, index)
        if offset is None or sum(map(abs, offset)) > 1:
            raise errors.TypingError(REFUSED_STAR)
        return signature(ring.dtype, ring, index)


@infer_global(operator.setitem)
class _Store(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        ring, index, value = args
        if not isinstance(ring, RingType):
            return None
        if not ring.writes:
            raise errors.TypingError(REFUSED_WRITE)
        if _offset(ring, index) != (0, 0, 0):
            raise errors.TypingError(REFUSED_STORE)
        if self.context.can_convert(value, ring.dtype) is None:
            raise errors.TypingError(f"{value} cannot be an element of an intermediate of {ring.dtype}")
        return signature(types.none, ring, index, ring.dtype)


def _address(builder: Any, ring: RingType, index: PointType, value: Any, at: Any) -> Any:
    """Pointer to an element: the plane is known from the constant offset of the point."""
    steps = ring.loops(index.offset)[0]
    _, row, column = ring.loops(coordinates(builder, index, at))
    distance = builder.add(builder.mul(row, builder.extract_value(value, PLANES), flags=["nsw"]), column, flags=["nsw"])
    return builder.gep(builder.extract_value(value, 1 + steps), [distance])


@lower_builtin(operator.getitem, RingType, types.Any)
def _lower_load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    ring, index = sig.args
    loaded = builder.load(_address(builder, ring, index, args[0], args[1]))
    mark(builder, loaded, ring)
    return loaded


@lower_builtin(operator.setitem, RingType, types.Any, types.Any)
def _lower_store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    ring, index, _ = sig.args
    mark(builder, builder.store(args[2], _address(builder, ring, index, args[0], args[1])), ring)
    return context.get_dummy_value()


give_attributes(RingType, dtype=DTYPE)


def placer(kinds: dict[int, str]) -> Any:
    """Return a compiled function that puts the rings of a thread into the arguments of a kernel.

    `place(args, scratch, plane, row, first, number)` takes the address of the thread's scratch memory, the numbers
    of elements of a plane and of a row, the distance of the element at row zero and column zero from the first, and the
    number of the plane that the kernel is at.

    Args:
        kinds: the dtypes of the intermediates, by number.
    """
    sizes = [int(numpy_support.as_dtype(scalar_type(kinds[number])).itemsize) for number in sorted(kinds)]

    @intrinsic
    def place(typingctx: Any, args: Any, scratch: Any, plane: Any, row: Any, first: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            given, base, size, width, origin, at = values
            three = ir.Constant(INT, PLANES)
            # Before, at and after: plane n is in place n mod 3.
            places = [builder.urem(builder.add(at, ir.Constant(INT, shift)), three) for shift in (PLANES - 1, 0, 1)]

            def ring(kind: RingType) -> Any:
                data = context.get_data_type(kind.dtype).as_pointer()
                before = ir.Constant(INT, PLANES * sum(sizes[: kind.number]))
                start = builder.inttoptr(builder.add(base, builder.mul(before, size)), data)
                value = ir.Constant(context.get_value_type(kind), ir.Undefined)
                for position, held in enumerate(places):
                    distance = builder.sub(builder.mul(held, size), origin)
                    value = builder.insert_value(value, builder.gep(start, [distance]), position)
                return builder.insert_value(value, width, PLANES)

            return _with_rings(context, builder, args, given, ring)

        return args(args, *(types.int64,) * 5), codegen

    return place


def _with_rings(context: Any, builder: Any, kind: Any, value: Any, ring: Any) -> Any:
    """An argument of a kernel with its rings in place."""
    if isinstance(kind, RingType):
        return ring(kind)
    if isinstance(kind, types.BaseTuple):
        members = [
            _with_rings(context, builder, member, builder.extract_value(value, i), ring)
            for i, member in enumerate(kind.types)
        ]
        return context.make_tuple(builder, kind, members)
    return value
