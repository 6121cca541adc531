"""Plans in compiled code: `plan.start()`, `plan.wait()` and `plan.test()`. Imports Numba.

They call the machine code that Python calls, by its address, which the handle of a plan has.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload_method

from gondwana.compiler.inlining import INLINED
from gondwana.compiler.types.handle_types import family_type, handle_word

_FAMILY = family_type("plan")
_PLAN, _START, _FINISH = range(3)
_SPINS = 10_000
_INT = ir.IntType(64)


@intrinsic
def _call(typingctx: Any, address: Any, plan: Any, spins: Any) -> Any:
    """Call the function at an address; one that takes a single integer ignores the other."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = builder.inttoptr(values[0], ir.FunctionType(_INT, [_INT, _INT]).as_pointer())
        return builder.call(function, values[1:])

    return types.int64(types.int64, types.int64, types.int64), codegen


@overload_method(_FAMILY, "start", jit_options=INLINED)
def _start(plan: Any) -> Any:
    def run(plan: Any) -> None:
        _call(handle_word(plan, _START), handle_word(plan, _PLAN), 0)

    return run


@overload_method(_FAMILY, "wait", jit_options=INLINED)
def _wait(plan: Any) -> Any:
    def run(plan: Any) -> None:
        while _call(handle_word(plan, _FINISH), handle_word(plan, _PLAN), _SPINS) == 0:
            pass

    return run


@overload_method(_FAMILY, "test", jit_options=INLINED)
def _test(plan: Any) -> Any:
    def run(plan: Any) -> bool:
        return _call(handle_word(plan, _FINISH), handle_word(plan, _PLAN), 1) == 1  # type: ignore[no-any-return]

    return run
