"""Machine code of collectives through memory that all ranks of a team share. Imports Numba.

The memory begins with a head, whose first word tells how often a rank polls before it yields the processor. Then every
rank has two slots, for its even and its odd collectives: a word that says which collective the rank has entered, and up
to `LIMIT` bytes that it contributes. A rank writes its own slots only, so nothing needs an atomic read-modify-write,
and up to 56 bytes arrive with the cache line of the word.

A rank enters collective n when all have entered n - 1: they have finished n - 2, whose contribution it overwrites.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_acquire, load_word, move_bytes, pause, sched_yield, store_release
from gondwana.compiler.ndarrays import DATA
from gondwana.compiler.ndarrays_native import count_of, dtype_number_of, is_in_c_order
from gondwana.compiler.types.buffers import element, item_size, set_element
from gondwana.teams import SUM
from gondwana.transfer.collectives.on_node import (
    HEAD,
    LATE,
    LIMIT,
    MISMATCH,
    MOST_READ,
    NBYTES,
    NUMBER,
    SLOT,
    SUM_DOUBLES,
    SUM_FLOATS,
    SUM_INTEGERS,
    UNFIT,
    WORD,
    kind_of,
    meaning,
)

_ADDITION = meaning(kind_of(SUM), 0)
_DOUBLE, _FLOAT, _LONG, _LONG_LONG = (np.dtype(char).num for char in "dflq")

_AREA, _RANK, _SIZE, _ENTERED = 0, 8, 16, 24
"""Where in the block of `OnNode` its words are; the last one is the collective that was entered but not finished."""


@inlined
def slot(area: int, rank: int, n: int) -> int:
    """Return the address of the slot of a rank for collective n."""
    return area + HEAD + (2 * rank + (n & 1)) * SLOT


@inlined
def next_collective(area: int, rank: int) -> int:
    """Return the number of the collective that this rank enters next."""
    even, odd = load_word(slot(area, rank, 0)), load_word(slot(area, rank, 1))
    return ((even if even > odd else odd) >> NUMBER) + 1  # type: ignore[no-any-return]


@inlined
def has_entered(area: int, rank: int, n: int) -> bool:
    """Return whether a rank has entered collective n; what it contributes is then visible."""
    return load_acquire(slot(area, rank, n)) >> NUMBER >= n  # type: ignore[no-any-return]


@inlined
def is_the_same(area: int, rank: int, n: int, meaning: int) -> bool:
    """Return whether a rank that has entered collective n means the same by it."""
    return load_word(slot(area, rank, n)) == (n << NUMBER | meaning)  # type: ignore[no-any-return]


@inlined
def enter(area: int, rank: int, n: int, meaning: int, source: int) -> None:
    """Enter collective n with what lies at an address. All ranks have entered the one before."""
    own = slot(area, rank, n)
    if source != 0:
        move_bytes(own + WORD, source, meaning & NBYTES)
    store_release(own, n << NUMBER | meaning)


@inlined
def relax(area: int, polls: int) -> None:
    """Pause between polls, or yield the processor after many failed ones."""
    if polls < load_word(area):
        pause()
    else:
        sched_yield()


@inlined
def fold(area: int, size: int, n: int, target: int, count: int, like: Any, combine: Any) -> None:
    """Combine the contributions to collective n in the order of the ranks."""
    move_bytes(target, slot(area, 0, n) + WORD, count * item_size(like))
    for rank in range(1, size):
        part = slot(area, rank, n) + WORD
        for i in range(count):
            set_element(target, i, combine(element(target, i, like), element(part, i, like)), like)


@inlined
def _add(a: Any, b: Any) -> Any:
    return a + b


@inlined
def _have_entered(area: int, first: int, end: int, n: int, polls: int) -> bool:
    failed = 0
    for rank in range(first, end):
        while not has_entered(area, rank, n):
            failed += 1
            if failed >= polls:
                return False
            relax(area, failed)
    return True


def advance(block: int, meaning: int, source: int, target: int, how: int, polls: int) -> int:
    """Go on with a collective of this rank until it is finished, or until a number of polls have failed.

    Args:
        block: see `OnNode`.
        meaning: of the collective.
        source: where the address of the contribution is, 0 without one.
        target: where the address for the result is, 0 without one.
        how: contributions are combined; -1 - root: the result is that of the root.
        polls: failed ones.

    Returns:
        The number of the collective, `LATE` or `MISMATCH`.
    """
    return _advance(block, meaning, source, target, how, polls)  # type: ignore[no-any-return]


@inlined
def _advance(block: int, meaning: int, source: int, target: int, how: int, polls: int) -> int:
    area, rank, size = load_word(block + _AREA), load_word(block + _RANK), load_word(block + _SIZE)
    n = load_word(block + _ENTERED)
    if n == 0:
        n = next_collective(area, rank)
        if not _have_entered(area, 0, size, n - 1, polls):
            return LATE
        enter(area, rank, n, meaning, load_word(source) if source != 0 else 0)
        store_release(block + _ENTERED, n)
    first, end = (-1 - how, -how) if how < 0 else (0, size)
    if not _have_entered(area, first, end, n, polls):
        return LATE
    store_release(block + _ENTERED, 0)
    for other in range(first, end):
        if not is_the_same(area, other, n, meaning):
            return MISMATCH
    nbytes = meaning & NBYTES
    if how < 0 and target != 0:
        move_bytes(load_word(target), slot(area, first, n) + WORD, nbytes)
    elif how == SUM_DOUBLES:
        fold(area, size, n, load_word(target), nbytes // 8, 0.0, _add)
    elif how == SUM_FLOATS:
        fold(area, size, n, load_word(target), nbytes // 4, np.float32(0), _add)
    elif how == SUM_INTEGERS:
        fold(area, size, n, load_word(target), nbytes // 8, np.int64(0), _add)
    return n  # type: ignore[no-any-return]


def add(block: int, send: int, recv: int, polls: int) -> int:
    """Add the contributions that the arrays at these addresses are: as `advance`, or `UNFIT`, and nothing is done."""
    count, number = count_of(recv, True), dtype_number_of(recv)
    if count < 1 or count_of(send, False) != count or dtype_number_of(send) != number:
        return UNFIT
    if number == _DOUBLE:
        how, nbytes = SUM_DOUBLES, 8 * count
    elif number == _LONG or number == _LONG_LONG:  # noqa: SIM109 - `in` would need Numba at run time
        how, nbytes = SUM_INTEGERS, 8 * count
    elif number == _FLOAT:
        how, nbytes = SUM_FLOATS, 4 * count
    else:
        return UNFIT
    if (
        nbytes > LIMIT
        or nbytes * load_word(block + _SIZE) > MOST_READ
        or not (is_in_c_order(send) and is_in_c_order(recv))
    ):
        return UNFIT
    return _advance(block, _ADDITION + nbytes, send + DATA, recv + DATA, how, polls)  # type: ignore[no-any-return]
