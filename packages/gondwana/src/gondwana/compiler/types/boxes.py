"""How compiled code sees a `RectDomain`: a handle with the first coordinates, the ends and the strides of the axes."""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import lower_builtin, lower_getattr

from gondwana.compiler.types.arguments import DOMAIN, HandleSpec
from gondwana.compiler.types.handle_types import HandleType, family_type
from gondwana.compiler.types.points import INT, PointType, coordinates, make

DomainType = family_type(DOMAIN)
_LO, _HI, _STRIDE = range(3)


def domain_type(ndim: int) -> HandleType:
    """The type of boxes of so many axes."""
    return DomainType(HandleSpec(DOMAIN, (ndim,), 3 * ndim))


def _ndim(domain: HandleType) -> int:
    return domain.words // 3


def _words(builder: Any, domain: HandleType, value: Any, group: int) -> list[Any]:
    """The first coordinates, the ends or the strides."""
    ndim = _ndim(domain)
    return [builder.extract_value(value, group * ndim + axis) for axis in range(ndim)]


def length(builder: Any, lo: Any, hi: Any, step: Any) -> Any:
    """The number of coordinates from `lo` to before `hi`, `step` apart."""
    room = builder.add(builder.sub(hi, lo), builder.sub(step, ir.Constant(INT, 1)))
    empty = builder.icmp_signed("<", room, step)
    return builder.select(empty, ir.Constant(INT, 0), builder.sdiv(room, step))


def product(builder: Any, factors: list[Any]) -> Any:
    """The product of integers."""
    found = factors[0]
    for factor in factors[1:]:
        found = builder.mul(found, factor)
    return found


def _shape(builder: Any, domain: HandleType, value: Any) -> list[Any]:
    groups = (_words(builder, domain, value, group) for group in (_LO, _HI, _STRIDE))
    return [length(builder, *axis) for axis in zip(*groups, strict=True)]


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = DomainType

    def resolve_ndim(self, domain: HandleType) -> Any:
        return types.int64

    def resolve_size(self, domain: HandleType) -> Any:
        return types.int64

    def resolve_shape(self, domain: HandleType) -> Any:
        return types.UniTuple(types.int64, _ndim(domain))

    def resolve_lo(self, domain: HandleType) -> Any:
        return PointType(_ndim(domain), None)

    def resolve_hi(self, domain: HandleType) -> Any:
        return PointType(_ndim(domain), None)

    def resolve_stride(self, domain: HandleType) -> Any:
        return PointType(_ndim(domain), None)


@lower_getattr(DomainType, "ndim")
def _lower_ndim(context: Any, builder: Any, domain: HandleType, value: Any) -> Any:
    return ir.Constant(INT, _ndim(domain))


@lower_getattr(DomainType, "size")
def _lower_size(context: Any, builder: Any, domain: HandleType, value: Any) -> Any:
    return product(builder, _shape(builder, domain, value))


@lower_getattr(DomainType, "shape")
def _lower_shape(context: Any, builder: Any, domain: HandleType, value: Any) -> Any:
    return cgutils.pack_array(builder, _shape(builder, domain, value))


def _corner(name: str, group: int) -> None:
    @lower_getattr(DomainType, name)
    def lower(context: Any, builder: Any, domain: HandleType, value: Any) -> Any:
        return make(context, builder, PointType(_ndim(domain), None), _words(builder, domain, value, group))


_corner("lo", _LO)
_corner("hi", _HI)
_corner("stride", _STRIDE)


@infer_global(len)
class _Length(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.int64, *args) if isinstance(args[0], DomainType) else None


@lower_builtin(len, DomainType)
def _lower_length(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return product(builder, _shape(builder, sig.args[0], args[0]))


@infer
class _Iteration(AbstractTemplate):  # type: ignore[misc]
    key = "getiter"

    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], DomainType):
            raise TypingError(
                "compiled code walks through a domain axis by axis: for i in range(d.lo[0], d.hi[0], d.stride[0]), or "
                "in a kernel that runs over it"
            )
        return None


@infer_global(operator.contains)
class _Contains(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        domain, point = args
        if not isinstance(domain, DomainType) or not isinstance(point, PointType):
            return None
        if point.ndim != _ndim(domain):
            raise TypingError(f"a point of {point.ndim} axes cannot be in a domain of {_ndim(domain)} axes")
        return signature(types.boolean, *args)


@lower_builtin(operator.contains, DomainType, PointType)
def _lower_contains(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    domain, point = sig.args
    bounds = zip(*(_words(builder, domain, args[0], group) for group in (_LO, _HI, _STRIDE)), strict=True)
    inside = cgutils.true_bit
    for x, (lo, hi, stride) in zip(coordinates(builder, point, args[1]), bounds, strict=True):
        steps = builder.srem(builder.sub(x, lo), stride)
        for true in (
            builder.icmp_signed(">=", x, lo),
            builder.icmp_signed("<", x, hi),
            builder.icmp_signed("==", steps, ir.Constant(INT, 0)),
        ):
            inside = builder.and_(inside, true)
    return inside
