"""`Point` and `Offset` in compiled code.

A point that was reached from the index point of a kernel by constant offsets carries their sum in its type. Accesses
to neighbours therefore become one base address with immediate displacements, and the compiler knows the exact
footprint of a stencil on each array (see `views`), so that a launch can be checked before it touches memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.imputils import lower_constant
from numba.core.typeconv import Conversion
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import (
    lower_builtin,
    lower_cast,
    lower_getattr,
    models,
    overload,
    register_model,
    typeof_impl,
)

from gondwana.domains.point import Offset, Point

INT = ir.IntType(64)


def give_attributes(kind: Any, **attributes: tuple[Callable[[Any], Any], Callable[[Any, Any, Any, Any], Any]]) -> None:
    """Give the values of a class of Numba types attributes. Local.

    Args:
        kind: the class.
        attributes: for each name a function that returns the type of the attribute for an instance of the class, and
            one that lowers it, of the context, the builder, the instance and the value.
    """

    @infer_getattr
    class Attributes(AttributeTemplate):  # type: ignore[misc]
        key = kind

        def generic_resolve(self, value: Any, name: str) -> Any:
            return attributes[name][0](value) if name in attributes else None

    for name, (_, lower) in attributes.items():
        lower_getattr(kind, name)(lower)


def give_length(kind: Any, count: Callable[[Any, Any, Any], Any]) -> None:
    """Give the values of a class of Numba types a length. Local.

    Args:
        kind: the class.
        count: what lowers it, of the builder, the instance of the class and the value.
    """

    @infer_global(len)
    class Length(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            return signature(types.int64, *args) if isinstance(args[0], kind) else None

    @lower_builtin(len, kind)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return count(builder, sig.args[0], args[0])


class PlainType(types.Type):  # type: ignore[misc]
    """A type named as in messages; `identity` tells it from others of its class."""

    def __init__(self, name: str, *identity: Any) -> None:
        self._identity = identity
        super().__init__(name)

    @property
    def key(self) -> Any:
        """The value by which Numba compares types."""
        return self._identity

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """The part of function names that represents the type."""
        return f"{self.name}{self._identity}", ()


class PointType(PlainType):
    """A point of `ndim` axes; `offset` is its distance from the kernel's index point, None if not a constant."""

    def __init__(self, ndim: int, offset: tuple[int, ...] | None) -> None:
        self.ndim = ndim
        self.offset = offset
        super().__init__(f"Point({ndim}d)", ndim, offset)

    def unify(self, typingctx: Any, other: Any) -> PointType | None:
        """Let one variable hold two points of different known offsets: the offset is no longer known."""
        if isinstance(other, PointType) and other.ndim == self.ndim:
            return PointType(self.ndim, None)
        return None

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """A point may forget its offset."""
        if isinstance(other, PointType) and other.ndim == self.ndim and other.offset is None:
            return Conversion.safe
        return None

    def shifted(self, terms: tuple[int, ...], sign: int) -> PointType:
        """The type of this point plus `sign` times a constant offset."""
        self.check_axes(len(terms))
        if self.offset is None:
            return self
        padded = terms + (0,) * (self.ndim - len(terms))
        return PointType(self.ndim, tuple(a + sign * b for a, b in zip(self.offset, padded, strict=True)))

    def check_axes(self, count: int) -> None:
        """Refuse an offset along more axes than the point has."""
        if count > self.ndim:
            raise errors.TypingError(f"a point of {self.ndim} axes has no axis {count - 1} to move along")


class OffsetType(PlainType):
    """A constant offset such as `gw.X - 2 * gw.Y`: it exists at compile time only."""

    def __init__(self, terms: tuple[int, ...]) -> None:
        self.terms = terms
        super().__init__(f"Offset({Offset(terms)})", terms)

    def unify(self, typingctx: Any, other: Any) -> StepType | None:
        """Let one variable hold two offsets: the compiler no longer knows which it is."""
        if isinstance(other, OffsetType):
            return StepType(max(len(self.terms), len(other.terms)))
        return None

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """A constant may be used as one that is known at run time."""
        if isinstance(other, StepType) and len(self.terms) <= other.ndim:
            return Conversion.safe
        return None


