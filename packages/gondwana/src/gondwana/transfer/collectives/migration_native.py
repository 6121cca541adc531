"""Machine code that counts records by their owners and moves them apart. Imports Numba.

Python source that is compiled once.
"""

from __future__ import annotations

import numpy as np

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word, move_bytes, store_release
from gondwana.compiler.types.buffers import element

_WORD = 8
_OWNER = np.int32(0)


@inlined
def _end_of_run(owners: int, first: int, count: int) -> int:
    """The first record behind one that has another owner: records of one owner often follow each other."""
    owner, end = element(owners, first, _OWNER), first + 1
    while end < count and element(owners, end, _OWNER) == owner:
        end += 1
    return end


def count_records(owners: int, count: int, counts: int) -> int:
    """Add the number of records of each owner to words, one for each rank; return 0."""
    first = 0
    while first < count:
        end = _end_of_run(owners, first, count)
        word = counts + _WORD * element(owners, first, _OWNER)
        store_release(word, load_word(word) + end - first)
        first = end
    return 0


def move_apart(owners: int, count: int, records: int, nbytes: int, places: int) -> int:
    """Move records of so many bytes to places, the address of the next one for each owner, in order; return 0."""
    first = 0
    while first < count:
        end = _end_of_run(owners, first, count)
        place, length = places + _WORD * element(owners, first, _OWNER), (end - first) * nbytes
        target = load_word(place)
        move_bytes(target, records + first * nbytes, length)
        store_release(place, target + length)
        first = end
    return 0
