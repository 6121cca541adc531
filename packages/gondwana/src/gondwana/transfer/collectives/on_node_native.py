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

from gondwana.compiler.cpython_native import count_of, dtype_number_of
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_acquire, load_word, move_bytes, pause, sched_yield, store_release
from gondwana.compiler.native import DATA
from gondwana.compiler.types.buffers import element, item_size, set_element
from gondwana.teams import BAND, BOR, BXOR, MAX, MIN, PROD, SUM
from gondwana.transfer.collectives import on_node

_DOUBLE, _FLOAT, _LONG, _LONG_LONG = (np.dtype(char).num for char in "dflq")

_AREA, _RANK, _SIZE, _ENTERED, _ITEM_SIZES = 0, 8, 16, 24, 32
"""Where in the block of `OnNode` its words are: of the last but one, the collective that was entered but not finished;
from the last one on, the bytes of an element by the number of its dtype."""

_BROADCAST = on_node.BCAST << on_node.KIND
_ELEMENTS, _KINDS_OF_ONE = len(on_node.CODED), len(on_node.ELEMENTS)
_DOUBLE_PLACE, _INTEGER_PLACE, _FLOAT_PLACE = map(on_node.ELEMENTS.index, on_node.CODED)
_DOUBLES, _INTEGERS, _FLOATS = (on_node.CODED.index(char) for char in "dlf")
_SUM, _PROD, _MAX = (on_node.IN_MACHINE_CODE.index(op) for op in (SUM, PROD, MAX))


@inlined
def slot(area: int, rank: int, n: int) -> int:
    """Return the address of the slot of a rank for collective n."""
    return area + on_node.HEAD + (2 * rank + (n & 1)) * on_node.SLOT


@inlined
def first_part(area: int, n: int) -> int:
    """Return the address of the contribution of rank 0 to collective n; the others follow, `2 * SLOT` apart."""
    return slot(area, 0, n) + on_node.WORD  # type: ignore[no-any-return]


@inlined
def next_collective(area: int, rank: int) -> int:
    """Return the number of the collective that this rank enters next."""
    even, odd = load_word(slot(area, rank, 0)), load_word(slot(area, rank, 1))
    return ((even if even > odd else odd) >> on_node.NUMBER) + 1  # type: ignore[no-any-return]


@inlined
def has_entered(area: int, rank: int, n: int) -> bool:
    """Return whether a rank has entered collective n; what it contributes is then visible."""
    return load_acquire(slot(area, rank, n)) >> on_node.NUMBER >= n  # type: ignore[no-any-return]


@inlined
def is_the_same(area: int, rank: int, n: int, meaning: int) -> bool:
    """Return whether a rank that has entered collective n means the same by it."""
    return load_word(slot(area, rank, n)) == (n << on_node.NUMBER | meaning)  # type: ignore[no-any-return]


@inlined
def enter(area: int, rank: int, n: int, meaning: int, source: int) -> None:
    """Enter collective n with what lies at an address. All ranks have entered the one before."""
    own = slot(area, rank, n)
    if source != 0:
        move_bytes(own + on_node.WORD, source, meaning & on_node.NBYTES)
    store_release(own, n << on_node.NUMBER | meaning)


@inlined
def relax(area: int, polls: int) -> None:
    """Pause between polls, or yield the processor after many failed ones."""
    if polls < load_word(area):
        pause()
    else:
        sched_yield()


@inlined
def fold(part: int, stride: int, size: int, target: int, count: int, like: Any, combine: Any) -> None:
    """Combine contributions in the order of the ranks: that of rank 0 is at `part`, each next one a stride further."""
    move_bytes(target, part, count * item_size(like))
    for _ in range(1, size):
        part += stride
        for i in range(count):
            set_element(target, i, combine(element(target, i, like), element(part, i, like)), like)


@inlined
def _add(a: Any, b: Any) -> Any:
    return a + b


@inlined
def _multiply(a: Any, b: Any) -> Any:
    return a * b


@inlined
def _maximum(a: Any, b: Any) -> Any:
    return a if a >= b or a != a else b  # NumPy's: a NaN stays


@inlined
def _minimum(a: Any, b: Any) -> Any:
    return a if a <= b or a != a else b


@inlined
def _and(a: Any, b: Any) -> Any:
    return a & b


@inlined
def _or(a: Any, b: Any) -> Any:
    return a | b


@inlined
def _xor(a: Any, b: Any) -> Any:
    return a ^ b


FUNCTIONS = {SUM: _add, PROD: _multiply, MAX: _maximum, MIN: _minimum, BAND: _and, BOR: _or, BXOR: _xor}
"""What combines two elements."""


