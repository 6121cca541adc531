"""Loops that gather are compiled as written: copies of their iterations would read memory in uneven steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gondwana as gw

ROWS, ENTRIES = 50, 5
SHIFTED = 3


def row_sum(row, starts, columns, values, x):
    total = 0.0
    for entry in range(starts[row], starts[row + 1]):
        total += values[entry] * x[columns[entry]]
    return total


row_sum_in_order, row_sum_reordered = gw.jit(row_sum), gw.jit(reassociate=True)(row_sum)


@gw.jit
def product(y, starts, columns, values, x):
    for row in range(len(y)):
        total = 0.0
        for entry in range(starts[row], starts[row + 1]):
            total += values[entry] * x[columns[entry]]
        y[row] = total


@gw.jit
def product_by_helper(y, starts, columns, values, x):
    for row in range(len(y)):
        y[row] = row_sum_in_order(row, starts, columns, values, x)


@gw.jit
def product_reordered(y, starts, columns, values, x):
    for row in range(len(y)):
        y[row] = row_sum_reordered(row, starts, columns, values, x)


@gw.jit
def product_while(y, starts, columns, values, x):
    for row in range(len(y)):
        total, entry = 0.0, starts[row]
        while entry < starts[row + 1]:
            total += values[entry] * x[columns[entry] + 0]
            entry += 1
        y[row] = total


@gw.foreach
def product_row(p, y, starts, columns, values, x):
    total = 0.0
    for entry in range(starts[p], starts[p + gw.X]):
        total += values[entry] * x[columns[entry]]
    y[p] = total


def operands() -> tuple[list[np.ndarray], np.ndarray]:
    """The arguments after y, and y."""
    random = np.random.default_rng(3)
    columns = random.integers(0, ROWS, ROWS * ENTRIES)
    values, x = random.integers(-9, 9, ROWS * ENTRIES).astype(float), random.integers(-9, 9, ROWS).astype(float)
    expected = (values * x[columns]).reshape(ROWS, ENTRIES).sum(axis=1)  # of integers: exact in any order
    return [ENTRIES * np.arange(ROWS + 1), columns, values, x], expected


def gathers(code: Any) -> int:
    """Products in the machine code, vectors too: one for each copy of an iteration."""
    return int(code.asm.count("mulsd") + code.asm.count("mulpd"))


@pytest.mark.parametrize("function", [product, product_by_helper, product_while])
def test_a_loop_over_entries_has_no_copies(function: Any) -> None:
    given, expected = operands()
    y = np.zeros(ROWS)
    function(y, *given)
    assert np.array_equal(y, expected)
    assert gathers(gw.inspect(function, y, *given)) == 1


def test_nor_has_the_sweep_around_it() -> None:
    given, expected = operands()
    arrays = [gw.Array(array) for array in given]
    y = gw.Array.zeros(gw.RectDomain(0, ROWS))
    product_row(y.domain, y, *arrays)
    assert np.array_equal(y.numpy(), expected)
    assert gathers(gw.inspect(product_row, y.domain, y, *arrays)) == 1


def test_it_may_have_vectors() -> None:
    given, expected = operands()
    y = np.zeros(ROWS)
    product_reordered(y, *given)
    assert np.array_equal(y, expected)
    code = gw.inspect(product_reordered, y, *given)
    assert code.loop is not None
    assert code.loop.vectorised


def test_a_loop_of_constant_length_is_written_out() -> None:
    @gw.foreach
    def average(p, y, x, places):
        total = 0.0
        for k in range(SHIFTED):
            total += x[p[0] + places[k]]
        y[p] = total

    y, x, places = (gw.Array.zeros(gw.RectDomain(0, 60), dtype) for dtype in (float, float, int))
    x.numpy()[:], places.numpy()[:SHIFTED] = np.arange(60.0), (0, 4, 9)
    domain = gw.RectDomain(0, 50)
    average(domain, y, x, places)
    assert np.array_equal(y.numpy()[:50], 3 * np.arange(50.0) + 13)
    code = gw.inspect(average, domain, y, x, places)
    assert code.loop is not None
    assert code.loop.vectorised


def test_a_loop_that_stores_is_left_to_the_compiler() -> None:
    @gw.jit
    def histogram(counts, keys):
        for i in range(len(keys)):
            counts[keys[i]] += 1

    keys = np.array([3, 1, 3, 3, 0])
    counts = np.zeros(4, np.int64)
    histogram(counts, keys)
    assert counts.tolist() == [1, 1, 0, 3]
    assert "unroll.runtime.disable" not in gw.inspect(histogram, counts, keys).llvm
