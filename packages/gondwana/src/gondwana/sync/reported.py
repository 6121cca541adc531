"""Atomic operations and locks as the race detector sees them.

The detector knows from the value that an operation has found which other operation it comes behind. So all operations
are made those that return the old value, and are complete when they return.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.futures import DONE, Future, ready
from gondwana.memory.pointer import GlobalPtr
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import READS, UPDATES, WRITES
from gondwana.sync.atomic_paths import Number, Path

_RESULTS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


def operation(
    way: Path, name: str, target: GlobalPtr, operand: Number, expected: Number, *, fetch: bool
) -> Future[Any]:
    """Perform an operation on a word of host memory, and report it. Local; blocks until it is complete.

    Args:
        way: what performs it.
        name: name of it, without `fetch_`.
        target: the word.
        operand: the value that it is given.
        expected: the value expected there, for "compare_exchange".
        fetch: whether the old value is the result.
    """
    one, dtype = reporter, target.dtype
    assert one is not None
    one.flush()
    found = way.perform("exchange" if name == "store" else name, target, operand, expected, True).result()
    old, given = np.array([found], dtype), np.array([operand], dtype)
    if name in _RESULTS:
        with np.errstate(all="ignore"):
            new = _RESULTS[name](old, given).astype(dtype)
    else:
        new = old if name == "load" or (name == "compare_exchange" and found != expected) else given
    what = READS if name == "load" else WRITES if name == "store" else UPDATES | WRITES | (READS if fetch else 0)
    place = target.segment.key, target.team.world_ranks[target.rank], target.offset, dtype.itemsize
    one.add(Kind.ATOMIC, *place, _bits(new), _bits(old), what, site=one.site(f"atomic {name}"))
    one.flush()
    return ready(found) if fetch else DONE


def _bits(value: np.ndarray[Any, Any]) -> int:
    return int(value.view(f"i{value.itemsize}")[0])
