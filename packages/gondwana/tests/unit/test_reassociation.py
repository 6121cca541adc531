"""Permission to reorder floating-point operations: taken where it is given, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.testing.gpu import emulated_gpu
from support.twins import as_interpreted

LENGTH = 20_000


@gw.jit
def ordered(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


@gw.jit(reassociate=True)
def reordered(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


def numbers() -> np.ndarray:
    """Numbers whose sum shows in which order they were added."""
    return np.random.default_rng(1).standard_normal(LENGTH) * 10.0 ** (np.arange(LENGTH) % 7)


def in_order(x: np.ndarray) -> float:
    return float(np.add.accumulate(x)[-1])


def test_a_sum_of_a_compiled_function() -> None:
    x = numbers()
    assert ordered(x) == in_order(x)
    assert reordered(x) != in_order(x)
    assert abs(reordered(x) - in_order(x)) < 1e-9 * np.abs(x).sum()


def test_a_reordered_sum_is_within_the_bound_of_any_order() -> None:
    x = numbers()
    exact, bound = math.fsum(x), LENGTH * 2.0**-53 * np.abs(x).sum()
    assert abs(reordered(x) - exact) <= bound
    assert abs(ordered(x) - exact) <= bound


def test_the_permission_is_in_the_code_of_the_function_that_has_it() -> None:
    x = numbers()
    permitted = gw.inspect(reordered, x).llvm
    assert "fadd reassoc nsz" in permitted
    assert "nnan" not in permitted
    assert "ninf" not in permitted
    assert " reassoc " not in gw.inspect(ordered, x).llvm


def from_beside(a):
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = a[i - 1, j] + a[i, j - 1] - a[i - 1, j - 1]


def from_beside_last(a):
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = a[i - 1, j] - a[i - 1, j - 1] + a[i, j - 1]


def from_beside_first(a):
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = a[i, j - 1] + (a[i - 1, j] - a[i - 1, j - 1])


def running(a):
    for i in range(1, a.shape[0]):
        a[i] = a[i - 1] + a[i] * 0.5 + 1.0


def running_last(a):
    for i in range(1, a.shape[0]):
        a[i] = (a[i] * 0.5 + 1.0) + a[i - 1]


def swapped(a):
    for i in range(1, a.shape[0]):
        first = a[i - 1]
        a[i - 1] = a[i]
        a[i] = first + a[i]


@pytest.mark.parametrize("function", [from_beside, from_beside_last, from_beside_first])
def test_what_was_just_stored_is_added_last(function: Callable[..., Any]) -> None:
    start = np.random.default_rng(4).random((40, 50))
    expected, found = start.copy(), start.copy()
    from_beside_last(expected)
    gw.jit(reassociate=True)(function)(found)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("function", "oracle"), [(running, running_last), (swapped, swapped)])
def test_the_same_in_one_dimension(function: Callable[..., Any], oracle: Callable[..., Any]) -> None:
    start = np.random.default_rng(5).random(200)
    expected, found = start.copy(), start.copy()
    oracle(expected)
    gw.jit(reassociate=True)(function)(found)
    assert np.allclose(found, expected, rtol=1e-13, atol=0.0)


def add_row(p, out, x):
    total = 0.0
    for i in range(x.shape[1]):
        total += x[p[0], i]
    out[p] = total


def row_sum(p, x):
    total = 0.0
    for i in range(x.shape[1]):
        total += x[p[0], i]
    return total


def test_kernels_and_reductions() -> None:
    x = numbers().reshape(1, -1)
    array, out = gw.Array(x), gw.Array.zeros(gw.RectDomain(0, 1))
    exact = in_order(x[0])
    found: dict[bool, tuple[Any, ...]] = {}
    for reassociate in (False, True):
        gw.foreach(reassociate=reassociate)(add_row)(out.domain, out, array)
        total = gw.reduce(op="max", reassociate=reassociate)(row_sum)(out.domain, array)
        found[reassociate] = out[0], total
    assert found[False] == (exact, exact)
    assert exact not in found[True]


@gw.jit(reassociate=True)
def helper(x, row):
    total = 0.0
    for i in range(x.shape[1]):
        total += x[row, i]
    return total


def call_helper(p, out, x):
    out[p] = helper(x, p[0])


def test_helpers_have_their_own_permission() -> None:
    x = numbers().reshape(1, -1)
    array, out = gw.Array(x), gw.Array.zeros(gw.RectDomain(0, 1))
    gw.foreach(call_helper)(out.domain, out, array)
    assert out[0] != in_order(x[0])


def test_threads_of_a_team_have_it_too() -> None:
    @gw.jit(reassociate=True)
    def of_a_team(team, x):
        return reordered(x)

    assert gw.parallel(of_a_team, numbers(), threads=1) == reordered(numbers())


def test_devices_keep_the_order() -> None:
    x, out = gw.Array(np.arange(1.0, 65.0).reshape(1, -1) ** -3), gw.Array.zeros(gw.RectDomain(0, 1))
    with emulated_gpu():
        as_interpreted(gw.foreach(reassociate=True)(add_row), out.domain, out, x)
