"""Parts of reductions shared by host and devices: dtypes of partial results, neutral elements, combining functions.

Imports Numba. Each backend compiles the functions for itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from gondwana.errors import KernelError
from gondwana.kernels.foreach_kernels import value_is_lost


def check_no_value(name: str, value: Any) -> None:
    """Refuse kernels that return a value although nothing is folded. Local.

    Raises:
        KernelError: the kernel returns a value.
    """
    if not isinstance(value, types.NoneType):
        raise value_is_lost(name, str(types.unliteral(value)))


def check_value(name: str, value: Any) -> None:
    """Refuse kernels whose values cannot be folded. Local.

    Raises:
        KernelError: the kernel returns something other than a real number.
    """
    if not isinstance(value, types.Float | types.Integer | types.Boolean):
        raise KernelError(f"{name} returns {value}: a kernel of @gw.reduce returns a real number for each point")


def kind_of(value: Any) -> Any:
    """Return the Numba type in which values of a type are folded. Local."""
    if isinstance(value, types.Float):
        return types.float64
    return types.uint64 if value == types.uint64 else types.int64


def neutral(operation: str, kind: Any) -> float | int:
    """Return the start value of an operation. Local."""
    if operation in ("sum", "prod"):
        number = int(operation == "prod")
        return float(number) if kind == types.float64 else number
    if kind == types.float64:
        return np.inf if operation == "min" else -np.inf
    limits = np.iinfo(str(kind))
    return int(limits.max if operation == "min" else limits.min)


def _sum(a: Any, b: Any) -> Any:
    return a + b


def _product(a: Any, b: Any) -> Any:
    return a * b


def _smaller(a: Any, b: Any) -> Any:
    return a if a < b or a != a else b


def _larger(a: Any, b: Any) -> Any:
    return a if a > b or a != a else b


COMBINE = {"sum": _sum, "prod": _product, "min": _smaller, "max": _larger}
"""The functions that fold two numbers, by operation; a NaN wins."""


def digits_of(bits: int) -> Any:
    """Return the first digit that a finite float64 of these bits is added to, and the summands of it and the next two.

    Compiled by the backends; see `exact`.
    """
    exponent, mantissa = (bits >> 52) & 0x7FF, bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        mantissa |= 1 << 52
        exponent -= 1
    low = (mantissa & 0xFFFFFFFF) << (exponent & 31)
    high = ((mantissa >> 32) << (exponent & 31)) + ((low >> 32) & 0xFFFFFFFF)
    sign = -1 if bits < 0 else 1
    return exponent >> 5, sign * (low & 0xFFFFFFFF), sign * (high & 0xFFFFFFFF), sign * (high >> 32)
