"""Counters of signals, as compiled code works on them. Imports Numba.

A channel of a rank is four lines of 64 bytes: `NEAR`, arrivals that ranks of the node have added; `FAR`, those that MPI
has added; `SEEN`, how many the owner has consumed, and `SPINS`, how often it looks before it yields its core. The first
two only grow, so nothing is ever reset across ranks.
"""

from __future__ import annotations

from gondwana.compiler.atomics import fetch_add
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_acquire, load_word, pause, sched_yield, store_release

NEAR, FAR, SEEN, SPINS, CHANNEL = 0, 64, 128, 136, 256


@inlined
def pending(line: int) -> int:
    """Arrivals that are not consumed yet; what their senders wrote before is visible."""
    return load_acquire(line + NEAR) + load_acquire(line + FAR) - load_word(line + SEEN)  # type: ignore[no-any-return]


@inlined
def consume(line: int, count: int) -> bool:
    """Consume arrivals if there are so many."""
    if pending(line) < count:
        return False
    store_release(line + SEEN, load_word(line + SEEN) + count)
    return True


@inlined
def relax(line: int, looks: int) -> None:
    """What to do after so many looks in vain."""
    if looks < load_word(line + SPINS):
        pause()
    else:
        sched_yield()


def take(line: int, count: int) -> int:
    """Consume arrivals: 1, or 0 if there are too few."""
    return 1 if consume(line, count) else 0


def take_soon(line: int, count: int, looks: int) -> int:
    """Consume arrivals: 1, or 0 if there are too few at each of so many looks."""
    for look in range(looks):
        if consume(line, count):
            return 1
        relax(line, look)
    return 0


def add(line: int, count: int) -> int:
    """Add arrivals for a rank of this node; what was written before is visible to who sees them."""
    fetch_add(line + NEAR, count)
    return 0


def count(line: int) -> int:
    """Arrivals that are not consumed yet."""
    return pending(line)  # type: ignore[no-any-return]
