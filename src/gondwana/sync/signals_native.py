"""Machine code that works on the counters of signals. Imports Numba.

A channel of a rank is four lines of 64 bytes: `NEAR`, arrivals that ranks of the node have added; `FAR`, those that MPI
has added; `SEEN`, how many the owner has consumed, and `SPINS`, how often it polls before it yields the processor. The
first two only grow, so nothing is ever reset across ranks.
"""

from __future__ import annotations

from gondwana.compiler.atomics import fetch_add
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_acquire, load_word, pause, sched_yield, store_release

NEAR, FAR, SEEN, SPINS, CHANNEL = 0, 64, 128, 136, 256


@inlined
def pending(line: int) -> int:
    """Return the number of arrivals that are not consumed; what their senders wrote before is visible."""
    return load_acquire(line + NEAR) + load_acquire(line + FAR) - load_word(line + SEEN)  # type: ignore[no-any-return]


@inlined
def consume(line: int, count: int) -> bool:
    """Consume a number of arrivals if there are as many; return whether it did."""
    if pending(line) < count:
        return False
    store_release(line + SEEN, load_word(line + SEEN) + count)
    return True


@inlined
def relax(line: int, polls: int) -> None:
    """Pause between polls, or yield the processor after many failed ones."""
    if polls < load_word(line + SPINS):
        pause()
    else:
        sched_yield()


def take_soon(line: int, count: int, polls: int) -> int:
    """Consume arrivals: return 1, or 0 if there are too few at each of a number of polls."""
    for poll in range(polls):
        if consume(line, count):
            return 1
        relax(line, poll)
    return 0


def add(line: int, count: int) -> int:
    """Add arrivals for a rank of this node; what was written before becomes visible with them."""
    fetch_add(line + NEAR, count)
    return 0


def count(line: int) -> int:
    """Return the number of arrivals that are not consumed."""
    return pending(line)  # type: ignore[no-any-return]
