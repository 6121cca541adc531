"""How compiled code says what it waits for, once a wait is long: see `runtime.watching.waits`. Imports Numba.

Loops that poll write it down each `LONG` polls, and that they have ended if they have written it. A call of MPI that
blocks writes it before, since it cannot while it polls: six stores, where the call takes a hundred times as long.
"""

from __future__ import annotations

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word, store_release
from gondwana.compiler.mpi.mpi_overloads import mpi_constant
from gondwana.compiler.mpi.table import WAITS
from gondwana.runtime.watching.waits import COMPILED

LONG = 1024
"""Polls after which a wait is written down, and between one time and the next: some ten microseconds at least."""

_WORD = 8
_area = mpi_constant(WAITS)


@inlined
def enter(kind: int, first: int, second: int, third: int, nbytes: int) -> None:
    """Write down what this rank begins to wait for.

    Args:
        kind: place of the kind in `waits.KINDS`.
        first: first word of what `waits.describe_by` has for this kind.
        second: second word.
        third: third word.
        nbytes: bytes of the message that is waited for.
    """
    area = _area()
    store_release(area + COMPILED.first * _WORD, first)
    store_release(area + COMPILED.second * _WORD, second)
    store_release(area + COMPILED.third * _WORD, third)
    store_release(area + COMPILED.nbytes * _WORD, nbytes)
    store_release(area + COMPILED.mark * _WORD, load_word(area + COMPILED.mark * _WORD) + 1)
    store_release(area + COMPILED.kind * _WORD, kind)


@inlined
def leave() -> None:
    """Write down that the wait is over."""
    store_release(_area() + COMPILED.kind * _WORD, 0)


@inlined
def note(polls: int, kind: int, first: int, second: int) -> None:
    """Write down what this rank waits for if it has polled for long. Arguments as for `enter`."""
    if polls % LONG == 0:
        if polls == LONG:
            enter(kind, first, second, 0, 0)
        count = _area() + COMPILED.rounds * _WORD
        store_release(count, load_word(count) + 1)


@inlined
def over(polls: int) -> None:
    """Write down that a wait is over that has polled so often."""
    if polls >= LONG:
        leave()
