"""NumPy's functions on global arrays, views and expressions: those that have a method or an expression here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gondwana.arrays.expressions.expression import Elementwise, isclose, where
from gondwana.arrays.expressions.operations import refusal
from gondwana.errors import UsageError

_METHODS: dict[Callable[..., Any], str] = {
    np.sum: "sum",
    np.prod: "prod",
    np.min: "min",
    np.amin: "min",
    np.max: "max",
    np.amax: "max",
    np.mean: "mean",
    np.var: "var",
    np.std: "std",
    np.any: "any",
    np.all: "all",
    np.argmin: "argmin",
    np.argmax: "argmax",
    np.copy: "copy",
    np.linalg.norm: "norm",
    np.vdot: "dot",
    np.allclose: "allclose",
}
_ATTRIBUTES: dict[Callable[..., Any], str] = {
    np.shape: "shape",
    np.ndim: "ndim",
    np.size: "size",
    np.real: "real",
    np.imag: "imag",
}
_ALONG_AXES = ("sum", "prod", "min", "max", "mean", "var", "std", "any", "all")
_OPTIONS = {"axis": _ALONG_AXES, "ddof": ("var", "std"), **dict.fromkeys(("rtol", "atol", "equal_nan"), ("allclose",))}
"""Options of NumPy's functions, and the methods that have them."""


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what corresponds to a function of NumPy. Reductions are collective over the team, others are local.

    Raises:
        TypeError: nothing does, or it lacks an option; raised before any communication.
    """
    name = f"{function.__module__}.{function.__name__}"
    own = _OWN.get(function)
    if own is not None:
        return own(*args, **kwargs)
    if function in _ATTRIBUTES and len(args) == 1 and not kwargs:
        return getattr(args[0], _ATTRIBUTES[function])
    method = _METHODS.get(function)
    if method is None:
        raise refusal(name)
    signature = inspect.signature(function)
    given = signature.bind(*args, **kwargs).arguments
    array = given.pop(next(iter(signature.parameters)))
    operands = [given.pop(operand) for operand in ("b",) if operand in given]
    options = {option: value for option, value in given.items() if value is not signature.parameters[option].default}
    for option in options:
        if method not in _OPTIONS.get(option, ()):
            raise refusal(f"{name} with {option}=")
    if not isinstance(array, Elementwise):  # np.vdot(number, T)
        raise refusal(f"{name} of a {type(array).__name__} and an array")
    return getattr(array, method)(*operands, **options)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    return a.clip(a_min if min is None else min, a_max if max is None else max)


def _dot(a: Any, b: Any) -> Any:
    if any(np.ndim(operand) != 1 for operand in (a, b)):
        raise refusal("numpy.dot of arrays of several axes, a matrix product (np.vdot and T.dot add over all cells),")
    return a.conj().dot(b)


def _where(condition: Any, *values: Any) -> Any:
    if len(values) != 2:
        raise refusal("numpy.where without values")
    return where(condition, *values)


def _array_equal(a1: Any, a2: Any) -> Any:
    return a1.shape == a2.shape and (a1 == a2).all()


def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    if not isinstance(a, Elementwise):
        raise UsageError(f"numpy.isclose({a!r}, T): give the array first, the number second")
    return isclose(a, b, rtol, atol, equal_nan)


_OWN: dict[Callable[..., Any], Callable[..., Any]] = {
    np.clip: _clip,
    np.dot: _dot,
    np.where: _where,
    np.array_equal: _array_equal,
    np.isclose: _isclose,
}
