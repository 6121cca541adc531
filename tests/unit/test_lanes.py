"""Lanes: eight numbers at once in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError
from gondwana.simd.vectors import WIDTH, Lanes, add_up, fill, gather, load, prefetch, store


@gw.jit
def combine(values: Any, columns: Any, x: Any, y: Any, width: int) -> float:
    """A slice of a matrix times x, minus 1, to y[3:11]; returns the sum of the product."""
    total = fill(0.0)
    for place in range(width):
        total += load(values, WIDTH * place) * gather(x, columns, WIDTH * place)
    store(y, 3, total - fill(1))
    return add_up(total)


def test_a_slice_of_a_matrix_times_a_vector() -> None:
    generator = np.random.default_rng(7)
    values, x = generator.random(5 * WIDTH), generator.random(40)
    columns = generator.integers(0, 40, 5 * WIDTH).astype(np.uint32)
    y = np.full(14, np.nan)
    found = combine(values, columns, x, y, 5)
    expected = np.zeros(WIDTH)
    for place in range(5):
        part = slice(WIDTH * place, WIDTH * (place + 1))
        expected = expected + values[part] * x[columns[part]]
    assert np.array_equal(y[3:11], expected - 1.0)  # no fused additions, so the same bits
    assert np.isnan(y[[0, 1, 2, 11, 12, 13]]).all()
    a, b, c, d, e, f, g, h = expected.tolist()
    assert found == ((a + b) + (c + d)) + ((e + f) + (g + h))


@gw.jit
def first(array: Any) -> float:
    """The sum of the first eight numbers."""
    return add_up(load(array, 0))


@gw.jit
def sum_and_ask(values: Any, columns: Any, ahead: int) -> float:
    total = fill(0.0)
    for start in range(0, len(values), WIDTH):
        prefetch(values, start + ahead)
        prefetch(columns, start + ahead)
        total += load(values, start)
    return add_up(total)


@pytest.mark.parametrize("ahead", [0, 8, 10**12, -(10**12)])
def test_asking_for_memory_changes_nothing_even_where_there_is_none(ahead: int) -> None:
    values = np.arange(64.0)
    assert sum_and_ask(values, np.zeros(64, np.uint32), ahead) == values.sum()
    assert np.array_equal(values, np.arange(64.0))


@pytest.mark.parametrize("array", [np.zeros(8, np.float32), np.zeros((8, 8)), np.zeros(16)[::2]])
def test_other_arrays_are_refused(array: Any) -> None:
    with pytest.raises(KernelError, match="load takes a contiguous one-dimensional array of float64"):
        first(array)


def test_outside_of_compiled_code() -> None:
    array, indices = np.zeros(8), np.zeros(8, np.uint32)
    for call in (
        lambda: fill(0.0), lambda: load(array, 0), lambda: gather(array, indices, 0), lambda: add_up(Lanes()),
        lambda: prefetch(array, 0),
        lambda: store(array, 0, Lanes()), lambda: Lanes() + Lanes(), lambda: Lanes() - Lanes(),
        lambda: Lanes() * Lanes(),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="for compiled code"):
            call()
