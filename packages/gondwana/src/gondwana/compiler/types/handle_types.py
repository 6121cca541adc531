"""Handles in compiled code: structures of 64-bit words, with a type for each family and its parameters.

The words of a `RectDomain` are the first coordinates, the ends and the strides of the axes.
"""

from __future__ import annotations

import functools
import operator
import types as pytypes
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
from numba.extending import intrinsic, lower_builtin, models, register_model

from gondwana.compiler.types.arguments import DOMAIN, HandleSpec
from gondwana.compiler.types.points import INT, PlainType, PointType, coordinates, give_attributes, give_length, make
from gondwana.compiler.types.records import DTYPES

_advice: dict[str, dict[str, str]] = {}
_LO, _HI, _STRIDE = range(3)


class HandleType(PlainType):
    """A handle of a family; its instances are those of `family_type(family)`.

    Args:
        spec: family, parameters and number of words.
    """

    def __init__(self, spec: HandleSpec) -> None:
        self.family = spec.family
        self.parameters = spec.parameters
        self.words = spec.words
        dtypes = [str(parameter) for parameter in spec.parameters if parameter in DTYPES]
        name = "".join(map(str.capitalize, spec.family.rpartition(".")[2].split("_")))
        super().__init__(f"{name}({', '.join(dtypes)})" if dtypes else name, spec)


class _HandleModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: HandleType) -> None:
        super().__init__(manager, kind, [(f"word{index}", types.int64) for index in range(kind.words)])


@functools.cache
def family_type(family: str) -> type[HandleType]:
    """Return the class of the types of one family. Local.

    `overload_attribute` and `overload_method` take it, so that handles of other families may have attributes and
    methods of the same name.
    """
    created = pytypes.new_class(f"{family}_handle", (HandleType,))
    register_model(created)(_HandleModel)
    return created


def advise(family: str, **instead: str) -> None:
    """State what to write in compiled code instead of methods that objects of a family have in Python only. Local."""
    _advice.setdefault(family, {}).update(instead)


@infer_getattr
class _Missing(AttributeTemplate):  # type: ignore[misc]
    key = HandleType

    def generic_resolve(self, kind: HandleType, attribute: str) -> None:
        """Refuse methods that exist in Python only; other attributes are looked up elsewhere."""
        instead = _advice.get(kind.family, {}).get(attribute)
        if instead is not None:
            raise TypingError(f"{kind}.{attribute}() is for Python: in compiled code write {instead}")


def is_handle(kind: Any, family: str) -> bool:
    """Return whether a Numba type is a handle of a family. Local."""
    return isinstance(kind, HandleType) and kind.family == family


def build(context: Any, builder: Any, kind: HandleType, words: list[Any]) -> Any:
    """The LLVM value of a handle with these words."""
    value = cgutils.get_null_value(context.get_value_type(kind))
    for index, word in enumerate(words):
        value = builder.insert_value(value, word, index)
    return value


@intrinsic(prefer_literal=True)
def handle_word(typingctx: Any, handle: Any, index: Any) -> Any:
    """Return one word of a handle; `index` is a literal."""
    place = index.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_value(args[0], place)

    return types.int64(handle, index), codegen


@intrinsic(prefer_literal=True)
def with_word(typingctx: Any, handle: Any, index: Any, word: Any) -> Any:
    """Return a handle with another value of one word; `index` is a literal."""
    place = index.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.insert_value(args[0], context.cast(builder, args[2], word, types.int64), place)

    return handle(handle, index, word), codegen


DomainType = family_type(DOMAIN)


def domain_type(ndim: int) -> HandleType:
    """The type of boxes of `ndim` axes."""
    return DomainType(HandleSpec(DOMAIN, (ndim,), 3 * ndim))


def _ndim(domain: HandleType) -> int:
    return domain.words // 3


def _words(builder: Any, domain: HandleType, value: Any, group: int) -> list[Any]:
    """The first coordinates, the ends or the strides."""
    ndim = _ndim(domain)
    return [builder.extract_value(value, group * ndim + axis) for axis in range(ndim)]


def length(builder: Any, lo: Any, hi: Any, step: Any) -> Any:
    """The number of coordinates from `lo` to before `hi` in steps of `step`."""
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


def _corner(group: int) -> Any:
    def lower(context: Any, builder: Any, domain: HandleType, value: Any) -> Any:
        return make(context, builder, PointType(_ndim(domain), None), _words(builder, domain, value, group))

    return lambda domain: PointType(_ndim(domain), None), lower


give_length(DomainType, lambda builder, domain, value: product(builder, _shape(builder, domain, value)))
give_attributes(
    DomainType,
    ndim=(lambda domain: types.int64, lambda context, builder, domain, value: ir.Constant(INT, _ndim(domain))),
    size=(
        lambda domain: types.int64,
        lambda context, builder, domain, value: product(builder, _shape(builder, domain, value)),
    ),
    shape=(
        lambda domain: types.UniTuple(types.int64, _ndim(domain)),
        lambda context, builder, domain, value: cgutils.pack_array(builder, _shape(builder, domain, value)),
    ),
    lo=_corner(_LO),
    hi=_corner(_HI),
    stride=_corner(_STRIDE),
)


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
