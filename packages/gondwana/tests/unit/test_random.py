"""Random numbers of a seed, a point and a step: known answers, both precisions, interpreted and compiled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.kernels.random_numbers import philox
from support import jobs

# Published with Random123 (kat_vectors).
KNOWN = [
    ((0,) * 6, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 6, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0), "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@gw.foreach
def fill(p, a, seed, step):
    a[p] = gw.random(seed, p, step, a.dtype)


@pytest.mark.parametrize(("words", "expected"), KNOWN)
def test_known_answers(words: tuple[int, ...], expected: str) -> None:
    assert " ".join(f"{word:08x}" for word in philox(*words)) == expected
    assert " ".join(f"{word:08x}" for word in philox.py_func(*words)) == expected


def field(shape: tuple[int, ...], dtype: Any = float, seed: int = 42, step: int = 1, corner: int = 0) -> gw.Array:
    a = gw.Array.zeros(gw.RectDomain.from_shape(shape) + (corner,) * len(shape), dtype, order="F")
    fill(a.domain, a, seed, step)
    return a


def test_a_field_of_numbers() -> None:
    """Values at (x, y, z) of seed 42 and step 1 on a grid of 32 cells a side."""
    a = field((32, 32, 32))
    assert [round(a[x, 0, 0], 8) for x in range(4)] == [0.25206316, -0.81225966, 0.65704277, -0.42985986]
    assert [round(a[x, 2, 1], 8) for x in range(3, 7)] == [-0.18626468, -0.88941628, 0.58414223, -0.99864081]
    values = a.numpy()
    assert round(float(values.sum()), 9) == 123.625142309
    assert round(float(values.min()), 12) == -0.999984546099
    assert round(float(values.max()), 12) == 0.999971286394


def test_single_precision_takes_the_upper_24_bits() -> None:
    wide, narrow = field((8, 4, 4)), field((8, 4, 4), "float32")
    words = (wide.numpy() * 2.0**31).astype(np.int64)
    assert np.array_equal(words * 2.0**-31, wide.numpy())
    expected = (words >> 8).astype(np.float32) * np.float32(2.0**-23)
    assert narrow.dtype == np.float32
    assert np.array_equal(narrow.numpy(), expected)


@pytest.mark.parametrize("shape", [(9,), (5, 4), (5, 3, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_interpreted_and_compiled_numbers_agree_at_negative_points_too(shape: tuple[int, ...], dtype: Any) -> None:
    for seed, step in [(0, 0), (42, 1), (2**63 - 1, 2**32 - 1), (-1, -1)]:
        a = field(shape, dtype, seed, step, corner=-3)
        for p in a.domain:
            assert a[p] == gw.random.py_func(seed, p, step, dtype)
        p = a.domain.first
        assert gw.random(seed, p, step, dtype) == a[p]
        assert -1 <= a[p] < 1


def test_missing_axes_are_zero() -> None:
    assert gw.random(7, gw.Point(5), 2) == gw.random(7, gw.Point(5, 0), 2) == gw.random(7, gw.Point(5, 0, 0), 2)


def test_a_number_belongs_to_seed_point_and_step() -> None:
    base = field((16, 16, 16)).numpy()
    assert np.array_equal(field((16, 16, 16)).numpy(), base)
    for other in (field((16, 16, 16), seed=43), field((16, 16, 16), step=2), field((16, 16, 16), seed=42 + 2**32)):
        assert np.mean(other.numpy() == base) < 0.001
    part = gw.Array.zeros(gw.RectDomain((3, 5, 7), (9, 9, 16)))
    fill(part.domain, part, 42, 1)
    assert np.array_equal(part.numpy(), base[3:9, 5:9, 7:16])


def test_numbers_are_uniform_and_uncorrelated() -> None:
    values = field((64, 64, 64)).numpy()
    n = values.size
    assert abs(values.mean()) < 4 / np.sqrt(3 * n)
    assert abs(values.var() - 1 / 3) < 4 * np.sqrt(4 / 45 / n)
    counts, _ = np.histogram(values, 64, (-1, 1))
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 120  # chi squared of 63 degrees: 120 has probability 2e-5
    for axis in range(3):
        correlation = np.mean(values * np.roll(values, 1, axis)) * 3
        assert abs(correlation) < 5 / np.sqrt(n)


def test_a_first_draw_needs_no_kernel(tmp_path: Path) -> None:
    """In a process that has compiled nothing, with an empty cache."""
    source = "import gondwana as gw; print(gw.random(42, gw.Point(0, 0, 0), 1))"
    outcome = jobs.run_command([sys.executable, "-c", source], variables={"GONDWANA_CACHE_DIR": str(tmp_path)})
    assert float(outcome.stdout) == gw.random(42, gw.Point(0, 0, 0), 1)
