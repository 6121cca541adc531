"""The handshakes of a plan around its copies: Python source that is compiled once. Imports Numba."""

from __future__ import annotations

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import fetch_add_word, load_acquire, pause, sched_yield, store_release
from gondwana.transfer.host_copies_native import execute_rows, word_at

_WORD = 8

# The words of a link (one neighbour in shared memory), see `host`.
ENTER_OUT, ENTER_IN, READY_OUT, READY_IN, FIRST, LAST, PUSHED = range(7)
LINK = 7
# The words at the head of a plan: rounds so far, neighbours, address of the links, of the rows, number of rows of own
# copies; for a trace: address of the word that counts rounds or 0, names of the spans that begin and end a round; where
# a round that compiled code has started is counted as a user of memory of Python's objects (see `mpi.objects`), else 0.
ROUND, LINKS, LINKS_AT, ROWS_AT, OWN, COUNTED_AT, STARTED, WAITED, LENT = range(9)
_SPINS_BEFORE_YIELD = 500


@inlined
def _push(plan: int, current: int, first: int) -> int:
    """Write to the neighbours that are ready for this round; return how many are not yet.

    From neighbour -1 on: what stays here is copied, too. There is one place that executes rows: each is compiled anew.
    """
    waiting = 0
    for n in range(first, word_at(plan, LINKS)):
        link = word_at(plan, LINKS_AT) + n * LINK * _WORD
        rows, end = 0, word_at(plan, OWN)
        if n >= 0:
            if word_at(link, PUSHED) == current:
                continue
            if load_acquire(word_at(link, ENTER_IN)) < current:
                waiting += 1
                continue
            rows, end = word_at(link, FIRST), word_at(link, LAST)
        execute_rows(word_at(plan, ROWS_AT), rows, end)
        if n >= 0:
            store_release(word_at(link, READY_OUT), current)
            store_release(link + PUSHED * _WORD, current)
    return waiting


@inlined
def _enter(plan: int, current: int) -> None:
    """Begin a round: let the neighbours know."""
    store_release(plan + ROUND * _WORD, current)
    for n in range(word_at(plan, LINKS)):
        link = word_at(plan, LINKS_AT) + n * LINK * _WORD
        store_release(word_at(link, ENTER_OUT), current)


@inlined
def _arrived(plan: int, current: int) -> bool:
    for n in range(word_at(plan, LINKS)):
        link = word_at(plan, LINKS_AT) + n * LINK * _WORD
        if load_acquire(word_at(link, READY_IN)) < current:
            return False
    return True


@inlined
def _give_back(plan: int) -> None:
    count = word_at(plan, LENT)
    if count != 0:
        store_release(plan + LENT * _WORD, 0)
        fetch_add_word(count, -1)


def advance(plan: int, spins: int) -> int:
    """Go on with a round until all is written and all has arrived: 1, or until `spins` polls have failed: 0.

    With 0 spins, begin a round: let the neighbours know, copy what stays here, write to those who are ready.
    """
    current, first = word_at(plan, ROUND), 0
    if spins == 0:
        current, first = current + 1, -1
        _enter(plan, current)
    left = spins
    while True:
        waiting = _push(plan, current, first)
        if left > 0 and waiting == 0 and _arrived(plan, current):
            _give_back(plan)
            return 1
        left -= 1
        if left <= 0:
            return 0
        if spins - left < _SPINS_BEFORE_YIELD:
            pause()
        else:
            sched_yield()
