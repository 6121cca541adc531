"""Machine code that works on the counters of signals. Imports Numba.

A channel of a rank is four lines of 64 bytes: `NEAR`, arrivals that ranks of the node have added; `FAR`, those that MPI
has added; `SEEN`, how many the owner has consumed, and `SPINS`, how often it polls before it yields the processor. The
first two only grow, so nothing is ever reset across ranks.
"""

from __future__ import annotations

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import fetch_add, load_acquire, load_word, pause, sched_yield, store_release
from gondwana.sync.rings_native import step
from gondwana.sync.signals import MOST

NEAR, FAR, SEEN, SPINS, CHANNEL = 0, 64, 128, 136, 256

_SIZE, _CHANNELS, _RANK, _BASES = 0, 8, 16, 24
"""Where in the table of a signal are: the ranks of its team, their channels, this rank, and where in this process the
counters of each rank begin, 0 if they are out of reach."""


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


@inlined
def _line(table: int, rank: int, channel: int, count: int) -> int:
    """Return the address of a channel of a rank, 0 if it is out of reach, there is none, or the count is illegal."""
    if rank < 0 or rank >= load_word(table + _SIZE) or channel < 0 or channel >= load_word(table + _CHANNELS):
        return 0
    base = load_word(table + _BASES + 8 * rank)
    return base + channel * CHANNEL if base != 0 and 0 <= count <= MOST else 0


_take_soon = inlined(take_soon)


@inlined
def add(line: int, count: int) -> None:
    """Add arrivals for a rank of this node; what was written before becomes visible with them."""
    fetch_add(line + NEAR, count)


def add_for(table: int, rank: int, count: int, channel: int) -> int:
    """Add arrivals for a rank: return 1, or 0 where nothing has been added, because `_line` has no address."""
    line = _line(table, rank, channel, count)
    if line == 0:
        return 0
    add(line, count)
    return 1


def take(table: int, count: int, channel: int, polls: int) -> int:
    """Consume arrivals at this rank: return 1, or 0: too few at each of a number of polls, or no such channel."""
    line = _line(table, load_word(table + _RANK), channel, count)
    return _take_soon(line, count, polls) if line != 0 else 0


_take = inlined(take)


def take_in_step(table: int, count: int, channel: int, polls: int) -> int:
    """Take arrivals as `take`, in a step of the log of events, whose address ends the table: see `runtime.ordering`."""
    step(load_word(table + _BASES + 8 * load_word(table + _SIZE)))
    return _take(table, count, channel, polls)  # type: ignore[no-any-return]


def count(line: int) -> int:
    """Return the number of arrivals that are not consumed."""
    return pending(line)  # type: ignore[no-any-return]
