"""The stripes of XXH64 in machine code. Imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word, store_release
from gondwana.io.xxh64 import PRIME_1, PRIME_2, STRIPE

_PRIME_1, _PRIME_2 = np.uint64(PRIME_1), np.uint64(PRIME_2)
_LEFT, _RIGHT = np.uint64(31), np.uint64(33)


@intrinsic
def _load_unaligned(typingctx: Any, address: Any) -> Any:
    """Read the 64 bits at any address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(types.int64), codegen


@inlined
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    """Mix a word into a lane."""
    mixed = lane + word * _PRIME_2
    return (mixed << _LEFT | mixed >> _RIGHT) * _PRIME_1


def enter(lanes: int, text: int, stripes: int) -> int:
    """Mix a number of stripes at an address into the four words at another."""
    a, b = np.uint64(load_word(lanes)), np.uint64(load_word(lanes + 8))
    c, d = np.uint64(load_word(lanes + 16)), np.uint64(load_word(lanes + 24))
    for at in range(text, text + stripes * STRIPE, STRIPE):
        a, b = _round(a, _load_unaligned(at)), _round(b, _load_unaligned(at + 8))
        c, d = _round(c, _load_unaligned(at + 16)), _round(d, _load_unaligned(at + 24))
    store_release(lanes, np.int64(a))
    store_release(lanes + 8, np.int64(b))
    store_release(lanes + 16, np.int64(c))
    store_release(lanes + 24, np.int64(d))
    return 0
