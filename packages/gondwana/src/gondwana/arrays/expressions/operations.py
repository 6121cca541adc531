"""Operations on the elements of global arrays: NumPy's rules for their types, and how compiled code spells them.

A form is text of Python, in which `{0}`, `{1}` and so on stand for the names of the operands, `{v}` for that of the
result and, until an operation is made of it, `{k}` for the type in which it calculates. It uses what Numba compiles for
the processor and for GPUs alike. Values are NumPy's, bit by bit, except where a library of functions, such as that of
`exp`, rounds differently.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gondwana.compiler.types.arguments import dtype_name
from gondwana.compiler.types.records import spelled
from gondwana.errors import KernelError, UsageError


class Operation(NamedTuple):
    """An operation on elements of known types.

    Attributes:
        form: its text.
        operands: types to which the operands are cast.
        dtype: type of the result.
    """

    form: str
    operands: tuple[np.dtype[Any], ...]
    dtype: np.dtype[Any]


def _for(kinds: str, form: str) -> dict[str, str]:
    """One form for several kinds of dtype: `b`ool, `i`nteger, `f`loat, `c`omplex."""
    return dict.fromkeys(kinds, form)


_FLOOR_DIVIDE = (
    "{v}m = np.fmod({0}, {1}); "
    "{v}d = ({0} - {v}m) / {1}; "
    "{v}d = {v}d - {k}(1) if {v}m != 0 and ({1} < 0) != ({v}m < 0) else {v}d; "
    "{v}f = np.floor({v}d); "
    "{v}f = {v}f + {k}(1) if {v}d - {v}f > {k}(0.5) else {v}f; "
    "{v} = {0} / {1} if {1} == 0 else np.copysign({k}(0), {0} / {1}) if {v}d == 0 else {v}f"
)
_REMAINDER = (
    "{v}m = np.fmod({0}, {1}); "
    "{v} = {v}m if {1} == 0 else np.copysign({k}(0), {1}) if {v}m == 0 else "
    "{v}m + {1} if ({1} < 0) != ({v}m < 0) else {v}m"
)
_COMPLEX_DIVIDE = (  # after Smith, as NumPy: the larger part of the divisor is divided by, and 0 / 0 is NaN
    "{v}w = abs({1}.real) >= abs({1}.imag); "
    "{v}p = {1}.real if {v}w else {1}.imag; "
    "{v}q = {1}.imag if {v}w else {1}.real; "
    "{v}t = {v}q / {v}p if {v}p != 0 else {v}q; "
    "{v}s = 1 / ({v}p + {v}q * {v}t) if {v}p != 0 else 1 / abs({v}p); "
    "{v}x = ({0}.real + {0}.imag * {v}t if {v}w else {0}.real * {v}t + {0}.imag) * {v}s; "
    "{v}y = ({0}.imag - {0}.real * {v}t if {v}w else {0}.imag * {v}t - {0}.real) * {v}s; "
    "{v} = {k}(complex({v}x, {v}y))"
)
_ORDERED = "bif"
_FORMS: dict[Any, dict[str, str]] = {
    np.add: _for("b", "{0} | {1}") | _for("ifc", "{0} + {1}"),
    np.subtract: _for("ifc", "{0} - {1}"),
    np.multiply: _for("b", "{0} & {1}") | _for("ifc", "{0} * {1}"),
    np.divide: _for("f", "{0} / {1}") | _for("c", _COMPLEX_DIVIDE),
    np.floor_divide: _for("i", "{0} // {1}") | _for("f", _FLOOR_DIVIDE),
    np.remainder: _for("i", "{0} % {1}") | _for("f", _REMAINDER),
    np.fmod: _for("if", "np.fmod({0}, {1})"),
    np.power: _for("if", "{0} ** {1}"),
    np.float_power: _for("f", "{0} ** {1}"),
    np.negative: _for("ifc", "-{0}"),
    np.positive: _for("ifc", "{0}"),
    np.absolute: _for("b", "{0}") | _for("if", "abs({0})") | _for("c", "np.hypot({0}.real, {0}.imag)"),
    np.fabs: _for("f", "abs({0})"),
    np.square: _for("ifc", "{0} * {0}"),
    np.reciprocal: _for("f", "{k}(1) / {0}"),
    np.sign: _for("i", "{k}(1) if {0} > 0 else {k}(-1) if {0} < 0 else {k}(0)")
    | _for("f", "{k}(1) if {0} > 0 else {k}(-1) if {0} < 0 else {0} if {0} != {0} else {k}(0)"),
    np.conjugate: _for("if", "{0}") | _for("c", "{0}.conjugate()"),
    np.equal: _for("bifc", "{0} == {1}"),
    np.not_equal: _for("bifc", "{0} != {1}"),
    np.less: _for(_ORDERED, "{0} < {1}"),
    np.less_equal: _for(_ORDERED, "{0} <= {1}"),
    np.greater: _for(_ORDERED, "{0} > {1}"),
    np.greater_equal: _for(_ORDERED, "{0} >= {1}"),
    np.maximum: _for("bi", "{0} if {0} >= {1} else {1}") | _for("f", "{0} if ({0} >= {1}) | ({0} != {0}) else {1}"),
    np.minimum: _for("bi", "{0} if {0} <= {1} else {1}") | _for("f", "{0} if ({0} <= {1}) | ({0} != {0}) else {1}"),
    np.fmax: _for("bi", "{0} if {0} >= {1} else {1}") | _for("f", "{0} if ({0} >= {1}) | ({1} != {1}) else {1}"),
    np.fmin: _for("bi", "{0} if {0} <= {1} else {1}") | _for("f", "{0} if ({0} <= {1}) | ({1} != {1}) else {1}"),
    np.logical_and: _for("b", "{0} & {1}") | _for("ifc", "({0} != 0) & ({1} != 0)"),
    np.logical_or: _for("b", "{0} | {1}") | _for("ifc", "({0} != 0) | ({1} != 0)"),
    np.logical_xor: _for("b", "{0} != {1}") | _for("ifc", "({0} != 0) != ({1} != 0)"),
    np.logical_not: _for("b", "not {0}") | _for("ifc", "{0} == 0"),
    np.bitwise_and: _for("bi", "{0} & {1}"),
    np.bitwise_or: _for("bi", "{0} | {1}"),
    np.bitwise_xor: _for("b", "{0} != {1}") | _for("i", "{0} ^ {1}"),
    np.invert: _for("b", "not {0}") | _for("i", "~{0}"),
    np.left_shift: _for("i", "{0} << {1}"),
    np.right_shift: _for("i", "{0} >> {1}"),
    np.isnan: _for("bi", "False") | _for("f", "{0} != {0}") | _for("c", "{0} != {0}"),
    np.isfinite: _for("bi", "True")
    | _for("f", "{0} - {0} == 0")
    | _for("c", "({0}.real - {0}.real == 0) & ({0}.imag - {0}.imag == 0)"),
    np.isinf: _for("bi", "False")
    | _for("f", "abs({0}) == np.inf")
    | _for("c", "(abs({0}.real) == np.inf) | (abs({0}.imag) == np.inf)"),
    np.signbit: _for("f", "np.copysign({k}(1), {0}) < 0"),
    np.exp2: _for("f", "{k}(2) ** {0}"),
    **{
        function: _for("f", f"np.{function.__name__}({{0}}, {{1}})") for function in (np.copysign, np.arctan2, np.hypot)
    },
    **{
        function: _for("fc", f"np.{function.__name__}({{0}})") for function in (np.sqrt, np.exp, np.log, np.sin, np.cos)
    },
    **{
        function: _for("f", f"np.{function.__name__}({{0}})") | _for("bi", "{0}")
        for function in (np.floor, np.ceil, np.trunc)
    },
    **{
        function: _for("f", f"np.{function.__name__}({{0}})")
        for function in (
            *(np.expm1, np.log2, np.log10, np.log1p, np.tan, np.arcsin, np.arccos, np.arctan),
            *(np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh),
        )
    },
}
"""The forms of each function by the kind of the dtype in which it calculates."""

COMPARISONS = frozenset([np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal])

BOOL = np.dtype(bool)


@functools.lru_cache(1 << 12)
def operation(function: Any, kinds: tuple[Any, ...]) -> Operation:
    """Return what one of NumPy's functions does with elements of these types. Local.

    Args:
        function: a ufunc, or `np.where`.
        kinds: for each operand its dtype, or Python's `int`, `float` or `complex`, which take that of the others.

    Raises:
        TypeError: global arrays have no such function.
        UsageError: they have none for these types.
    """
    if function is np.where:
        common = np.result_type(*(kind if isinstance(kind, np.dtype) else kind(0) for kind in kinds[1:]))
        return Operation("{1} if {0} else {2}", (BOOL, common, common), common)
    name = f"numpy.{function.__name__}"
    forms = _FORMS.get(function)
    if forms is None:
        raise refusal(name)
    try:
        *operands, result = function.resolve_dtypes((*kinds, None))
    except TypeError:
        given = ", ".join(spelled(kind) if isinstance(kind, np.dtype) else kind.__name__ for kind in kinds)
        raise UsageError(f"{name} of {given}: NumPy has no such operation either; astype gives other types") from None
    form = forms.get("i" if operands[0].kind == "u" else operands[0].kind)
    check_element(result, name)
    if form is None or not {kind.itemsize for kind in operands} <= {1, 2, 4, 8, 16} or np.dtype("f2") in operands:
        raise UsageError(
            f"{name} of {spelled(operands[0])} is not among the operations on global arrays: use astype, or a "
            "kernel of gw.foreach"
        )
    return Operation(form.replace("{k}", f"np.{operands[0].name}"), tuple(operands), result)


def exact_comparison(function: Any, operands: tuple[Any, ...], kinds: tuple[Any, ...], found: Operation) -> Operation:
    """Return a comparison with a Python integer, which has 64 bits if it does not fit the other operand. Local.

    Args:
        function: NumPy's function.
        operands: the operands.
        kinds: their kinds, as for `operation`.
        found: the comparison as of other numbers.
    """
    place = 0 if kinds[0] is int else 1
    value, dtype = operands[place], found.operands[place]
    if dtype.kind not in "iu" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return found
    wide = np.dtype(np.int64 if value < 0 else np.uint64)
    return operation(function, (*kinds[:place], wide, *kinds[place + 1 :]))


def check_element(dtype: np.dtype[Any], what: str) -> None:
    """Refuse a dtype of results that no global array has. Local.

    Args:
        dtype: the dtype.
        what: the operation, for the message.

    Raises:
        UsageError: compiled code does not know the dtype, or it is of records.
    """
    try:
        known = dtype_name(dtype)
    except KernelError:
        known = ""
    if not known or dtype.names is not None:
        raise UsageError(
            f"{what} would have elements of {spelled(dtype)}: use astype to get a bool, an integer, float32, float64, "
            "complex64 or complex128 before; for fields of records, a kernel of gw.foreach"
        )


def check_real(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse to convert complex numbers to real ones. Local.

    Raises:
        UsageError: the first dtype is complex and the other is not.
    """
    if source.kind == "c" and target.kind not in "cb":
        raise UsageError(f"{source} would lose its imaginary parts as {target}: use .real")


def cast(name: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """Return the text of a conversion as NumPy's `astype` makes it. Local.

    Args:
        name: name of the value.
        source: its dtype.
        target: dtype that it gets, not a real one for complex numbers.
    """
    if source == target:
        return name
    if target.kind == "b":
        return f"({name} != 0)"
    if target.kind == "c" and source.kind in "biu":
        name = f"np.float64({name})"
    return f"np.{target.name}({name})"


def refusal(what: str) -> TypeError:
    """Return the error of an operation that needs the cells of a global array in one place. Local."""
    return TypeError(
        f"{what} is not defined on a GlobalArray T, whose cells are divided over ranks: use T.values (this rank's "
        "cells as an ndarray), T.local (with ghosts, in global coordinates), T.block(rank), T.to_numpy() (all cells, a "
        "copy, collective), gw.copy to another global array, or a kernel of @gw.foreach; NumPy's functions that work "
        "cell by cell, and np.sum, min, max, mean and the like, work on all cells"
    )
