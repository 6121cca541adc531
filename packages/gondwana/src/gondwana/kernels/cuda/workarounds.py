"""Workarounds for what numba-cuda and NVVM do differently from Numba.

Exceptions, the places of errors, remainders, and functions of NumPy that are typed but cannot be compiled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core.errors import TypingError as NumbaTypingError
from numba.cuda.core.callconv import CUDACallConv
from numba.cuda.core.errors import TypingError
from numba.cuda.mathimpl import get_unary_impl_for_fn_and_ty
from numba.cuda.np import ufunc_db
from numba.cuda.ufuncs import ufunc_db as functions_of_devices

_REMAINDER = re.compile(r"frem (float|double) ([^,]+), (\S+)")


class StoppingConvention(CUDACallConv):  # type: ignore[misc]
    """Exceptions stop the device: nothing there can raise them, and to go on would be silently wrong.

    numba-cuda ignores them without debug=True: https://github.com/NVIDIA/numba-cuda/issues/388
    """

    def return_user_exc(self, builder: Any, *about: Any, **more: Any) -> None:
        """Stop; the host learns of it from the next call that waits."""
        builder.call(ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "trap;", "", side_effect=True), [])
        super().return_user_exc(builder, *about, **more)


@contextmanager
def own_errors(typing: Any) -> Iterator[None]:
    """Turn errors of Numba's types into those of numba-cuda, which adds the place in the source to its own only.

    Which of the two is raised varies: https://github.com/NVIDIA/numba-cuda/pull/634
    """
    before = {name: getattr(typing, name) for name in ("resolve_function_type", "resolve_setitem")}
    for name, resolve in before.items():
        setattr(typing, name, _with_own_errors(resolve))
    try:
        yield
    finally:
        for name, resolve in before.items():
            setattr(typing, name, resolve)


_depth = 0
"""How many calls are being resolved, one inside of the other, since the code of a user's function is looked at."""


def _with_own_errors(resolve: Callable[..., Any]) -> Callable[..., Any]:
    def resolved(*given: Any) -> Any:
        global _depth
        _depth += 1
        try:
            return resolve(*given)
        except NumbaTypingError as error:
            # Inside of what Numba tries in turn, an error taken up would have it try all the more.
            if _depth > 1 or isinstance(error, TypingError):
                raise
            raise TypingError(str(error)) from None
        finally:
            _depth -= 1

    return resolved


@contextmanager
def users_code() -> Iterator[None]:
    """Have errors say where they belong in a user's function that is compiled meanwhile."""
    global _depth
    before, _depth = _depth, 0
    try:
        yield
    finally:
        _depth = before


def with_exact_remainders(module: str) -> str:
    """Have remainders of floats computed by libdevice, exactly; for NVVM they are x - trunc(x / y) * y.

    LLVM's own expansion for PTX is not accurate: https://github.com/llvm/llvm-project/pull/224141
    """
    names = {"float": "__nv_fmodf", "double": "__nv_fmod"}
    module = _REMAINDER.sub(lambda m: f'call {m[1]} @"{names[m[1]]}"({m[1]} {m[2]}, {m[1]} {m[3]})', module)
    for kind, name in names.items():
        if f'call {kind} @"{name}"' in module and f'declare {kind} @"{name}"' not in module:
            module += f'\ndeclare {kind} @"{name}"({kind}, {kind})\n'
    return module


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
        raise NumbaTypingError(f"np.{self._name} is not there on devices: use a function of math, or arithmetic")


def _complete() -> None:
    known = functions_of_devices()
    for function in ufunc_db.get_ufuncs():
        known.setdefault(function, _Absent(function) if function in _ABSENT else ufunc_db.get_ufunc_info(function))
    for function, stand_in in _OF_MATH.items():
        known[function] = dict.fromkeys(("f->f", "d->d"), _by_math(stand_in))


_complete()