class StepType(PlainType):
    """An offset that is known at run time, such as `r * gw.X`, along the first `ndim` axes."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        super().__init__("Offset(known at run time)", ndim)

    def unify(self, typingctx: Any, other: Any) -> StepType | None:
        """Let one variable hold two offsets."""
        if isinstance(other, StepType | OffsetType):
            return StepType(max(self.ndim, axes(other)))
        return None

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """An offset may have more axes."""
        if isinstance(other, StepType) and self.ndim <= other.ndim:
            return Conversion.safe
        return None


def axes(offset: OffsetType | StepType) -> int:
    """The number of axes along which an offset may point."""
    return len(offset.terms) if isinstance(offset, OffsetType) else offset.ndim


@register_model(StepType)
@register_model(PointType)
class _PointModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, point: PointType | StepType) -> None:
        super().__init__(manager, point, [(f"x{axis}", types.int64) for axis in range(point.ndim)])


register_model(OffsetType)(models.OpaqueModel)


@typeof_impl.register(Offset)
def _typeof_offset(value: Offset, context: Any) -> OffsetType:
    return OffsetType(value.terms)


@typeof_impl.register(Point)
def _typeof_point(value: Point, context: Any) -> PointType:
    return PointType(len(value), None)


@lower_constant(OffsetType)
def _constant_offset(context: Any, builder: Any, offset: OffsetType, value: Offset) -> Any:
    return context.get_dummy_value()


@lower_constant(PointType)
def _constant_point(context: Any, builder: Any, point: PointType, value: Point) -> Any:
    return make(context, builder, point, [ir.Constant(INT, x) for x in value])


@lower_cast(PointType, PointType)
def _forget_offset(context: Any, builder: Any, source: PointType, target: PointType, value: Any) -> Any:
    return value


@lower_cast(OffsetType, StepType)
@lower_cast(StepType, StepType)
def _forget_terms(context: Any, builder: Any, source: OffsetType | StepType, target: StepType, value: Any) -> Any:
    return make(context, builder, target, _padded(_terms(builder, source, value), target.ndim))


def _terms(builder: Any, offset: OffsetType | StepType, value: Any) -> list[Any]:
    """The terms of an offset as LLVM integers."""
    if isinstance(offset, OffsetType):
        return [ir.Constant(INT, term) for term in offset.terms]
    return coordinates(builder, offset, value)


def _padded(terms: list[Any], ndim: int) -> list[Any]:
    return terms + [ir.Constant(INT, 0)] * (ndim - len(terms))


def make(context: Any, builder: Any, point: PointType | StepType, coordinates: list[Any]) -> Any:
    """The LLVM value of a point with these coordinates, or of an offset with these terms."""
    value = cgutils.get_null_value(context.get_value_type(point))
    for axis, coordinate in enumerate(coordinates):
        value = builder.insert_value(value, coordinate, axis)
    return value


def coordinates(builder: Any, point: PointType | StepType, value: Any) -> list[Any]:
    """The coordinates of a point, or the terms of an offset, as LLVM integers."""
    return [builder.extract_value(value, axis) for axis in range(point.ndim)]


def _add(op: Any, sign: int) -> None:
    @infer_global(op)
    class _PointSum(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) != 2:
                return None
            left, right = args
            if isinstance(left, PointType) and isinstance(right, OffsetType):
                return signature(left.shifted(right.terms, sign), *args)
            if sign == 1 and isinstance(left, OffsetType) and isinstance(right, PointType):
                return signature(right.shifted(left.terms, sign), *args)
            if isinstance(left, PointType) and isinstance(right, PointType) and left.ndim == right.ndim:
                return signature(PointType(left.ndim, None), *args)
            if isinstance(left, OffsetType) and isinstance(right, OffsetType):
                return signature(OffsetType(_combine(left.terms, right.terms, sign)), *args)
            if isinstance(left, OffsetType | StepType) and isinstance(right, OffsetType | StepType):
                return signature(StepType(max(axes(left), axes(right))), *args)
            for point, step in (args, args[::-1]) if sign == 1 else (args,):
                if isinstance(point, PointType) and isinstance(step, StepType):
                    point.check_axes(step.ndim)
                    return signature(PointType(point.ndim, None), *args)
            return None

    def lower_point_offset(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        point, value = (sig.args[0], args[0]) if isinstance(sig.args[0], PointType) else (sig.args[1], args[1])
        terms = (sig.args[1] if isinstance(sig.args[1], OffsetType) else sig.args[0]).terms
        moved = coordinates(builder, point, value)
        for axis, term in enumerate(terms):
            if term:
                moved[axis] = builder.add(moved[axis], ir.Constant(INT, sign * term), flags=["nsw"])
        return make(context, builder, sig.return_type, moved)

    def lower_all(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        combine = builder.add if sign == 1 else builder.sub
        given = zip(sig.args, args, strict=True)
        left, right = (_padded(_numbers(builder, kind, value), sig.return_type.ndim) for kind, value in given)
        moved = [combine(a, b, flags=["nsw"]) for a, b in zip(left, right, strict=True)]
        return make(context, builder, sig.return_type, moved)

    lower_builtin(op, PointType, OffsetType)(lower_point_offset)
    lower_builtin(op, OffsetType, OffsetType)(_lower_dummy)
    for pair in ((PointType, PointType), (PointType, StepType), (StepType, StepType), (StepType, OffsetType)):
        lower_builtin(op, *pair)(lower_all)
    lower_builtin(op, OffsetType, StepType)(lower_all)
    if sign == 1:
        lower_builtin(op, OffsetType, PointType)(lower_point_offset)
        lower_builtin(op, StepType, PointType)(lower_all)


def _numbers(builder: Any, kind: Any, value: Any) -> list[Any]:
    """The coordinates of a point or the terms of an offset."""
    return coordinates(builder, kind, value) if isinstance(kind, PointType) else _terms(builder, kind, value)


def _combine(left: tuple[int, ...], right: tuple[int, ...], sign: int) -> tuple[int, ...]:
    total = Offset(left) + Offset(right) if sign == 1 else Offset(left) - Offset(right)
    return tuple(total.terms)


def _lower_dummy(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.get_dummy_value()


_add(operator.add, 1)
_add(operator.sub, -1)


@infer_global(operator.mul)
class _OffsetMultiple(AbstractTemplate):  # type: ignore[misc]
    """`2 * gw.X`: a constant offset if both factors are known at compile time."""

    prefer_literal = True

    def generic(self, args: Any, kws: Any) -> Any:
        for factor, offset in (args, args[::-1]):
            if isinstance(offset, OffsetType) and isinstance(factor, types.IntegerLiteral):
                terms = tuple((Offset(offset.terms) * factor.literal_value).terms)
                return signature(OffsetType(terms), *args)
            if isinstance(offset, OffsetType | StepType) and isinstance(factor, types.Integer):
                return signature(StepType(axes(offset)), *args)
        return None


@lower_builtin(operator.mul, OffsetType, types.Integer)
@lower_builtin(operator.mul, StepType, types.Integer)
@lower_builtin(operator.mul, types.Integer, OffsetType)
@lower_builtin(operator.mul, types.Integer, StepType)
def _lower_multiple(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if isinstance(sig.return_type, OffsetType):
        return context.get_dummy_value()
    (offset, value), (integer, times) = sorted(
        zip(sig.args, args, strict=True), key=lambda pair: isinstance(pair[0], types.Integer)
    )
    factor = context.cast(builder, times, integer, types.int64)
    terms = [builder.mul(term, factor, flags=["nsw"]) for term in _terms(builder, offset, value)]
    return make(context, builder, sig.return_type, terms)


@infer_global(operator.neg)
class _OffsetNegated(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], OffsetType):
            return signature(OffsetType(tuple(-term for term in args[0].terms)), *args)
        return signature(args[0], *args) if isinstance(args[0], StepType) else None


lower_builtin(operator.neg, OffsetType)(_lower_dummy)


@lower_builtin(operator.neg, StepType)
def _lower_negated(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return make(
        context, builder, sig.return_type, [builder.neg(term) for term in coordinates(builder, sig.args[0], args[0])]
    )


@infer_global(Point)
class _NewPoint(AbstractTemplate):  # type: ignore[misc]
    """`gw.Point(i, j)`."""

    def generic(self, args: Any, kws: Any) -> Any:
        if args and all(isinstance(coordinate, types.Integer) for coordinate in args):
            return signature(PointType(len(args), None), *args)
        raise errors.TypingError(
            f"gw.Point({', '.join(map(str, args))}): give whole numbers, one for each axis, such as gw.Point(i, j)"
        )


@lower_builtin(Point, types.VarArg(types.Any))
def _lower_new_point(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    values = [context.cast(builder, value, kind, types.int64) for kind, value in zip(sig.args, args, strict=True)]
    return make(context, builder, sig.return_type, values)


@infer_global(operator.getitem)
class _PointItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], PointType) and isinstance(args[1], types.Integer):
            return signature(types.int64, args[0], types.int64)
        return None


@infer
class _PointItemKnown(AbstractTemplate):  # type: ignore[misc]
    """An item at an index that is known at compile time."""

    key = "static_getitem"

    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], PointType) and isinstance(args[1], int):
            return signature(types.int64, *args)
        return None


@lower_builtin("static_getitem", PointType, types.IntegerLiteral)
def _lower_point_item_known(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    point, axis = sig.args[0], args[1]
    if -point.ndim <= axis < point.ndim:
        return coordinates(builder, point, args[0])[axis]
    # As in the interpreter an error at run time, so that helpers may ask for `len(p)` first.
    with builder.if_then(cgutils.true_bit):
        convention_of(context).return_user_exc(
            builder, IndexError, (f"a point of {point.ndim} axes has no axis {axis}",)
        )
    return ir.Constant(INT, 0)


def convention_of(context: Any) -> Any:
    """The calling convention of the function that is being lowered: numba-cuda has one for each."""
    return getattr(context.fndesc, "call_conv", None) or context.call_conv


@lower_builtin(operator.getitem, PointType, types.int64)
def _lower_point_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    values = coordinates(builder, sig.args[0], args[0])
    item = values[-1]
    for axis, value in enumerate(values[:-1]):
        is_axis = builder.icmp_signed("==", args[1], ir.Constant(INT, axis))
        from_end = builder.icmp_signed("==", args[1], ir.Constant(INT, axis - len(values)))
        item = builder.select(builder.or_(is_axis, from_end), value, item)
    return item


give_length(PointType, lambda builder, point, value: ir.Constant(INT, point.ndim))
give_attributes(
    PointType,
    ndim=(lambda point: types.int64, lambda context, builder, point, value: ir.Constant(INT, point.ndim)),
)


@overload(operator.eq)
def _points_equal(left: Any, right: Any) -> Any:
    if isinstance(left, PointType) and isinstance(right, PointType) and left.ndim == right.ndim:

        def equal(left: Any, right: Any) -> bool:
            same = True
            for axis in range(left.ndim):
                same = same and left[axis] == right[axis]
            return same

        return equal
    return None
