"""Workarounds for what numba-cuda and NVVM do differently from Numba: exceptions, places of errors, remainders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core.errors import TypingError as NumbaTypingError
from numba.cuda.core.callconv import CUDACallConv
from numba.cuda.core.errors import TypingError

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
