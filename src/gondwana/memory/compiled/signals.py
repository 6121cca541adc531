"""`gw.signal` and `gw.wait` in compiled code. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from gondwana.jit.handle_types import handle_word, is_handle
from gondwana.jit.memory_order import inlined, load_word
from gondwana.memory import signals
from gondwana.memory.native_signals import CHANNEL, add, consume, relax
from gondwana.memory.segment import TABLE_HEAD

_TABLE, _CHANNELS = 0, 1
_WORD = 8
_add = inlined(add)


@inlined
def _line(signal: Any, rank: int, channel: int) -> int:
    """Address of a counter in this process, 0 if it is on another node."""
    table = handle_word(signal, _TABLE)
    if rank < 0 or rank >= load_word(table):
        raise IndexError("gw.signal: there is no such rank in the team of the signal")
    if channel < 0 or channel >= handle_word(signal, _CHANNELS):
        raise IndexError("gw.signal or gw.wait: the signal has no such channel")
    base = load_word(table + (TABLE_HEAD + rank) * _WORD)
    return base + channel * CHANNEL if base else 0


@overload(signals.signal)
def _signal(target: Any, rank: Any, n: Any = 1, channel: Any = 0) -> Any:
    if not is_handle(target, "signal"):
        return None

    def run(target: Any, rank: Any, n: Any = 1, channel: Any = 0) -> Any:
        line = _line(target, rank, channel)
        if line == 0:
            raise RuntimeError("gw.signal: the rank is on another node")
        _add(line, n)

    return run


@overload(signals.wait)
def _wait(source: Any, n: Any = 1, channel: Any = 0) -> Any:
    if not is_handle(source, "signal"):
        return None

    def run(source: Any, n: Any = 1, channel: Any = 0) -> Any:
        line = _line(source, load_word(handle_word(source, _TABLE) + 2 * _WORD), channel)
        looks = 0
        while not consume(line, n):
            relax(line, looks)
            looks += 1

    return run
