"""What `native` has, in compiled code: a clock, pointers into other ranks, where threads meet. Imports Numba."""

from __future__ import annotations

import time
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from gondwana.apps.hpcg import native
from gondwana.jit.handle_types import with_word
from gondwana.jit.memory_order import declare, fetch_add, load_acquire, pause, sched_yield, store_release

_INT, _INT32 = ir.IntType(64), ir.IntType(32)
_BILLION = 10**9
_TURNS = 64
"""Bytes from the arrivals of a gate to its meetings."""
_PATIENCE = 1000
"""Looks before a waiting thread lets others have the core."""
_OPTIONS = {"forceinline": True, "error_model": "numpy"}


@intrinsic  # type: ignore[untyped-decorator]
def _monotonic(typingctx: Any) -> Any:
    """Read the seconds and nanoseconds of CLOCK_MONOTONIC as one number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = cgutils.alloca_once(builder, ir.ArrayType(_INT, 2))
        function = declare(builder, "clock_gettime", ir.FunctionType(_INT32, [_INT32, _INT.as_pointer()]))
        words = builder.bitcast(place, _INT.as_pointer())
        builder.call(function, [ir.Constant(_INT32, time.CLOCK_MONOTONIC), words])
        seconds, rest = (builder.load(builder.gep(words, [ir.Constant(_INT32, word)])) for word in range(2))
        return builder.add(builder.mul(seconds, ir.Constant(_INT, _BILLION)), rest)

    return types.int64(), codegen


@overload(native.nanoseconds, jit_options=_OPTIONS)  # type: ignore[untyped-decorator]
def _nanoseconds() -> Any:
    def read() -> int:
        return _monotonic()  # type: ignore[no-any-return]

    return read


@overload(native.at_rank, jit_options=_OPTIONS)  # type: ignore[untyped-decorator]
def _at_rank(ptr: Any, rank: Any) -> Any:
    def move(ptr: Any, rank: Any) -> Any:
        return with_word(ptr, 1, rank)

    return move


@overload(native.meet, jit_options={"error_model": "numpy"})  # type: ignore[untyped-decorator]
def _meet(gate: Any, threads: Any) -> Any:
    def wait(gate: Any, threads: Any) -> None:
        if threads == 1:
            return
        address = gate.ctypes.data
        turn = load_acquire(address + _TURNS)
        if fetch_add(address, 1) == threads - 1:
            store_release(address, 0)
            store_release(address + _TURNS, turn + 1)
            return
        looks = 0
        while load_acquire(address + _TURNS) == turn:
            looks += 1
            if looks > _PATIENCE:
                sched_yield()
            else:
                pause()

    return wait
