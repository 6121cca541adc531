"""Fourier transforms against `numpy.fft`: of blocks with any strides, of global arrays, and their routes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gondwana as gw
from gondwana.fft import fftw, lines, numpy_fft
from gondwana.fft.routes import routes

NORMS = ("backward", "ortho", "forward")
TRANSFORMS = {"FFTW": lines.transform, "SciPy or NumPy": numpy_fft.transform}


def random(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(data.draw(st.integers(0, 9)))
    found = generator.random((2, *shape)) - 0.5
    return (found[0] + 1j * found[1] if dtype in "FD" else found[0]).astype(dtype)


def shapes_and_axes(data: st.DataObject) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axes = data.draw(st.permutations(range(len(shape))))
    return shape, tuple(axes[: data.draw(st.integers(1, len(shape)))])


def within(data: st.DataObject, elements: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements inside of an array with ghosts, in any order of memory."""
    order = data.draw(st.permutations(range(elements.ndim)))
    ghosts = data.draw(st.integers(0, 1))
    room = np.zeros([elements.shape[axis] + 2 * ghosts for axis in order], elements.dtype)
    inside = room[(slice(ghosts, -ghosts or None),) * elements.ndim].transpose(np.argsort(order))
    inside[...] = elements
    return inside


def close(found: Any, wanted: Any, dtype: str) -> None:
    np.testing.assert_allclose(found, wanted, atol=1e-12 if dtype in "dD" else 2e-3, rtol=1e-5)


@pytest.mark.parametrize("name", TRANSFORMS)
@settings(max_examples=60)
@given(st.data())
def test_blocks_with_any_strides(name: str, data: st.DataObject) -> None:
    if name == "FFTW" and fftw.LIBRARY is None:
        pytest.skip("no pyfftw")
    transform = TRANSFORMS[name]
    shape, axes = shapes_and_axes(data)
    dtype, scale = data.draw(st.sampled_from("fdFD")), data.draw(st.sampled_from([1.0, 0.25]))
    elements = random(data, shape, dtype)
    waves = (np.fft.rfftn if dtype in "fd" else np.fft.fftn)(elements, axes=axes)
    source, target = within(data, elements), within(data, np.zeros_like(waves, dtype=dtype.upper()))
    transform(source, target, axes, -1, scale)
    close(target, scale * waves, dtype)
    np.testing.assert_array_equal(source, elements)
    if dtype in "fd" and len(axes) == len(shape) > 1:  # the one case that two calls make
        return
    transform(target, source, axes, 1, 1 / scale)
    close(source / math.prod(shape[axis] for axis in axes), elements, dtype)


@settings(max_examples=60)
@given(st.data())
def test_functions_are_those_of_numpy(data: st.DataObject) -> None:
    """With the inverse, and Parseval's theorem."""
    shape, axes = shapes_and_axes(data)
    dtype, norm = data.draw(st.sampled_from("fdFD")), data.draw(st.sampled_from(NORMS))
    elements = random(data, shape, dtype)
    array = gw.from_numpy(elements, ghost=data.draw(st.integers(0, 1)), order=data.draw(st.sampled_from("CF")))
    waves = gw.fft.fftn(array, axes, norm)
    assert waves.dtype.char == dtype.upper()
    wanted = np.fft.fftn(elements, axes=axes, norm=norm)
    close(waves.to_numpy(), wanted, dtype)
    close(gw.fft.ifftn(waves, axes, norm).to_numpy(), elements, dtype)
    close(gw.fft.ifftn(array, axes, norm).to_numpy(), np.fft.ifftn(elements, axes=axes, norm=norm), dtype)
    if norm == "ortho":
        close((np.abs(waves.to_numpy()) ** 2).sum(), (np.abs(elements) ** 2).sum(), dtype)
    if dtype in "fd":
        half = gw.fft.rfftn(array, axes, norm)
        close(half.to_numpy(), np.fft.rfftn(elements, axes=axes, norm=norm), dtype)
        back = gw.fft.irfftn(half, [shape[axis] for axis in axes], axes, norm)
        close(back.to_numpy(), elements, dtype)
        even = gw.fft.irfftn(half, axes=axes, norm=norm) if half.shape[axes[-1]] > 1 else None
        if even is not None:
            close(even.to_numpy(), np.fft.irfftn(half.to_numpy(), axes=axes, norm=norm), dtype)


@settings(max_examples=60)
@given(st.data())
def test_routes_transform_each_axis_once_where_it_is_whole(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(2, 4))
    home = tuple(data.draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim)))
    axes = tuple(data.draw(st.permutations(range(ndim)))[: data.draw(st.integers(1, ndim))])
    real, transposed = data.draw(st.booleans()), data.draw(st.booleans())
    found = routes((8,) * ndim, home, axes, real=real, transposed=transposed)
    assert len({len(route) for route in found}) == len(found) > 0
    for route in found:
        assert sorted(axis for stage in route for axis in stage.axes) == sorted(axes)
        assert all(math.prod(stage.grid) == math.prod(home) for stage in route)
        assert all(stage.grid[axis] == 1 for stage in route for axis in stage.axes)
        assert all(sorted(stage.order) == list(range(ndim)) for stage in route)
        assert not real or route[0].axes[-1] == axes[-1]
    if all(home[axis] == 1 for axis in axes):
        assert [stage.grid for stage in found[0]] == [home]
