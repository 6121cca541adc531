"""Launches are remembered by the values of their domains and arguments: how often one is prepared, and what is kept."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.kernels import foreach_kernels, fusion

BOX = gw.RectDomain((0, 0, 0), (8, 8, 8))


@gw.foreach
def increment(p, a):
    a[p] = a[p] + 1.0


@gw.reduce
def total(p, a):
    return a[p]


@gw.foreach
def average(p, out, a):
    out[p] = 0.5 * (a[p - gw.X] + a[p + gw.X])


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The domains of all launches that are prepared, of kernels and of pairs."""
    domains: list[Any] = []
    one, pair = foreach_kernels.Kernel._prepared, fusion._prepared

    def note_one(kernel: Any, domain: Any, *others: Any) -> Any:
        domains.append(domain)
        return one(kernel, domain, *others)

    def note_pair(domain: Any, *others: Any) -> Any:
        domains.append(domain)
        return pair(domain, *others)

    monkeypatch.setattr(foreach_kernels.Kernel, "_prepared", note_one)
    monkeypatch.setattr(fusion, "_prepared", note_pair)
    for kernel in (increment, total, average):
        kernel._remembered.clear()
    fusion._remembered.clear()
    return domains


def test_equal_domains_made_anew_are_one_launch(prepared: list[Any]) -> None:
    a = gw.Array.zeros(BOX)
    for _ in range(3):
        increment(gw.RectDomain((2, 2, 2), (4, 4, 4)), a)
        increment(gw.RectDomain((4, 4, 4), (8, 8, 8), 2), a)
        increment(BOX - BOX.shrink(1), a)
    assert len(prepared) == 3
    assert [total(gw.RectDomain((2, 2, 2), (4, 4, 4)), a) for _ in range(3)] == [24.0, 24.0, 24.0]
    assert total(gw.RectDomain((4, 4, 4), (8, 8, 8), 2), a) == 24.0
    assert len(prepared) == 5
    b, between = gw.Array.zeros(BOX), gw.Intermediate()
    for _ in range(3):
        inside = gw.RectDomain((3, 3, 3), (5, 5, 5))
        pair = (average, between, a), (average, b, between)
        gw.fused(gw.RectDomain((2, 2, 2), (6, 6, 6)), *pair)
        gw.fused(gw.RectDomain((2, 2, 2), (6, 6, 6)), *pair, interior=(inside, average, average))
    assert len(prepared) == 7


def test_other_arguments_of_an_equal_domain_are_other_launches(prepared: list[Any]) -> None:
    for dtype in ("float64", "float32"):
        arrays = [gw.Array.zeros(BOX, dtype), gw.Array(np.zeros((20, 20, 20), dtype), BOX.accrete(6))]
        for _ in range(2):
            for a in arrays:
                increment(gw.RectDomain((0, 0, 0), (4, 4, 4)), a)
        assert [float(a.numpy().sum()) for a in arrays] == [128.0, 128.0]
    assert len(prepared) == 4


def test_empty_domains_of_other_dimensions_are_others() -> None:
    line, plane = gw.Array.zeros(gw.RectDomain(0, 4)), gw.Array.zeros(gw.RectDomain((0, 0), (4, 4)))
    for _ in range(2):
        increment(gw.Domain.of(gw.RectDomain(0, 0)), line)
        increment(gw.Domain.of(gw.RectDomain((0, 0), (0, 0))), plane)
    assert not line.numpy().any()
    assert not plane.numpy().any()


def test_domains_whose_identities_come_again_are_not_mistaken() -> None:
    """Each box is gone when the next one is made, often in its place."""
    a = gw.Array.zeros(gw.RectDomain(0, 2000))
    expected = np.zeros(2000)
    for step in range(1, 700):
        first, last = step % 13, step * 2
        increment(gw.RectDomain(first, last), a)
        expected[first:last] += 1.0
        assert total(gw.RectDomain(first, last), a) == expected[first:last].sum()
    assert np.array_equal(a.numpy(), expected)


def test_memory_is_bounded_and_keeps_no_arrays() -> None:
    b, between = gw.Array.zeros(BOX), gw.Intermediate()
    gone = []
    for step in range(300):
        values = np.zeros((8 + step % 3, 8, 8))
        a = gw.Array(values, gw.RectDomain((0, 0, 0), values.shape))
        increment(gw.RectDomain((0, 0, 0), (1 + step % 7, 1 + step // 7 % 7, 1 + step // 49)), a)
        total(gw.RectDomain((0, 0, 0), (1 + step % 7, 1 + step // 7 % 7, 1 + step // 49)), a)
        if step % 4 == 0:
            gw.fused(gw.RectDomain((2, 2, 2), (3 + step % 3, 4, 4)), (average, between, a), (average, b, between))
        gone.append(weakref.ref(values))
    del a, values
    gc.collect()
    assert not any(reference() is not None for reference in gone)
    for kernel in (increment, total):
        assert 0 < len(kernel._remembered) <= 2 * foreach_kernels._MEMO
    assert 0 < len(fusion._remembered) <= 2 * fusion._MEMO


@gw.foreach
def refuse_negative(p, out, a):
    if a[p] < 0.0:
        raise ValueError("negative")
    out[p] = a[p]


def test_launches_that_were_prepared_raise_what_their_points_raise() -> None:
    a, out = gw.Array.zeros(BOX), gw.Array.zeros(BOX)
    launch = refuse_negative.prepared(gw.RectDomain((2, 2, 2), (4, 4, 4)), out, a)
    a[3, 2, 3] = -1.0
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            launch()
    a.fill(3.0)
    gc.collect()
    launch()
    assert out.numpy().sum() == 8 * 3.0
