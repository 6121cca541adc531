"""Integers in compiled code have the types and the values of NumPy 2. Imports Numba.

Numba calculates with 64 bits whatever the operands, takes uint64 beside int64 for float64, and has no weak numbers.
A `StandIn` takes the place of each operator and function of integers in users' functions (see `literals`): if its
operands are integers it follows the rules below with the machine code of `integer_code`, else it behaves as the
original.

The rules are NumPy's but for one: uint64 beside signed integers stays uint64, modulo 2**64, where NumPy goes by way of
float64. Compiled code cannot always distinguish a Python number from an int64, and this rule loses no digit.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from numba.core import types
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin, lower_cast, register_model

from gondwana.compiler.types.integer_code import (
    ARITHMETIC,
    COMPARISONS,
    DIVMODS,
    MAXIMA,
    MINIMA,
    POWERS,
    QUOTIENTS,
    emit,
)


class WeakInteger(types.Type):  # type: ignore[misc]
    """A Python integer that takes the type of the integer beside it; `plain` is the type that carries it."""

    def __init__(self, plain: Any) -> None:
        self.plain = plain
        super().__init__(name="int" if plain.signed else "int (not negative)")

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return the type of a number found to be unsigned while types are inferred."""
        return LARGE_WEAK if isinstance(other, WeakInteger) else None


@register_model(WeakInteger)
class _WeakIntegerModel(models.ProxyModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: WeakInteger) -> None:
        super().__init__(dmm, fe_type)
        self._proxied_model = dmm.lookup(fe_type.plain)