@inlined
def _fold_elements(element: int, part: int, stride: int, size: int, target: int, nbytes: int, combine: Any) -> None:
    if element == _DOUBLES:
        fold(part, stride, size, target, nbytes // 8, 0.0, combine)
    elif element == _INTEGERS:
        fold(part, stride, size, target, nbytes // 8, np.int64(0), combine)
    else:
        fold(part, stride, size, target, nbytes // 4, np.float32(0), combine)


@inlined
def fold_as(how: int, part: int, stride: int, size: int, target: int, nbytes: int) -> None:
    """Combine as `fold`, by an operation of `IN_MACHINE_CODE` on elements of `CODED`: see `coded`."""
    operation, element = (how - 1) // _ELEMENTS, (how - 1) % _ELEMENTS
    if operation == _SUM:
        _fold_elements(element, part, stride, size, target, nbytes, _add)
    elif operation == _PROD:
        _fold_elements(element, part, stride, size, target, nbytes, _multiply)
    elif operation == _MAX:
        _fold_elements(element, part, stride, size, target, nbytes, _maximum)
    else:
        _fold_elements(element, part, stride, size, target, nbytes, _minimum)


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
        how: contributions are combined, `NUMPY` or `coded`; or -1 - root: the result is that of the root.
        polls: failed ones.

    Returns:
        The number of the collective, `LATE` or `MISMATCH`.
    """
    return _advance(block, meaning, source, target, how, polls)  # type: ignore[no-any-return]


def meet(block: int, polls: int) -> int:
    """Go on with a barrier: as `advance`."""
    return _advance(block, on_node.BARRIER << on_node.KIND, 0, 0, on_node.NUMPY, polls)  # type: ignore[no-any-return]


@inlined
def _advance(block: int, meaning: int, source: int, target: int, how: int, polls: int) -> int:
    area, rank, size = load_word(block + _AREA), load_word(block + _RANK), load_word(block + _SIZE)
    n = load_word(block + _ENTERED)
    if n == 0:
        n = next_collective(area, rank)
        if not _have_entered(area, 0, size, n - 1, polls):
            return on_node.LATE
        enter(area, rank, n, meaning, load_word(source) if source != 0 else 0)
        store_release(block + _ENTERED, n)
    first, end = (-1 - how, -how) if how < 0 else (0, size)
    if not _have_entered(area, first, end, n, polls):
        return on_node.LATE
    store_release(block + _ENTERED, 0)
    for other in range(first, end):
        if not is_the_same(area, other, n, meaning):
            return on_node.MISMATCH
    nbytes = meaning & on_node.NBYTES
    if how < 0 and target != 0:
        move_bytes(load_word(target), slot(area, first, n) + on_node.WORD, nbytes)
    elif how > 0:
        fold_as(how, first_part(area, n), 2 * on_node.SLOT, size, load_word(target), nbytes)
    return n  # type: ignore[no-any-return]


def combine(block: int, operation: int, send: int, recv: int, polls: int) -> int:
    """Combine the contributions that the arrays at these addresses are, by an operation of `IN_MACHINE_CODE`.

    Returns:
        As `advance`; or `UNFIT`, and nothing is done.
    """
    how, nbytes = how_to_combine(operation, send, recv)
    if how == on_node.NUMPY or not _fits(block, nbytes):
        return on_node.UNFIT
    element = (how - 1) % _ELEMENTS
    place = _DOUBLE_PLACE if element == _DOUBLES else _INTEGER_PLACE if element == _INTEGERS else _FLOAT_PLACE
    what = (on_node.ALLREDUCE + operation * _KINDS_OF_ONE + place) << on_node.KIND | nbytes
    return _advance(block, what, send + DATA, recv + DATA, how, polls)  # type: ignore[no-any-return]


@inlined
def how_to_combine(operation: int, send: int, recv: int) -> tuple[int, int]:
    """Return which operation on which elements it is (`coded`) and their bytes; or `NUMPY`."""
    count, number = count_of(recv, True), dtype_number_of(recv)
    if number == _DOUBLE:
        element, nbytes = _DOUBLES, 8 * count
    elif number == _LONG or number == _LONG_LONG:  # noqa: SIM109 - `in` would need Numba at run time
        element, nbytes = _INTEGERS, 8 * count
    elif number == _FLOAT:
        element, nbytes = _FLOATS, 4 * count
    else:
        return on_node.NUMPY, 0
    alike = count_of(send, False) == count and dtype_number_of(send) == number
    if count < 1 or not alike:
        return on_node.NUMPY, 0
    return 1 + operation * _ELEMENTS + element, nbytes


def fill(block: int, array: int, root: int, polls: int) -> int:
    """Fill the array at this address with that of a root: as `advance`, or `UNFIT`, and nothing is done."""
    if root < 0 or root >= load_word(block + _SIZE):
        return on_node.UNFIT
    is_root = root == load_word(block + _RANK)
    count, number = count_of(array, not is_root), dtype_number_of(array)
    if count < 0 or number < 0 or number >= on_node.KINDS:
        return on_node.UNFIT
    nbytes = count * load_word(block + _ITEM_SIZES + 8 * number)
    if (nbytes == 0 and count != 0) or not _fits(block, nbytes):
        return on_node.UNFIT
    data = array + DATA
    return _advance(block, _BROADCAST + nbytes, data if is_root else 0, 0 if is_root else data, -1 - root, polls)  # type: ignore[no-any-return]


@inlined
def _fits(block: int, nbytes: int) -> bool:
    return nbytes <= on_node.LIMIT and nbytes * load_word(block + _SIZE) <= on_node.MOST_READ
