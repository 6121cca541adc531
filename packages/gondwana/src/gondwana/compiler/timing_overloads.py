"""`clock` in compiled code. Imports Numba."""

from __future__ import annotations

import time
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from gondwana.compiler.inlining import INLINED
from gondwana.compiler.memory_order import declare
from gondwana.compiler.timing import clock

_INT, _INT32 = ir.IntType(64), ir.IntType(32)
_BILLION = 10**9


@intrinsic
def monotonic(typingctx: Any) -> Any:
    """Read the seconds and nanoseconds of CLOCK_MONOTONIC as one number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = cgutils.alloca_once(builder, ir.ArrayType(_INT, 2))
        function = declare(builder, "clock_gettime", ir.FunctionType(_INT32, [_INT32, _INT.as_pointer()]))
        words = builder.bitcast(place, _INT.as_pointer())
        builder.call(function, [ir.Constant(_INT32, time.CLOCK_MONOTONIC), words])
        seconds, rest = (builder.load(builder.gep(words, [ir.Constant(_INT32, word)])) for word in range(2))
        return builder.add(builder.mul(seconds, ir.Constant(_INT, _BILLION)), rest)

    return types.int64(), codegen


@overload(clock, jit_options=INLINED)
def _clock() -> Any:
    def read() -> int:
        return monotonic()  # type: ignore[no-any-return]

    return read
