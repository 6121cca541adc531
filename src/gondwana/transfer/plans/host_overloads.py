"""Plans in compiled code: `plan.start()`, `plan.wait()` and `plan.test()`. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.extending import overload_method

from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.types.handle_types import family_type, handle_word
from gondwana.transfer.plans import host_native

_FAMILY = family_type("plan")
_SPINS = 10_000

_begin, _finish = inlined(host_native.start), inlined(host_native.finish)


@overload_method(_FAMILY, "start", jit_options=INLINED)
def _start(plan: Any) -> Any:
    def run(plan: Any) -> None:
        _begin(handle_word(plan, 0))

    return run


@overload_method(_FAMILY, "wait", jit_options=INLINED)
def _wait(plan: Any) -> Any:
    def run(plan: Any) -> None:
        while _finish(handle_word(plan, 0), _SPINS) == 0:
            pass

    return run


@overload_method(_FAMILY, "test", jit_options=INLINED)
def _test(plan: Any) -> Any:
    def run(plan: Any) -> bool:
        return _finish(handle_word(plan, 0), 1) == 1  # type: ignore[no-any-return]

    return run
