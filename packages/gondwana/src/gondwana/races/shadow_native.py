"""Machine code that compares and replaces the epochs of the words of a box. Imports Numba."""

from __future__ import annotations

from gondwana.compiler.memory_order import load_word, store_release
from gondwana.races.shadow import BLOCK, CLOCK_BITS, CLOCK_SHIFT, STREAM_SHIFT

(
    _WRITES, _READS, _FIRST, _WIDTH, _COUNTS, _STRIDES, _CLOCK, _EPOCH, _WRITE, _KNOWN, _TABLE, _AT, _OLD_W, _OLD_R,
    _ROW,
) = (8 * place for place in BLOCK)  # fmt: skip
_CLOCK_MASK = (1 << CLOCK_BITS) - 1


def sweep(block: int) -> int:
    """Give the words of a box their new epochs: return 0, or 1 at a word whose epochs are not known yet.

    Epochs that the stream has seen are replaced without asking. Others are looked up in the table of four words each:
    those of the last write and reads, and what takes their places.
    """
    writes, reads, first, width = (
        load_word(block + _WRITES),
        load_word(block + _READS),
        load_word(block + _FIRST),
        load_word(block + _WIDTH),
    )
    n0, n1, n2 = load_word(block + _COUNTS), load_word(block + _COUNTS + 8), load_word(block + _COUNTS + 16)
    s0, s1, s2 = load_word(block + _STRIDES), load_word(block + _STRIDES + 8), load_word(block + _STRIDES + 16)
    clock, epoch, write = load_word(block + _CLOCK), load_word(block + _EPOCH), load_word(block + _WRITE)
    known, table, row = load_word(block + _KNOWN), load_word(block + _TABLE), load_word(block + _ROW)
    last, last_w, last_r, next_w, next_r = 0, 0, 0, 0, 0
    while row < n0 * n1:
        start = first + (row // n1) * s0 + (row % n1) * s1
        for k in range(n2):
            place = start + k * s2
            for _ in range(width):
                w, r = load_word(writes + 8 * place), load_word(reads + 8 * place)
                if last == 0 or w != last_w or r != last_r:
                    is_seen = r >= 0
                    if w != 0:
                        is_seen = is_seen and (w >> CLOCK_SHIFT) & _CLOCK_MASK <= load_word(
                            clock + 8 * (w >> STREAM_SHIFT)
                        )
                    if is_seen and r != 0:
                        is_seen = (r >> CLOCK_SHIFT) & _CLOCK_MASK <= load_word(clock + 8 * (r >> STREAM_SHIFT))
                    if is_seen:
                        next_w, next_r = (epoch, 0) if write != 0 else (w, epoch)
                    else:
                        entry = 0
                        while entry < known and (
                            load_word(table + 32 * entry) != w or load_word(table + 32 * entry + 8) != r
                        ):
                            entry += 1
                        if entry == known:
                            store_release(block + _AT, place)
                            store_release(block + _OLD_W, w)
                            store_release(block + _OLD_R, r)
                            store_release(block + _ROW, row)
                            return 1
                        next_w, next_r = load_word(table + 32 * entry + 16), load_word(table + 32 * entry + 24)
                    last, last_w, last_r = 1, w, r
                store_release(writes + 8 * place, next_w)
                store_release(reads + 8 * place, next_r)
                place += 1
        row += 1
    return 0
