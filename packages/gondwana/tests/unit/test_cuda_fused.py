"""Fused pairs on the emulated GPU: the bits of two sweeps on the host, and what is refused before memory is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.kernels.cuda.shapes import Shape
from gondwana.testing.gpu import emulated_gpu
from support.twins import Mirror, compare, shaped

pytestmark = pytest.mark.timeout(120)

BOX = gw.RectDomain((-1, 0, 2), (6, 9, 13))
INNER = BOX.shrink(2)
TILE = Shape(x=4, y=4, steps=2)
MIDDLE = gw.Intermediate()


@pytest.fixture(autouse=True, scope="module")
def _gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


@gw.foreach
def spread(p, out, a, rate):
    out[p] = a[p] + rate * (a[p - gw.X] + a[p + gw.X] + a[p - gw.Y] + a[p + gw.Y] + a[p - gw.Z] + a[p + gw.Z])


@gw.foreach
def corner(p, out, a, rate):
    out[p] = a[p + gw.X + gw.Y] * rate


@gw.foreach
def aside(p, out, a, rate):
    out[p + gw.X] = a[p] * rate


def numbers(order: Any = "C", dtype: Any = float) -> gw.Array:
    return gw.Array(np.asarray(np.random.default_rng(1).random(BOX.shape), dtype, order=order), BOX)


@pytest.mark.parametrize(("order", "dtype"), [("C", "float64"), ("F", "float32")])
def test_a_pair_has_the_bits_of_two_sweeps(order: str, dtype: str) -> None:
    a, b, between = numbers(order, dtype), gw.Array.zeros(BOX, dtype, order=order), gw.Intermediate(dtype)

    def run(a: Any, b: Any) -> None:
        gw.fused(INNER, (spread, between, a, 0.1), (spread, b, between, 0.3))

    compare(run, a, b, shape=TILE)
    assert b.numpy().any()


def test_a_remembered_pair_takes_new_numbers_and_other_arrays() -> None:
    a, b, between = numbers(), gw.Array.zeros(BOX), gw.Intermediate()

    def run(a: Any, b: Any) -> None:
        for rate in (0.1, 0.2):
            gw.fused(INNER, (spread, between, a, rate), (spread, b, between, rate))
            gw.fused(INNER, (spread, between, b, rate), (spread, a, between, rate))

    compare(run, a, b, shape=TILE)


REFUSED: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "a result over a source": ((spread, "m", "a"), (spread, "a", "m"), UsageError, "overlap"),
    "two results": ((spread, "b", "a"), (spread, "c", "m"), UsageError, "writes intermediates only"),
    "read by the first": ((spread, "b", "m"), (spread, "a", "m"), KernelError, "cannot read what it leaves"),
    "written by the second": ((spread, "m", "a"), (spread, "m", "b"), KernelError, "cannot write what the first"),
    "read at a corner": ((spread, "m", "a"), (corner, "b", "m"), KernelError, "nearest neighbours only"),
    "written beside": ((aside, "m", "a"), (spread, "b", "m"), KernelError, "at its own point only"),
    "no kernel": (("spread", "m", "a"), (spread, "b", "m"), UsageError, "takes pairs"),
    "many arguments": ((spread, "m", "a", "c"), (spread, "b", "m"), UsageError, "takes 3 arguments, not 4"),
}
"""Two kernels with arrays a, b, c and the intermediate m, the error, and what it says."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_pair_cannot_do_is_refused_on_the_host_too(case: str) -> None:
    first, second, error, match = REFUSED[case]
    known: dict[str, Any] = {**{name: numbers() for name in "abc"}, "m": MIDDLE}
    with pytest.raises(error, match=match):
        gw.fused(INNER, *((kernel, *map(known.__getitem__, names), 0.1) for kernel, *names in (first, second)))
    assert all(np.array_equal(known[name].numpy(), numbers().numpy()) for name in "abc")


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_pair_cannot_do_is_refused(case: str) -> None:
    first, second, error, match = REFUSED[case]
    mirror, arrays = Mirror(), {name: numbers() for name in "abc"}
    known = {**{name: mirror.of(array) for name, array in arrays.items()}, "m": MIDDLE}
    with shaped(TILE), pytest.raises(error, match=match):
        gw.fused(INNER, *((kernel, *map(known.__getitem__, names), 0.1) for kernel, *names in (first, second)))
    mirror.check()
    mirror.close()


def test_domains_that_no_pair_runs_over_are_refused() -> None:
    mirror, a, b = Mirror(), numbers(), gw.Array.zeros(BOX)
    first, second = (spread, MIDDLE, mirror.of(a), 0.1), (spread, mirror.of(b), MIDDLE, 0.1)
    for domain in (BOX.with_stride(2), gw.RectDomain((0, 0), (4, 4)), BOX - INNER):
        with pytest.raises(UsageError, match="dense RectDomain of three axes"):
            gw.fused(domain, first, second)
    with pytest.raises(UsageError, match="at least 2 x 2 points"):
        gw.fused(gw.RectDomain((0, 2, 4), (4, 3, 9)), first, second)
    with shaped(TILE), pytest.raises(UsageError, match=r"spread on .* touches a"):
        gw.fused(BOX.shrink(1), first, second)
    gw.fused(gw.RectDomain((0, 2, 4), (0, 3, 9)), first, second)
    mirror.check()
    mirror.close()


def test_arguments_are_counted_for_each_kernel() -> None:
    """Also where all of them together are those of an earlier call."""
    a, b, between = numbers(), gw.Array.zeros(BOX), gw.Intermediate()
    gw.fused(INNER, (spread, between, a, 0.1), (spread, b, between, 0.1))
    with pytest.raises(UsageError, match="takes 3 arguments, not 4"):
        gw.fused(INNER, (spread, between, a, 0.1, b), (spread, between, 0.1))


def test_other_kernels_in_the_interior_are_the_hosts_and_folded_values_too() -> None:
    a, b = numbers(), gw.Array.zeros(BOX)

    def run(a: Any, b: Any) -> None:
        interior = BOX.shrink(3), spread, spread
        gw.fused(INNER, (spread, MIDDLE, a, 0.1), (spread, b, MIDDLE, 0.3), interior=interior)

    compare(run, a, b, shape=TILE)
    mirror = Mirror()
    first, second = (spread, MIDDLE, mirror.of(a), 0.1), (gw.reduce(spread.py_func), mirror.of(b), MIDDLE, 0.3)
    with pytest.raises(
        UsageError, match=r"spread folds values and its arrays are on a device, .*: fold in a launch of"
    ):
        gw.fused(INNER, first, second)
    mirror.check()
    mirror.close()


def test_arrays_in_several_memories_are_refused() -> None:
    mirror, a, b = Mirror(), numbers(), gw.Array.zeros(BOX)
    with pytest.raises(UsageError, match="needs all its arrays in one memory, but got a in memory of device 0"):
        gw.fused(INNER, (spread, MIDDLE, mirror.of(a), 0.1), (spread, b, MIDDLE, 0.1))
    mirror.close()


def test_an_intermediate_is_for_pairs_only() -> None:
    with pytest.raises(UsageError, match="an argument of kernels in gw"):
        spread(INNER, MIDDLE, numbers(), 0.1)
    for dtype, ndim in (("complex64", 3), (float, 5)):
        with pytest.raises(UsageError, match="a real dtype and 1 to 4 axes"):
            gw.Intermediate(dtype, ndim)
