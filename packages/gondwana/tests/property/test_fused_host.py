"""Fused pairs on the host: the bits of two sweeps for any box, tiling, order, types and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gondwana as gw
from gondwana.errors import KernelError, UsageError
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


@gw.foreach
def smooth(p, out, a, box):
    left = a[p - gw.Z] if p[2] > box.lo[2] else 1.0
    down = a[p - gw.Y] if p[1] > box.lo[1] else 2.0
    back = a[p + gw.X] if p[0] < box.hi[0] - 1 else 3.0
    out[p] = a[p] - 0.5 * left - 0.25 * down + 0.125 * back


@gw.foreach
def smooth_inside(p, out, a, box):
    out[p] = a[p] - 0.5 * a[p - gw.Z] - 0.25 * a[p - gw.Y] + 0.125 * a[p + gw.X]


def weighed(p, out, a, box):
    left = a[p - gw.Z] if p[2] > box.lo[2] else 1.0
    down = a[p - gw.Y] if p[1] > box.lo[1] else 2.0
    back = a[p + gw.X] if p[0] < box.hi[0] - 1 else 3.0
    out[p] = a[p] - 0.5 * left - 0.25 * down + 0.125 * back
    return a[p] * p[0]


def weighed_inside(p, out, a, box):
    out[p] = a[p] - 0.5 * a[p - gw.Z] - 0.25 * a[p - gw.Y] + 0.125 * a[p + gw.X]
    return a[p] * p[0]


FOLDS = {op: (gw.reduce(weighed, op=op), gw.reduce(weighed_inside, op=op)) for op in ("sum", "fsum")}


@gw.reduce(op="max")
def points(p, out, a):
    out[p] = a[p]
    return p[0] + p[1]


@st.composite
def boxes(draw: Any) -> gw.RectDomain:
    room = WHOLE.shrink(2)
    lo = [draw(st.integers(low, high - 1)) for low, high in zip(room.lo, room.hi, strict=True)]
    return gw.RectDomain(lo, [draw(st.integers(low, high)) for low, high in zip(lo, room.hi, strict=True)])


@settings(max_examples=settings.default.max_examples // 2)
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


@settings(max_examples=settings.default.max_examples // 5)  # most examples compile two kernels
@given(
    box=boxes(),
    core=boxes(),
    op=st.sampled_from(list(FOLDS)),
    inside=st.booleans(),
    order=st.sampled_from("CF"),
    count=st.integers(1, 3),
    cache=st.sampled_from((1, 20000, 1 << 20)),
)
def test_values_are_folded_and_other_kernels_run_in_the_interior(
    box: gw.RectDomain, core: gw.RectDomain, op: str, inside: bool, order: Any, count: int, cache: int
) -> None:
    a, out, expected, stored = (gw.Array.zeros(WHOLE, order=order) for _ in range(4))
    a.numpy()[...] = np.random.default_rng(5).random(WHOLE.shape)
    middle, (fold, fold_inside) = gw.Intermediate(), FOLDS[op]
    smooth(box.accrete(1), stored, a, core)
    value = fold(box, expected, stored, core)
    interior = (core.shrink(1), smooth_inside, fold_inside) if inside else None
    gw.set_threads(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_cache_size", lambda: cache)
        patch.setattr(launch, "_SHORTEST", 7)
        found = gw.fused(box, (smooth, middle, a, core), (fold, out, middle, core), interior=interior)
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    assert found == (pytest.approx(value, rel=1e-12) if op == "sum" else value)


def test_integers_no_points_and_two_sweeps_give_values_too() -> None:
    box, middle = WHOLE.shrink(2), gw.Intermediate()
    a, out = gw.Array.full(WHOLE, 2.0), gw.Array.zeros(WHOLE)
    assert gw.fused(box, (copy, middle, a), (points, out, middle)) == 9 + 17
    assert gw.fused(box, (halve, middle, a), (points, out, middle)) == 9 + 17  # two sweeps
    assert set(np.unique(out.restrict(box).numpy())) == {3.0}
    empty = gw.RectDomain(box.lo, box.lo)
    assert gw.fused(empty, (copy, middle, a), (points, out, middle)) == -np.inf
    assert gw.fused(empty, (copy, middle, a), (copy, out, middle)) is None
    assert gw.fused(box, (copy, middle, a), (copy, out, middle)) is None


def test_values_that_cannot_be_folded_and_interiors_that_fit_no_pair() -> None:
    box, middle = WHOLE.shrink(2), gw.Intermediate()
    a, out = gw.Array.full(WHOLE, 2.0), gw.Array.zeros(WHOLE)
    first, second = (copy, middle, a), (copy, out, middle)
    with pytest.raises(UsageError, match=r"takes pairs .* of gw.foreach, not .*; the second may be one of gw.reduce"):
        gw.fused(box, (points, middle, a), second)
    with pytest.raises(KernelError, match=r"copy returns none: a kernel of @gw.reduce returns a real number"):
        gw.fused(box, first, (gw.reduce(copy.py_func), out, middle))
    for core in (box, 3), gw.RectDomain((0, 0), (3, 3)), gw.RectDomain((0, 0, 0), (4, 4, 4), (2, 1, 1)):
        with pytest.raises(UsageError, match="the interior of fused kernels is a dense RectDomain of three axes, not"):
            gw.fused(box, first, second, interior=(core, copy, copy))  # type: ignore[arg-type]
    for other in halve, smooth, points:
        with pytest.raises(UsageError, match=f"{other.py_func.__name__} cannot replace copy in the interior: both"):
            gw.fused(box, first, second, interior=(box, copy, other))
    with pytest.raises(UsageError, match="smooth cannot replace copy"):
        gw.fused(box, first, second, interior=(box, smooth, copy))


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
