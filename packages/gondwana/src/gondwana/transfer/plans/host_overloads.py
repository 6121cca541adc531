"""Plans in compiled code: `plan.start()`, `plan.wait()` and `plan.test()`. Imports Numba.

They call the machine code that Python calls, by its address, which the handle of a plan has.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload_method

from gondwana.compiler import timing_overloads as recording
from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import load_word, store_release
from gondwana.compiler.mpi.mpi_overloads import lend_arguments
from gondwana.compiler.types.handle_types import family_type, handle_word
from gondwana.runtime.tracing import recorder
from gondwana.sync.delivery_overloads import apply_what_arrives
from gondwana.transfer.host_copies_native import word_at
from gondwana.transfer.plans.host_native import COUNTED_AT, LENT, STARTED, WAITED

_FAMILY = family_type("plan")
_PLAN, _ADVANCE = range(2)
_SPINS, _WORD = 10_000, 8
_INT = ir.IntType(64)


@intrinsic
def _call(typingctx: Any, address: Any, plan: Any, spins: Any) -> Any:
    """Call the function at an address: `host_native.advance`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = builder.inttoptr(values[0], ir.FunctionType(_INT, [_INT, _INT]).as_pointer())
        return builder.call(function, values[1:])

    return types.int64(types.int64, types.int64, types.int64), codegen


@inlined
def _count_round(head: int) -> int:
    """Count a round that has been started, and return its number."""
    counter = word_at(head, COUNTED_AT)
    if counter != 0:
        store_release(counter, load_word(counter) + 1)
    return _round(head)  # type: ignore[no-any-return]


@inlined
def _round(head: int) -> int:
    counter = word_at(head, COUNTED_AT)
    return load_word(counter) if counter != 0 else -1


@inlined
def _nothing(head: int) -> int:
    return -1


_started, _current = (_nothing, _nothing) if recorder is None else (_count_round, _round)


@overload_method(_FAMILY, "start", jit_options=INLINED)
def _start(plan: Any) -> Any:
    def run(plan: Any) -> None:
        head, begin = handle_word(plan, _PLAN), recording.begin()
        if word_at(head, LENT) != 0:
            raise RuntimeError("this plan is still under way: call wait() before the next start()")
        store_release(head + LENT * _WORD, lend_arguments())
        _call(handle_word(plan, _ADVANCE), head, 0)
        recording.end(begin, word_at(head, STARTED), _started(head))

    return run


@overload_method(_FAMILY, "wait", jit_options=INLINED)
def _wait(plan: Any) -> Any:
    def run(plan: Any) -> None:
        head, begin = handle_word(plan, _PLAN), recording.begin()
        while _call(handle_word(plan, _ADVANCE), head, _SPINS) == 0:
            apply_what_arrives()
        recording.end(begin, word_at(head, WAITED), _current(head))

    return run


@overload_method(_FAMILY, "test", jit_options=INLINED)
def _test(plan: Any) -> Any:
    def run(plan: Any) -> bool:
        return _call(handle_word(plan, _ADVANCE), handle_word(plan, _PLAN), 1) == 1  # type: ignore[no-any-return]

    return run
