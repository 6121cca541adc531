"""Plans in compiled code: `plan.start()`, `plan.wait()` and `plan.test()`. Imports Numba.

They call the machine code that Python calls, by its address, which the handle of a plan has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import overload_method

from gondwana.compiler import timing_overloads as recording
from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import bits_of, call_at, load_word, sched_yield, store_release
from gondwana.compiler.mpi.mpi_overloads import lend_arguments
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.handle_types import family_type, handle_word
from gondwana.compiler.waits_overloads import LONG, note, over
from gondwana.runtime.tracing import recorder
from gondwana.runtime.watching.waits import EXCHANGE, KINDS
from gondwana.sync.delivery_overloads import apply_what_arrives
from gondwana.transfer.host_copies_native import word_at
from gondwana.transfer.plans.host import HEAD, RAISED

_FAMILY = family_type("plan")
_EXCHANGE = KINDS.index(EXCHANGE)
_PLAN, _ADVANCE = range(2)
_SPINS, _RESTS, _WORD = 10_000, 100, 8


@inlined
def _count_round(head: int) -> int:
    """Count a round that has been started, and return its number."""
    counter = word_at(head, HEAD.counted_at)
    if counter != 0:
        store_release(counter, load_word(counter) + 1)
    return _round(head)  # type: ignore[no-any-return]


@inlined
def _round(head: int) -> int:
    counter = word_at(head, HEAD.counted_at)
    return load_word(counter) if counter != 0 else -1


@inlined
def _nothing(head: int) -> int:
    return -1


_started, _current = (_nothing, _nothing) if recorder is None else (_count_round, _round)


@inlined
def _advance(plan: Any, spins: int) -> int:
    found = call_at(handle_word(plan, _ADVANCE), handle_word(plan, _PLAN), spins)
    if found == RAISED:
        raise RuntimeError("a kernel raised that fills walls in an exchange; start() and wait() in Python say more")
    if found < 0:
        raise RuntimeError("MPI failed to exchange the messages of a plan; start() and wait() in Python say more")
    return found  # type: ignore[no-any-return]


@inlined
def _take_over(head: int) -> None:
    """Go on with a round that Python may have started, whose kernels all run in compiled code now."""
    if word_at(head, HEAD.lent) == 0:
        store_release(head + HEAD.lent * _WORD, lend_arguments())


@overload_method(_FAMILY, "start", jit_options=INLINED)
def _start(plan: Any, time: Any = None) -> Any:
    needed, given = (
        "timed" in plan.parameters,
        time is not None and not isinstance(time, types.NoneType | types.Omitted),
    )
    if needed != given:
        raise TypingError(f"start({'time): a' if needed else '): no'} wall of these arrays depends on the time")

    def run(plan: Any, time: Any = None) -> None:
        head, begin = handle_word(plan, _PLAN), recording.begin()
        if word_at(head, HEAD.lent) != 0:
            raise RuntimeError("this plan is still under way: call wait() before the next start()")
        store_release(head + HEAD.lent * _WORD, lend_arguments())
        if given:
            store_release(head + HEAD.time * _WORD, bits_of(np.float64(time)))
        reports.report(reports.START, head, 0, 0, 0)
        _advance(plan, 0)
        recording.end(begin, word_at(head, HEAD.started), _started(head))

    return run


@overload_method(_FAMILY, "wait", jit_options=INLINED)
def _wait(plan: Any) -> Any:
    def run(plan: Any) -> None:
        head, begin = handle_word(plan, _PLAN), recording.begin()
        rests, polls = _RESTS, 0
        _take_over(head)
        while _advance(plan, _SPINS) == 0:
            apply_what_arrives()
            rests -= 1
            polls += LONG  # it has polled more often
            note(polls, _EXCHANGE, head, 0)
            if rests < 0:
                sched_yield()  # another rank may need this core to send
        reports.report(reports.FINISH, head, 0, 0, 0)
        over(polls)
        recording.end(begin, word_at(head, HEAD.waited), _current(head))

    return run


@overload_method(_FAMILY, "test", jit_options=INLINED)
def _test(plan: Any) -> Any:
    def run(plan: Any) -> bool:
        _take_over(handle_word(plan, _PLAN))
        done = _advance(plan, 1) == 1
        if done:
            reports.report(reports.FINISH, handle_word(plan, _PLAN), 0, 0, 0)
        return done  # type: ignore[no-any-return]

    return run
