"""`gw.signal`, `gw.wait` and `signal.at` in compiled code. Imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload, overload_method

from gondwana.compiler import timing_overloads as recording
from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.mpi.mpi_overloads import mpi_constant
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.handle_types import advise, family_type, handle_word, is_handle
from gondwana.compiler.waits_overloads import note, over
from gondwana.memory.segment import TABLE_HEAD
from gondwana.runtime.tracing.part import SIGNAL_WAIT
from gondwana.runtime.watching.waits import KINDS, SIGNAL
from gondwana.sync import signals
from gondwana.sync.delivery_overloads import apply_what_arrives, send_arrivals
from gondwana.sync.mpi_atomics import accumulate
from gondwana.sync.signals_native import CHANNEL, FAR, SPINS, add, consume, relax

_TABLE, _CHANNELS = 0, 1
_WORD = 8
_POLLS_BETWEEN_PROBES = 4
_SIGNAL = KINDS.index(SIGNAL)

advise("signal", wait="gw.wait(signal, n, channel)", add="gw.signal(signal, rank, n, channel)")

_sum = mpi_constant("SUM")


@inlined
def _check(signal: Any, rank: int, n: int, channel: int) -> None:
    if rank < 0 or rank >= load_word(handle_word(signal, _TABLE)):
        raise IndexError("gw.signal: there is no such rank in the team of the signal")
    if channel < 0 or channel >= handle_word(signal, _CHANNELS):
        raise IndexError("gw.signal or gw.wait: the signal has no such channel")
    if n < 0 or n > signals.MOST:
        raise ValueError("gw.signal or gw.wait: the number of arrivals is not between 0 and 2**31 - 1")


@inlined
def _base(signal: Any, rank: int) -> int:
    """Return the address of a rank's counters in this process, 0 if they are on another node."""
    return load_word(handle_word(signal, _TABLE) + (TABLE_HEAD + rank) * _WORD)  # type: ignore[no-any-return]


@inlined
def _add_far(signal: Any, rank: int, n: int, channel: int) -> None:
    table = handle_word(signal, _TABLE)
    if not send_arrivals(table, rank, channel, n):
        accumulate(load_word(table + _WORD), rank, channel * CHANNEL + FAR, np.int64(n), _sum())


@inlined
def _refuse_far(signal: Any, rank: int, n: int, channel: int) -> None:
    raise RuntimeError("gw.signal: the memory of the rank is not mapped on this node")


@inlined
def _do_nothing() -> None:
    pass


@overload(signals.signal, strict=False, jit_options=INLINED)
def _signal(target: Any, rank: Any, n: Any = 1, channel: Any = 0) -> Any:
    if not is_handle(target, "signal"):
        return None
    add_far = _add_far if _spans_nodes(target) else _refuse_far

    def run(target: Any, rank: Any, n: Any = 1, channel: Any = 0) -> None:
        _check(target, rank, n, channel)
        reports.report(reports.ADD, handle_word(target, _TABLE), rank, channel, n)
        recording.sent(load_word(handle_word(target, _TABLE) + 3 * _WORD), rank, 0)
        base = _base(target, rank)
        if base:
            add(base + channel * CHANNEL, n)
        else:
            add_far(target, rank, n, channel)

    return run


@overload_method(family_type("signal"), "at", jit_options=INLINED)
def _at(target: Any, rank: Any, channel: Any = 0) -> Any:
    def counter(target: Any, rank: Any, channel: Any = 0) -> Any:
        _check(target, rank, 1, channel)
        return target, rank, channel

    return counter


@overload(signals.wait, strict=False, jit_options=INLINED)
def _wait(source: Any, n: Any = 1, channel: Any = 0) -> Any:
    if not is_handle(source, "signal"):
        return None
    receive = apply_what_arrives if _spans_nodes(source) else _do_nothing

    def run(source: Any, n: Any = 1, channel: Any = 0) -> None:
        rank = load_word(handle_word(source, _TABLE) + 2 * _WORD)
        _check(source, rank, n, channel)
        line = _base(source, rank) + channel * CHANNEL
        polls, begin = 0, recording.begin()
        while not consume(line, n):
            relax(line, polls)
            polls += 1
            if polls % _POLLS_BETWEEN_PROBES == 0 or polls > load_word(line + SPINS):
                receive()
            note(polls, _SIGNAL, line, n)
        over(polls)
        reports.report(reports.WAIT, handle_word(source, _TABLE), rank, channel, n)
        recording.end(begin, SIGNAL_WAIT, -1)

    return run


def _spans_nodes(kind: Any) -> bool:
    return bool(kind.parameters == ("nodes",))