@lower_cast(WeakInteger, types.Number)
@lower_cast(WeakInteger, types.Boolean)
def _from_weak(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    return context.cast(builder, value, source.plain, target)


@lower_cast(types.Integer, WeakInteger)
def _to_weak(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    return context.cast(builder, value, source, target.plain)


WEAK, LARGE_WEAK = WeakInteger(types.int64), WeakInteger(types.uint64)
"""The types of Python's integers as arguments: those that fit int64, and larger ones below 2**64."""


def plain(kind: Any) -> Any:
    """Return the type of a value without its weakness. Local."""
    return kind.plain if isinstance(kind, WeakInteger) else kind


def as_weak(value: Any) -> Any:
    """Stand for an operation in Numba's IR: the same number, known to be Python's."""


def as_plain(value: Any) -> Any:
    """Stand for an operation in Numba's IR: the same number as an int64."""


@infer_global(as_weak)
class _AsWeak(AbstractTemplate):  # type: ignore[misc]
    key = as_weak

    def generic(self, args: Any, kws: Any) -> Any:
        kind = types.unliteral(args[0])
        if not isinstance(kind, types.Integer):
            return kind(kind)
        return (LARGE_WEAK if kind == types.uint64 else WEAK)(kind)


@infer_global(as_plain)
class _AsPlain(AbstractTemplate):  # type: ignore[misc]
    key = as_plain

    def generic(self, args: Any, kws: Any) -> Any:
        (kind,) = args
        return plain(kind)(kind)


@lower_builtin(as_weak, types.Any)
@lower_builtin(as_plain, types.Any)
def _converted_to(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


def unified(first: Any, second: Any) -> Any:
    """Return the common type of a variable that has two, if both are integers. Local.

    Numba takes float64 for uint64 and a signed integer.
    """
    if isinstance(first, types.Integer) and isinstance(second, types.Integer):
        return common(types.unliteral(first), types.unliteral(second))
    return None


def common(first: Any, second: Any) -> Any:
    """Return the type in which two integers are combined. Local."""
    if first.signed == second.signed:
        return max(first, second, key=lambda kind: kind.bitwidth)
    signed, unsigned = (first, second) if first.signed else (second, first)
    if unsigned.bitwidth == 64:
        return types.uint64
    return types.Integer.from_bitwidth(max(signed.bitwidth, 2 * unsigned.bitwidth), True)


def _is_weak(kind: Any) -> bool:
    return isinstance(kind, WeakInteger | types.IntegerLiteral | types.Boolean)


def _are_integers(kinds: Any) -> bool:
    """Whether all operands are integers or bools, and at least one is an integer."""
    return all(isinstance(kind, types.Integer | WeakInteger | types.Boolean) for kind in kinds) and any(
        isinstance(kind, types.Integer | WeakInteger) for kind in kinds
    )


def _fits(kind: Any, found: Any) -> bool:
    """Whether a number takes a type unchanged, as far as is known."""
    return not isinstance(kind, types.IntegerLiteral) or found.minval <= kind.literal_value <= found.maxval


def check_literals(original: Any, kinds: Any, place: Any) -> None:
    """Refuse an operation with a literal that does not fit the type of the other operands, as NumPy does. Local.

    Raises:
        TypingError: a literal does not fit; the message says which, and where.
    """
    if original in (*ARITHMETIC, *MINIMA[1:], *MAXIMA[1:], *DIVMODS, *POWERS) and _are_integers(kinds):
        try:
            _calculated(kinds)
        except TypingError as error:
            raise TypingError(str(error), place) from None


def _calculated(kinds: Any) -> Any:
    """The type of the result of arithmetic.

    Raises:
        TypingError: a literal does not fit the type of the other operands; Numba then tries other types for it, so
            literals are checked again once all types are known.
    """
    strong = [kind for kind in kinds if not _is_weak(kind)]
    if not strong:
        carried = [plain(types.unliteral(kind)) for kind in kinds]
        return types.uint64 if types.uint64 in carried else types.int64
    found = functools.reduce(common, strong)
    for kind in kinds:
        if not _fits(kind, found):
            raise TypingError(
                f"Python's {kind.literal_value} takes the type of the {found} beside it, as in NumPy, and does not fit "
                f"{found}: convert one of them, as in np.int64(x)"
            )
    return found


def _compared(kinds: Any) -> Any:
    """The types in which two integers are compared, exactly: they differ for uint64 and a signed integer only."""
    strong = [kind for kind in kinds if not _is_weak(kind)]
    if len(strong) == 1:
        # A literal that fits is compared in the type of the other operand, one that does not needs 64 bits.
        (kind,), (weak,) = strong, [kind for kind in kinds if _is_weak(kind)]
        if not isinstance(weak, WeakInteger) and _fits(weak, kind):
            return kind, kind
    return _exactly(kinds)


def _exactly(kinds: Any) -> tuple[Any, ...]:
    """The types in which integers keep their values: one for all, or 64 bits with their own signs."""
    carried = [plain(types.unliteral(kind)) for kind in kinds]
    carried = [types.int64 if isinstance(kind, types.Boolean) else kind for kind in carried]
    found = functools.reduce(common, carried)
    if found != types.uint64:
        return (found,) * len(kinds)
    return tuple(types.int64 if kind.signed else types.uint64 for kind in carried)


def _extreme(original: Any, kinds: Any) -> Any:
    """The types of a minimum or maximum: of uint64 and a signed integer, the one fits int64, the other uint64."""
    strong = [kind for kind in kinds if not _is_weak(kind)]
    found = functools.reduce(common, strong) if strong else types.uint64
    if original in (min, max):  # Python's compare, and convert nothing
        kinds = [kind if _fits(kind, found) else types.unliteral(kind) for kind in kinds]
    if found == types.uint64:
        known = [found if isinstance(kind, types.IntegerLiteral) and _fits(kind, found) else kind for kind in kinds]
        exact = _exactly(known)
        if types.int64 in exact:
            mixed = types.uint64 in exact
            return (types.uint64 if mixed and original in MAXIMA else types.int64)(*exact)
    result = _calculated(kinds)
    return result(*[result] * len(kinds))


class StandIn:
    """An operator or a function in the IR of users' functions; an object, so that each has its own types.

    Attributes:
        original: the operator or function, as error messages show it.
    """

    def __init__(self, original: Any) -> None:
        self.original = original

    def __repr__(self) -> str:
        return repr(self.original)


_SINGLE = (types.float32, types.complex64)
_NARROWED = {
    getattr(operator, prefix + name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    for prefix in ("", "i")
}
"""Operators that keep float32 beside integers."""


def signature(original: Any, kinds: Any) -> Any:
    """Return the types of an operation on integers, None for other operations. Local.

    Raises:
        TypingError: a literal does not fit the type of the other operand.
    """
    if not _are_integers(kinds):
        return None
    if original in ARITHMETIC:
        result = _calculated(kinds)
        return result(*[result] * len(kinds))
    if original in COMPARISONS and len(kinds) == 2:
        return types.boolean(*_compared(kinds))
    if original in (*MINIMA, *MAXIMA) and len(kinds) > 1:
        return _extreme(original, kinds)
    if original is int and len(kinds) == 1:
        kind = plain(types.unliteral(kinds[0]))
        return (types.uint64 if kind == types.uint64 else types.int64)(kind)
    if original in DIVMODS and len(kinds) == 2:
        result = _calculated(kinds)
        return types.UniTuple(result, 2)(result, result)
    if original in POWERS and len(kinds) == 2:
        result = _calculated(kinds)
        exponent = kinds[1]
        return result(result, exponent if isinstance(exponent, types.IntegerLiteral) else result)
    return None


def _converted(kinds: Any) -> Any:
    """Operands of other operations: a Python number beside an array takes the type of its elements."""
    found = list(map(plain, kinds))
    arrays = [kind for kind in kinds if isinstance(kind, types.Array)]
    if len(arrays) == 1 and len(kinds) == 2 and isinstance(arrays[0].dtype, types.Integer):
        number = kinds[0] if kinds[1] is arrays[0] else kinds[1]
        if isinstance(number, WeakInteger | types.IntegerLiteral):
            dtype = _calculated((arrays[0].dtype, number))
            return [kind if kind is arrays[0] else dtype for kind in kinds]
    return found


def _narrowed(original: Any, kinds: Any) -> Any:
    """Operands of an operator in a function without arguments wider than float32."""
    if original not in _NARROWED or len(kinds) != 2:
        return kinds
    left, right = kinds
    if isinstance(left, types.Integer) and (
        right in _SINGLE or (original in QUOTIENTS and isinstance(right, types.Integer))
    ):
        left = types.float32
    # Numba makes products of powers whose exponents are known.
    power = original in POWERS and isinstance(right, types.IntegerLiteral)
    if isinstance(right, types.Integer) and left in _SINGLE and not power:
        right = types.float32
    return left, right


def _register(original: Any, *, single: bool) -> StandIn:
    stand_in = StandIn(original)

    class _Template(AbstractTemplate):  # type: ignore[misc]
        key = stand_in
        prefer_literal = True

        def generic(self, args: Any, kws: Any) -> Any:
            if not kws:
                found = signature(original, args)
                if found is not None:
                    return found
                args = _converted(args)
                if single:
                    args = _narrowed(original, args)
            return self.context.resolve_function_type(original, tuple(args), kws)

    infer_global(stand_in, types.Function(_Template))

    @lower_builtin(stand_in, types.VarArg(types.Any))
    def _lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if signature(original, sig.args) is not None:
            return emit(context, builder, original, sig, args)
        function = context.typing_context.resolve_value_type(original)
        return context.get_function(function, sig)(builder, args)

    return stand_in


_ALL = [int, *ARITHMETIC, *COMPARISONS, *MINIMA, *MAXIMA, *DIVMODS, *POWERS, *QUOTIENTS]
stand_ins = {(original, single): _register(original, single=single) for original in _ALL for single in (False, True)}
"""Stand-ins by their original, and whether the function calculates with float32."""
INTEGER = frozenset([*ARITHMETIC, *POWERS])
"""Operations that make integers of integers."""
