"""Reductions against NumPy and math.fsum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError


def value(p, a):
    return a[p]


REDUCTIONS = {op: gw.reduce(op=op)(value) for op in ("sum", "fsum", "prod", "min", "max")}  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _threads_again() -> Any:
    before = gw.threads()
    yield
    gw.set_threads(before)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16", "uint64", "bool"])
def test_reductions_of_each_dtype(dtype: str, threads: int) -> None:
    gw.set_threads(threads)
    data = np.random.default_rng(1).integers(0 if dtype in ("bool", "uint64") else -9, 10, 6000).astype(dtype)
    if dtype == "uint64":
        data[:3] = 2**63, 2**63 + 5, 2**40
        data[3:] = data[3:] % 2
    a = gw.Array(data)
    wide = data.astype(object)
    assert REDUCTIONS["min"](a.domain, a) == data.min()
    assert REDUCTIONS["max"](a.domain, a) == data.max()
    if dtype == "uint64":
        return
    assert REDUCTIONS["sum"](a.domain, a) == wide.sum()
    assert REDUCTIONS["fsum"](a.domain, a) == wide.sum()
    few = gw.Array(data[data != 0][:20])
    assert REDUCTIONS["prod"](few.domain, few) == math.prod(few.numpy().astype(object))


def test_kinds_of_results() -> None:
    for dtype, kind in (("float32", float), ("int8", int), ("bool", int)):
        a = gw.Array.full(gw.RectDomain(0, 5), 1, dtype)
        assert type(REDUCTIONS["sum"](a.domain, a)) is kind
        assert type(REDUCTIONS["fsum"](a.domain, a)) is float


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_the_neutral_elements(dtype: str) -> None:
    a = gw.Array.zeros(gw.RectDomain(0, 5), dtype)
    nothing = gw.RectDomain(3, 3)
    expected = {"sum": 0, "fsum": 0, "prod": 1, "min": math.inf, "max": -math.inf}
    assert {op: reduction(nothing, a) for op, reduction in REDUCTIONS.items()} == expected


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_few_points_on_many_threads(threads: int) -> None:
    """Some threads have no point: their neutral elements must not show."""
    gw.set_threads(threads)
    a = gw.Array(np.full((2, 3000), -7.0))
    assert [REDUCTIONS[op](a.domain, a) for op in ("min", "max", "sum")] == [-7.0, -7.0, -42000.0]
    n = gw.Array(np.full((2, 3000), 7))
    assert [REDUCTIONS[op](n.domain, n) for op in ("min", "max", "sum")] == [7, 7, 42000]


def test_domains_of_many_boxes() -> None:
    box = gw.RectDomain((-2, -2), (40, 50))
    a = gw.Array(np.random.default_rng(2).random(box.shape), box)
    rim = box - box.shrink(3)
    expected = math.fsum(a[p] for p in rim)
    assert REDUCTIONS["fsum"](rim, a) == expected
    assert REDUCTIONS["sum"](rim, a) == pytest.approx(expected, rel=1e-14)
    strided = box.with_stride((2, 3))
    assert REDUCTIONS["max"](strided, a) == max(a[p] for p in strided)


def test_nan_and_infinity() -> None:
    for data, expected in [
        ([1.0, math.inf], {"sum": math.inf, "fsum": math.inf, "min": 1.0, "max": math.inf}),
        ([-math.inf, 1.0], {"sum": -math.inf, "fsum": -math.inf, "min": -math.inf, "max": 1.0}),
        ([math.inf, -math.inf], {"sum": math.nan, "fsum": math.nan, "min": -math.inf, "max": math.inf}),
        ([1.0, math.nan, 2.0], dict.fromkeys(REDUCTIONS, math.nan)),
        ([math.nan, 1.0, -1.0], dict.fromkeys(REDUCTIONS, math.nan)),
        ([1.0, -1.0, math.nan], dict.fromkeys(REDUCTIONS, math.nan)),
    ]:
        a = gw.Array(np.array(data))
        found = {op: REDUCTIONS[op](a.domain, a) for op in expected}
        assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("place", [0, 2999, 3000, 5999])
def test_a_nan_anywhere_on_any_thread(place: int) -> None:
    gw.set_threads(2)
    data = np.random.default_rng(3).random(6000)
    data[place] = math.nan
    a = gw.Array(data)
    assert all(math.isnan(reduction(a.domain, a)) for reduction in REDUCTIONS.values())


def test_fsum_does_not_depend_on_threads_or_order() -> None:
    rng = np.random.default_rng(4)
    data = rng.standard_normal(20000) * 10.0 ** rng.integers(-250, 250, 20000)
    exact = math.fsum(data)
    for threads in (1, 2, 3, 4):
        gw.set_threads(threads)
        for order in (data, data[::-1], np.sort(data)):
            a = gw.Array(order)
            assert REDUCTIONS["fsum"](a.domain, a) == exact


def test_fsum_beyond_the_range() -> None:
    big = np.finfo(float).max
    for data, expected in [
        ([big, big], math.inf),
        ([-big, -big], -math.inf),
        ([big, big, -big, -big, 1.0], 1.0),
        ([5e-324, -5e-324, 5e-324], 5e-324),
        ([2.0**-1022, -(2.0**-1074)], 2.0**-1022 - 2.0**-1074),
        ([1.0, 2.0**-53, 2.0**-1074], 1.0 + 2.0**-52),
        ([-1.0, -(2.0**-53), -(2.0**-1074)], -1.0 - 2.0**-52),
        ([0.0, -0.0], 0.0),
    ]:
        a = gw.Array(np.array(data))
        assert REDUCTIONS["fsum"](a.domain, a) == expected


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fsum_of_numbers_that_fill_the_running_sums(dtype: str) -> None:
    """As large as those that 1.0 makes room for, and remainders as large as they can be, all of one sign."""
    gw.set_threads(1)
    for value in (np.nextafter(np.dtype(dtype).type(4), 0), 4 - 2.0**-40, 2.0**-40, 3 * 2.0**-41, 4.0):
        for first in (1, 511, 512, 513):
            data = np.full(first + 9 * 512, value, dtype)
            data[:first] = 1.0
            for sign in (1.0, -1.0):
                a = gw.Array((sign * data).astype(dtype))
                assert REDUCTIONS["fsum"](a.domain, a) == math.fsum(a.numpy().tolist())


def test_fsum_of_numbers_beyond_the_limit_that_running_sums_could_take_in() -> None:
    values = np.repeat([1.0, 60.0], 512)
    values[700] += 2.0**-39
    a = gw.Array(np.append(values, -61.0 * 512))
    assert REDUCTIONS["fsum"](a.domain, a) == 2.0**-39


@gw.reduce(op="fsum")
def weighted(p, a, w=0.5):
    return a[p + gw.X] * w


def test_arguments_and_checks_are_those_of_kernels() -> None:
    a = gw.Array(np.arange(10.0))
    assert weighted(gw.RectDomain(0, 9), a) == 22.5
    assert weighted(gw.RectDomain(0, 9), a=a, w=2.0) == 90.0
    with pytest.raises(UsageError, match="touches a"):
        weighted(a.domain, a)


def test_the_operation_must_exist() -> None:
    with pytest.raises(UsageError, match=r"'mean'.*sum, fsum, prod, min, max"):
        gw.reduce(op="mean")  # type: ignore[arg-type]


def test_over_a_team_of_one() -> None:
    a = gw.full(100, 0.1)
    total = REDUCTIONS["fsum"]
    assert total.all(a.team, a.owned, a) == 10.0
    assert REDUCTIONS["max"].all(a.team, a.owned, a) == 0.1


def test_the_interpreter_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    a = gw.Array(rng.standard_normal(200) * 10.0 ** rng.integers(-30, 30, 200))
    compiled = {op: reduction(a.domain, a) for op, reduction in REDUCTIONS.items()}
    monkeypatch.setenv("GONDWANA_INTERPRET", "1")
    interpreted = {op: gw.reduce(op=op)(value)(a.domain, a) for op in REDUCTIONS}  # type: ignore[call-overload]
    assert interpreted == pytest.approx(compiled, rel=1e-12)
    assert interpreted["fsum"] == compiled["fsum"] == math.fsum(a.numpy())
    special = gw.Array(np.array([math.inf, -math.inf, 1e308, 1e308]))
    assert math.isnan(gw.reduce(op="fsum")(value)(special.domain, special))
    large = gw.Array(np.array([1e308, 1e308, -1e308, -1e308, 3.0]))
    assert gw.reduce(op="fsum")(value)(large.domain, large) == 3.0
