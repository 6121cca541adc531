"""What `native` has, in compiled code: pointers into other ranks, how threads wait. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from gondwana.apps.hpcg import native
from gondwana.compiler.inlining import CALLED, INLINED, inlined
from gondwana.compiler.memory_order import fetch_add, load_acquire, pause, sched_yield, store_release
from gondwana.compiler.types.handle_types import with_word

_TURNS = 64
"""Bytes from the arrivals of a gate to its meetings."""
_PATIENCE = 1000
"""Looks before a waiting thread lets others have the core."""


@overload(native.at_rank, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _at_rank(ptr: Any, rank: Any) -> Any:
    def move(ptr: Any, rank: Any) -> Any:
        return with_word(ptr, 1, rank)

    return move


@overload(native.meet, jit_options=CALLED)  # type: ignore[untyped-decorator]
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
        _wait(address + _TURNS, turn + 1)

    return wait


@overload(native.publish, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _publish(progress: Any, place: Any, done: Any) -> Any:
    def store(progress: Any, place: Any, done: Any) -> None:
        store_release(progress.ctypes.data + 8 * place, done)

    return store


@overload(native.follow, jit_options=INLINED)  # type: ignore[untyped-decorator]
def _follow(progress: Any, place: Any, done: Any) -> Any:
    def wait(progress: Any, place: Any, done: Any) -> None:
        _wait(progress.ctypes.data + 8 * place, done)

    return wait


@inlined  # type: ignore[untyped-decorator]
def _wait(address: Any, least: Any) -> None:
    looks = 0
    while load_acquire(address) < least:
        looks += 1
        if looks > _PATIENCE:
            sched_yield()
        else:
            pause()
