"""`now` in compiled code. Imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from gondwana.apps.npb.cg import clock
from gondwana.jit.memory_order import declare

_INT, _INT32 = ir.IntType(64), ir.IntType(32)
_MONOTONIC = 1
"""CLOCK_MONOTONIC of Linux."""


@intrinsic  # type: ignore[untyped-decorator]
def _monotonic(typingctx: Any) -> Any:
    """Seconds and nanoseconds of the clock that nobody sets."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        spec = cgutils.alloca_once(builder, ir.ArrayType(_INT, 2))
        kind = ir.FunctionType(_INT32, [_INT32, spec.type])
        builder.call(declare(builder, "clock_gettime", kind), [ir.Constant(_INT32, _MONOTONIC), spec])
        parts = builder.load(spec)
        return context.make_tuple(builder, signature.return_type, [builder.extract_value(parts, i) for i in range(2)])

    return types.UniTuple(types.int64, 2)(), codegen


@overload(clock.now, jit_options={"forceinline": True, "error_model": "numpy"})  # type: ignore[untyped-decorator]
def _now() -> Any:
    def read() -> float:
        seconds, nanoseconds = _monotonic()
        return seconds + 1e-9 * nanoseconds  # type: ignore[no-any-return]

    return read
