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

from gondwana.compiler.cpython_native import (
    count_of,
    data_of,
    dtype_number_of,
    integer_object,
    new_bytes,
    new_tuple,
    set_tuple_item,
)
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_acquire, load_word, move_bytes, pause, sched_yield, store_release
from gondwana.compiler.types.buffers import element, item_size, set_element
from gondwana.teams import BAND, BOR, BXOR, MAX, MIN, PROD, SUM, blocking
from gondwana.transfer.collectives import on_node

folds = inlined(blocking.folds)

_DOUBLE, _FLOAT, _LONG, _LONG_LONG = (np.dtype(char).num for char in "dflq")

_AREA, _RANK, _SIZE, _ENTERED, _ITEM_SIZES = 0, 8, 16, 8 * on_node.ENTERED, 32
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
def enter(area: int, rank: int, n: int, meaning: int, source: int, nbytes: int) -> None:
    """Enter collective n with so many bytes at an address. All ranks have entered the one before."""
    own = slot(area, rank, n)
    if source != 0:
        if meaning >> on_node.KIND < on_node.ALLGATHER:
            move_bytes(own + on_node.WORD, source, nbytes)
        else:
            store_release(own + on_node.WORD, nbytes)
            move_bytes(own + 2 * on_node.WORD, source, nbytes if nbytes < on_node.OBJECT else on_node.OBJECT)
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
        block: Words of the team: see `OnNode`.
        meaning: Meaning of the collective, the same on all ranks.
        source: Place of the address of the contribution, 0 without one.
        target: Place of the address for the result, 0 without one.
        how: Way to combine contributions, `NUMPY` or `coded`; or -1 - root: the result is that of the root.
        polls: Number of failed polls after which it returns.

    Returns:
        The number of the collective, `LATE` or `MISMATCH`.
    """
    at, nbytes = load_word(source) if source != 0 else 0, meaning & on_node.NBYTES
    if at != 0 and meaning >> on_node.KIND >= on_node.ALLGATHER:
        at, nbytes = at + on_node.WORD, load_word(at)
    result = load_word(target) if target != 0 else 0
    return _advance(block, meaning, at, nbytes, result, how, polls)  # type: ignore[no-any-return]


def bring(block: int, data: int, nbytes: int, how: int, polls: int) -> int:
    """Bring objects from all ranks, or from a root, where this one contributes bytes at an address, if any.

    Returns:
        A tuple of bytes objects; or an integer object, as `advance`, if they do not all fit.
    """
    kind = on_node.BCAST_OBJECT if how < 0 else on_node.ALLGATHER
    n = _advance(block, kind << on_node.KIND, data, nbytes, 0, how, polls)
    first, count = (-1 - how, 1) if how < 0 else (0, load_word(block + _SIZE))
    place, are_short = slot(load_word(block + _AREA), first, n) + on_node.WORD, n >= 0
    for rank in range(count if are_short else 0):
        are_short &= load_word(place + 2 * on_node.SLOT * rank) <= on_node.OBJECT
    if not are_short:
        return integer_object(n)  # type: ignore[no-any-return]
    found = new_tuple(count)
    for rank in range(count):
        set_tuple_item(found, rank, new_bytes(place + on_node.WORD, load_word(place)))
        place += 2 * on_node.SLOT
    return found  # type: ignore[no-any-return]


def meet(block: int, polls: int) -> int:
    """Go on with a barrier: as `advance`."""
    return _advance(block, on_node.BARRIER << on_node.KIND, 0, 0, 0, on_node.NUMPY, polls)  # type: ignore[no-any-return]


@inlined
def _advance(block: int, meaning: int, source: int, nbytes: int, target: int, how: int, polls: int) -> int:
    area, rank, size = load_word(block + _AREA), load_word(block + _RANK), load_word(block + _SIZE)
    n = load_word(block + _ENTERED)
    if n == 0:
        n = next_collective(area, rank)
        if not _have_entered(area, 0, size, n - 1, polls):
            return on_node.LATE
        enter(area, rank, n, meaning, source, nbytes)
        store_release(block + _ENTERED, n)
    first, end = (-1 - how, -how) if how < 0 else (0, size)
    if not _have_entered(area, first, end, n, polls):
        return on_node.LATE
    store_release(block + _ENTERED, 0)
    for other in range(first, end):
        if not is_the_same(area, other, n, meaning):
            return on_node.MISMATCH
    if how < 0 and target != 0:
        move_bytes(target, slot(area, first, n) + on_node.WORD, nbytes)
    elif how > 0:
        fold_as(how, first_part(area, n), 2 * on_node.SLOT, size, target, nbytes)
    return n  # type: ignore[no-any-return]


def combine(block: int, operation: int, send: int, recv: int, at: int, polls: int) -> int:
    """Combine the contributions that the arrays at these addresses are, by an operation of `IN_MACHINE_CODE`.

    Args:
        block: Words of the team: see `OnNode`.
        operation: Place of the operation.
        send: Address of an array.
        recv: Address of an array.
        at: Bytes that have been combined.
        polls: Number of failed polls after which it returns.

    Returns:
        As `advance`, less four times the bytes that have been combined; or `UNFIT`, and nothing is done.
    """
    how, nbytes = how_to_combine(operation, send, recv)
    if how == on_node.NUMPY or not folds(load_word(block + _SIZE), nbytes, True):
        return on_node.UNFIT
    source, target, n = data_of(send), data_of(recv), 0
    if nbytes > on_node.LIMIT and source != target and source < target + nbytes and target < source + nbytes:
        return on_node.UNFIT  # pieces of the result would come into pieces that are not combined yet
    element = (how - 1) % _ELEMENTS
    place = _DOUBLE_PLACE if element == _DOUBLES else _INTEGER_PLACE if element == _INTEGERS else _FLOAT_PLACE
    what = (on_node.ALLREDUCE + operation * _KINDS_OF_ONE + place) << on_node.KIND
    while at < nbytes:
        piece = nbytes - at if nbytes - at < on_node.LIMIT else on_node.LIMIT
        n = _advance(block, what | piece, source + at, piece, target + at, how, polls)
        if n < 0:
            return n - 4 * at  # type: ignore[no-any-return]
        at += piece
    return n


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
    if (nbytes == 0 and count != 0) or nbytes > on_node.LIMIT:
        return on_node.UNFIT
    source, target = (data_of(array), 0) if is_root else (0, data_of(array))
    return _advance(block, _BROADCAST + nbytes, source, nbytes, target, -1 - root, polls)  # type: ignore[no-any-return]
