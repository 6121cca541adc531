"""Reductions on the emulated GPU give what they give on the host, whatever the blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.gpu.bindings import assemble
from gondwana.kernels.cuda.build import build
from gondwana.kernels.cuda.shapes import Shape
from gondwana.testing.gpu import emulated_gpu
from support.twins import SMALL, Mirror, same_everywhere, shaped

pytestmark = pytest.mark.timeout(120)

BOX = gw.RectDomain((-2, 0, 3), (5, 9, 16))
RIM = BOX - BOX.shrink(2)
ODD = Shape(x=5, y=1, steps=3)
SHAPES = [Shape(x=1, y=1, steps=2), Shape(x=3, y=5, lanes=2, steps=2), Shape(x=7, y=7, steps=1)]
"""Odd numbers of threads, and last warps that are not full."""


@pytest.fixture(autouse=True, scope="module")
def _gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


def value(p, a):
    return a[p]


REDUCTIONS = {op: gw.reduce(op=op)(value) for op in ("sum", "fsum", "prod", "min", "max")}  # type: ignore[call-overload]


@pytest.mark.parametrize("shape", SHAPES, ids=["one thread", "lanes", "two warps"])
def test_blocks_of_odd_shapes(shape: Shape) -> None:
    rng = np.random.default_rng(1)
    a = gw.Array(rng.uniform(-1.0, 1.0, BOX.shape) * 10.0 ** rng.integers(-90, 90, BOX.shape), BOX)
    numbers = [a[p] for p in RIM]
    assert same_everywhere(REDUCTIONS["fsum"], RIM, a, shape=shape) == (math.fsum(numbers),) * 2
    assert same_everywhere(REDUCTIONS["max"], RIM, a, shape=shape) == (max(numbers),) * 2


def test_every_operation() -> None:
    a = gw.Array(np.random.default_rng(2).uniform(0.9, 1.1, 50))
    for op, reduction in REDUCTIONS.items():
        expected, found = same_everywhere(reduction, a.domain, a, shape=ODD)
        assert found == pytest.approx(expected, rel=1e-13 if op in ("sum", "prod") else 0), op


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_stay_integers(dtype: str) -> None:
    data = np.random.default_rng(3).integers(0, 40, 50).astype(dtype)
    data[7], data[9] = np.iinfo(dtype).max, np.iinfo(dtype).min
    a = gw.Array(data)
    for op, expected in (("min", int(data.min())), ("max", int(data.max()))):
        found = same_everywhere(REDUCTIONS[op], a.domain, a, shape=ODD)[1]
        assert (found, type(found)) == (expected, int)


def test_few_points_and_none() -> None:
    """Most threads have no point: what they start from must not show."""
    a = gw.Array(np.full(12, -7.0))
    for domain in (gw.RectDomain(3, 5), gw.RectDomain(4, 4), a.domain - a.domain):
        for op, reduction in REDUCTIONS.items():
            expected, found = same_everywhere(reduction, domain, a, shape=ODD)
            assert found == expected, op


@pytest.mark.parametrize("place", [0, 11, 49])
def test_nan_and_infinities(place: int) -> None:
    for special in ([math.nan], [math.inf], [math.inf, -math.inf]):
        data = np.linspace(-1.0, 1.0, 52)
        data[place : place + len(special)] = special
        a = gw.Array(data)
        for op in ("sum", "fsum", "min", "max"):
            expected, found = same_everywhere(REDUCTIONS[op], a.domain, a, shape=ODD)
            assert found == expected or (math.isnan(found) and math.isnan(expected)), (special, op)


def test_blocks_that_take_several_tiles() -> None:
    """Then fewer, whose results lie where older ones were, and more than ever before."""
    for size in (3000, 40, 6000):
        a = gw.Array(np.random.default_rng(size).random(size))
        assert same_everywhere(REDUCTIONS["fsum"], a.domain, a, shape=ODD) == (math.fsum(a.numpy()),) * 2


@pytest.mark.parametrize("shape", [Shape(x=64, y=16, lanes=2), Shape(x=256, y=1)], ids=["3d", "1d"])
def test_exact_sums_are_assembled_without_a_stack(shape: Shape) -> None:
    ndim = 3 if shape.y > 1 else 1
    box = gw.RectDomain((0,) * ndim, (64,) * ndim)
    variant, _, _ = REDUCTIONS["fsum"].variant_of(box, (gw.Array.zeros(box),), {})
    code = build(REDUCTIONS["fsum"].py_func, variant, shape, (9, 0))
    found = assemble(code.code, (9, 0))[1][code.symbol]
    assert found.local == 0
    assert found.shared <= 48 << 10
    assert found.registers <= 64  # a block of 1024 threads fits


def test_what_is_no_number_is_refused() -> None:
    a, mirror = gw.Array.zeros(BOX), Mirror()

    @gw.reduce
    def pair(p, a):
        return a[p], a[p]

    with shaped(SMALL):
        with pytest.raises(KernelError, match=r"pair returns .*: a kernel of @gw\.reduce returns a real number"):
            pair(BOX, mirror.of(a))
        with pytest.raises(UsageError, match=r"value .* touches a"):
            REDUCTIONS["sum"](BOX.accrete(1), mirror.of(a))
    mirror.close()
