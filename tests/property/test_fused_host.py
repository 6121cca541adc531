"""Fused pairs on the host: the bits of two sweeps for any box, tiling, order, types and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.kernels.cpu import launch

pytestmark = pytest.mark.timeout(300)

PAIR = {
    "C": (gw.Intermediate("float64"), gw.Intermediate("float32")),
    "F": (gw.Intermediate("float32"), gw.Intermediate("int16")),
}
WHOLE = gw.RectDomain((-3, 0, 5), (12, 20, 80))


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = gw.threads()
    monkeypatch.setattr(launch, "_SMALL", 1)
    yield
    gw.set_threads(before)


@gw.foreach
def spread(p, pair, a, rate):
    pair[0][p] = a[p] + rate * (a[p - gw.X] + a[p + gw.X + gw.Y] + a[p - gw.Y] + a[p + gw.Z] + gw.random(1, p, 2))
    pair[1][p] = a[p] * p[0] - p[1]


@gw.foreach
def gather(p, out, a, pair):
    m, n = pair
    out[p] = a[p] - m[p] + m[p - gw.X] * m[p + gw.X] + m[p - gw.Y] + n[p + gw.Y] - n[p + gw.Z] * m[p - gw.Z]


@gw.foreach(flush_subnormals=True)
def halve(p, out, a):
    out[p] = a[p] * 0.5 + a[p + gw.X]


@gw.foreach
def late(p, out, a):
    if p[0] == 3 and p[1] == 4:
        raise ValueError("too late")
    out[p] = a[p]


@gw.foreach
def copy(p, out, a):
    out[p] = a[p]


@st.composite
def boxes(draw: Any) -> gw.RectDomain:
    room = WHOLE.shrink(2)
    lo = [draw(st.integers(low, high - 1)) for low, high in zip(room.lo, room.hi, strict=True)]
    return gw.RectDomain(lo, [draw(st.integers(low, high)) for low, high in zip(lo, room.hi, strict=True)])


@settings(max_examples=60, deadline=None)
@given(
    box=boxes(),
    order=st.sampled_from("CF"),
    count=st.integers(1, 4),
    cache=st.sampled_from((1, 2000, 20000, 1 << 20)),
    shortest=st.sampled_from((1, 7, 64)),
)
def test_a_pair_has_the_bits_of_two_sweeps(
    box: gw.RectDomain, order: Any, count: int, cache: int, shortest: int
) -> None:
    a, out, expected = (gw.Array.zeros(WHOLE, "float64" if order == "C" else "float32", order=order) for _ in range(3))
    a.numpy()[...] = np.random.default_rng(3).random(WHOLE.shape)
    pair = PAIR[order]
    stored = tuple(gw.Array.zeros(WHOLE, middle.dtype, order=order) for middle in pair)
    gw.set_threads(count)
    spread(box.accrete(1), stored, a, 0.3)
    gather(box, expected, a, stored)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_cache_size", lambda: cache)
        patch.setattr(launch, "_SHORTEST", shortest)
        gw.fused(box, (spread, pair, a, 0.3), (gather, out, a, pair))
    np.testing.assert_array_equal(out.numpy(), expected.numpy())


def test_a_pair_is_what_numpy_computes() -> None:
    box, middle = WHOLE.shrink(2), gw.Intermediate()
    a, out = gw.Array.zeros(WHOLE), gw.Array.zeros(WHOLE)
    a.numpy()[...] = np.random.default_rng(4).random(WHOLE.shape)
    values = a.numpy()
    once = values[:-1] * 0.5 + values[1:]
    for count in (1, 3):  # the second launch has more threads than the first had planes for
        gw.set_threads(count)
        out.fill(0.0)
        gw.fused(box, (halve, middle, a), (halve, out, middle))
        twice = once[:-1] * 0.5 + once[1:]
        np.testing.assert_array_equal(out.restrict(box).numpy(), twice[2:, 2:-2, 2:-2])


def test_kernels_that_treat_subnormal_numbers_differently_take_two_sweeps() -> None:
    box, middle = WHOLE.shrink(2), gw.Intermediate()
    a, out = gw.Array.full(WHOLE, 2.0), gw.Array.zeros(WHOLE)
    gw.fused(box, (halve, middle, a), (copy, out, middle))
    assert set(np.unique(out.restrict(box).numpy())) == {3.0}


def test_an_exception_says_at_which_point() -> None:
    middle, a, out = gw.Intermediate(), gw.Array.full(WHOLE, 2.0), gw.Array.zeros(WHOLE)
    with pytest.raises(ValueError, match=r"too late \(raised in copy or late at Point\(3, 4, "):
        gw.fused(WHOLE.shrink(2), (copy, middle, a), (late, out, middle))


def test_arrays_that_end_too_soon_are_refused() -> None:
    middle, a, out = gw.Intermediate(), gw.Array.zeros(WHOLE), gw.Array.zeros(WHOLE)
    with pytest.raises(UsageError, match=r"halve on .* touches a"):
        gw.fused(WHOLE.shrink(1), (halve, middle, a), (halve, out, middle))
