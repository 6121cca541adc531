"""Fourier transforms of arrays over several ranks against `numpy.fft`: any grid, cuts, ghosts, empty blocks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError

pytestmark = [
    pytest.mark.parallel,
    pytest.mark.ranks(2, 3, 4, 6),  # one rank: see property/test_fourier.py
    pytest.mark.ranks(4, ranks_per_node=2),
]

SHAPE = (5, 4, 7)


def random(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(2)
    found = generator.random((2, *shape)) - 0.5
    return (found[0] + 1j * found[1] if dtype in "FD" else found[0]).astype(dtype)


def grids(ranks: int, ndim: int) -> list[tuple[int, ...]]:
    """Slabs across the last axis and across the first one, and pencils in between if there are any."""
    found = [grid for grid in itertools.product(range(1, ranks + 1), repeat=ndim) if math.prod(grid) == ranks]
    return list(dict.fromkeys([found[0], found[len(found) // 2], found[-1]]))


def waves_of(elements: np.ndarray[Any, Any], axes: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = (np.fft.fftn if elements.dtype.kind == "c" else np.fft.rfftn)(elements, axes=axes)
    return found


def check_a_plan(array: gw.GlobalArray, elements: np.ndarray[Any, Any], plan: gw.fft.Plan, axes: Any) -> None:
    """The spectrum, its frequencies, and the way back, twice."""
    near = 1e-12 if elements.dtype.char in "dD" else 1e-5
    real, which = elements.dtype.kind == "f", axes or tuple(range(elements.ndim))
    spectrum, back = None, gw.zeros_like(array)
    for _ in range(2):
        spectrum = plan.forward(array, spectrum)
        wanted = waves_of(elements, axes).transpose(plan.order)
        np.testing.assert_allclose(spectrum.to_numpy(), wanted, atol=20 * near)
        assert plan.inverse(spectrum, back) is back
        np.testing.assert_allclose(back.to_numpy(), elements, atol=near)
        np.testing.assert_allclose(spectrum.to_numpy(), wanted, atol=20 * near)
    assert spectrum is not None
    assert spectrum.layout == plan.spectrum
    for axis, own in zip(which, plan.frequencies(0.5), strict=True):
        make = np.fft.rfftfreq if real and axis == which[-1] else np.fft.fftfreq
        place = plan.order.index(axis)
        first = spectrum.owned.lo[place] - spectrum.domain.lo[place]
        np.testing.assert_array_equal(
            own.ravel(), make(elements.shape[axis], 0.5)[first : first + spectrum.owned.shape[place]]
        )
        assert np.broadcast_shapes(own.shape, spectrum.values.shape) == spectrum.values.shape


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["f", "D"])
def test_plans_for_all_grids(dtype: str, transposed: bool) -> None:
    elements = random(SHAPE, dtype)
    for grid in grids(gw.world.size, 3):
        for axes in (None, (2, 0)):
            array = gw.from_numpy(elements, gw.RectDomain((-2, 1, 3), (3, 5, 10)), grid=grid, ghost=1, periodic=True)
            check_a_plan(array, elements, gw.fft.plan(array, axes, transposed=transposed), axes)


@pytest.mark.parametrize("dtype", ["d", "F"])
def test_cuts_and_orders_of_memory(dtype: str) -> None:
    elements, ranks = random((6, 9), dtype), gw.world.size
    cuts = [[0, *[1] * (ranks - 2), 9 - max(0, ranks - 2)]] if ranks > 1 else [[9]]
    for order, transposed in itertools.product("CF", (False, True)):
        array = gw.from_numpy(elements, cuts=(None, *cuts), order=order)
        check_a_plan(array, elements, gw.fft.plan(array, transposed=transposed), None)


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 2), (2, 1, 1), (2, 3, 2, 2)])
def test_functions_where_some_blocks_are_empty(shape: tuple[int, ...]) -> None:
    for elements in (random(shape, "d"), random(shape, "D")):
        array = gw.from_numpy(elements)
        spectrum = gw.fft.fftn(array, norm="ortho")
        assert (spectrum.grid, spectrum.ghost) == (array.grid, (0,) * array.ndim)
        np.testing.assert_allclose(spectrum.to_numpy(), np.fft.fftn(elements, norm="ortho"), atol=1e-13)
        np.testing.assert_allclose(gw.fft.ifftn(spectrum, norm="ortho").to_numpy(), elements, atol=1e-13)
    elements = random(shape, "d")
    half = gw.fft.rfftn(gw.from_numpy(elements))
    np.testing.assert_allclose(half.to_numpy(), np.fft.rfftn(elements), atol=1e-13)
    np.testing.assert_allclose(gw.fft.irfftn(half * 2.0, s=shape).to_numpy(), 2 * elements, atol=1e-13)


def test_in_place() -> None:
    elements = random((6, 5), "D")
    array = gw.from_numpy(elements)
    plan = gw.fft.plan(array)
    assert plan.forward(array, array) is array
    np.testing.assert_allclose(array.to_numpy(), np.fft.fftn(elements), atol=1e-13)
    assert plan.inverse(array, array) is array
    np.testing.assert_allclose(array.to_numpy(), elements, atol=1e-13)


def test_what_differs_between_ranks_is_refused_by_all() -> None:
    if gw.world.size > 1:
        array = gw.zeros((4, 4))
        with pytest.raises(UsageError, match="axes"):
            gw.fft.plan(array, (gw.world.rank % 2,))
