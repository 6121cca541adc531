"""NumPy functions that numba-cuda types but cannot compile: np.sqrt, np.floor and others. Imports numba-cuda."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.errors import TypingError
from numba.cuda.mathimpl import get_unary_impl_for_fn_and_ty
from numba.cuda.np import ufunc_db
from numba.cuda.ufuncs import ufunc_db as functions_of_devices

_OF_MATH: dict[Any, Callable[[float], float]] = {
    np.sqrt: math.sqrt,
    np.exp: math.exp,
    np.expm1: math.expm1,
    np.log1p: math.log1p,
    np.fabs: math.fabs,
}
"""Those whose code for the host calls the C library, and what stands for them."""

_ABSENT = (np.exp2, np.ldexp, np.logaddexp, np.logaddexp2, np.nextafter, np.rint, np.spacing)
"""Those that nothing stands for."""


def _by_math(function: Callable[[float], float]) -> Any:
    def implementation(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return get_unary_impl_for_fn_and_ty(function, signature.args[0])(context, builder, signature, args)

    return implementation


class _Absent(dict[str, Any]):
    """The code of a function for all types: there is none."""

    def __init__(self, function: Any) -> None:
        self._name = function.__name__

    def get(self, types: str, default: Any = None) -> Any:
        raise TypingError(f"np.{self._name} is not there on devices: use a function of math, or arithmetic")


def _complete() -> None:
    known = functions_of_devices()
    for function in ufunc_db.get_ufuncs():
        known.setdefault(function, _Absent(function) if function in _ABSENT else ufunc_db.get_ufunc_info(function))
    for function, stand_in in _OF_MATH.items():
        known[function] = dict.fromkeys(("f->f", "d->d"), _by_math(stand_in))


_complete()
