"""XXH64 against published values; in the interpreter and in machine code; what it tells apart."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gondwana.io.xxh64 import XXH64

LONG = 40_000  # more than the interpreter hashes


def hash_of(*parts):
    hashed = XXH64()
    for part in parts:
        hashed.update(np.frombuffer(part, np.uint8))
    return hashed.value()


def noise(count):
    return np.random.default_rng(7).bytes(count)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_published_values(text, value):
    assert hash_of(text) == value


def test_machine_code_continues_what_the_interpreter_began():
    text = noise(2 * LONG + 13)
    whole = hash_of(text)
    assert whole == hash_of(*[text[at : at + 1000] for at in range(0, len(text), 1000)])  # only interpreted
    for cut in (1, 31, 32, 33, 4096, LONG, len(text) - 1):
        assert hash_of(text[:cut], text[cut:]) == whole  # at many alignments
    assert hash_of(bytes(LONG)) != hash_of(bytes(LONG + 1))


@pytest.mark.parametrize("size", [61, LONG + 5])
def test_damage_changes_it(size):
    rng = random.Random(1)
    text = noise(size)
    bits = range(8 * size) if size < 100 else [rng.randrange(8 * size) for _ in range(500)]
    changed = []
    for bit in bits:
        flipped = bytearray(text)
        flipped[bit // 8] ^= 1 << bit % 8
        changed.append(bytes(flipped))
    changed += [text[by:] + text[:by] for by in (1, 8, 32, 33)]  # shifted
    changed += [text[8:16] + text[:8] + text[16:], text[32:48] + text[16:32] + text[:16] + text[48:]]  # swapped
    changed += [text + b"\0", text[:-1], text[:32] + bytes(size - 32)]
    assert len({hash_of(text), *map(hash_of, changed)}) == 1 + len(set(changed))


def test_many_changes_of_the_same_bits_do_not_cancel():
    """Two signs that change, or a row of equal words, leave no trace in sums without mixing."""
    words = np.ones(LONG // 8)
    seen = {hash_of(words.tobytes())}
    for step in (4, 8, 64):  # of one lane
        other = words.copy()
        other[::step] *= -1
        seen.add(hash_of(other.tobytes()))
        other = words.copy()
        other[[100, 100 + step]] *= -1
        seen.add(hash_of(other.tobytes()))
    assert len(seen) == 7
